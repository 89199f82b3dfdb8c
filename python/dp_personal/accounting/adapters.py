"""Accounting histories of other libraries, evaluated by this package's accountants.

None of those libraries is imported: their objects are read by the names of their classes and fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast

from ..errors import UnsupportedEvent
from .accountant import Accountant, Adjacency, Method
from .events import (
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Logarithmic,
    MixtureOfGaussians,
    NonPrivate,
    Poisson,
    RandomizedResponse,
    RepeatAndSelect,
    Stopping,
    TreeAggregation,
    TruncatedNegativeBinomial,
    Zcdp,
    _plain,
    compose,
)

__all__ = ["from_dp_accounting", "from_opacus"]

Unit = Literal["user", "record"]


def from_opacus(history: Any, *, unit: Unit = "record", method: Method = "tightest") -> Accountant:
    """An accountant of the mechanisms that an Opacus accountant has recorded.

    `history` is that accountant, its `state_dict()`, or its list of (noise multiplier, sample rate, steps). All of
    Opacus' accountants record the same values, and assume Poisson samples and adding or removing one unit; so does
    this.
    """
    if isinstance(history, Mapping):
        history = history["history"]
    accountant = Accountant(adjacency=_adjacency("ADD_OR_REMOVE_ONE", unit), method=method)
    for noise_multiplier, sample_rate, steps in getattr(history, "history", history):
        rate: float = _plain("sample_rate", "float", sample_rate)
        count = _plain("steps", "int", steps)
        if count > 0 and rate > 0.0:
            accountant.compose(_sampled(_gaussian(_plain("noise_multiplier", "float", noise_multiplier)), rate), count)
    return accountant


def from_dp_accounting(
    event: Any, *, neighboring_relation: Any = None, unit: Unit = "record", method: Method = "tightest"
) -> Accountant:
    """An accountant of a `DpEvent` of `dp_accounting`, which JAX-Privacy and TensorFlow Privacy use, or of its accountants.

    `neighboring_relation` is that library's, or the name of one: ADD_OR_REMOVE_ONE, REPLACE_ONE or REPLACE_SPECIAL (a
    record replaced by an empty one, which compares the same distributions as its removal). By default it is the
    accountant's, or ADD_OR_REMOVE_ONE.

    A noise multiplier is relative to the largest norm of one record, as defined in the documentation of
    `GaussianDpEvent`, so a replacement moves a sum by up to twice that. An event without a counterpart here raises
    `UnsupportedEvent` with its class.
    """
    if hasattr(event, "get_epsilon") and hasattr(event, "ledger"):
        if neighboring_relation is None:
            neighboring_relation = event.neighboring_relation
        event = event.ledger
    relation = "ADD_OR_REMOVE_ONE" if neighboring_relation is None else neighboring_relation
    accountant = Accountant(adjacency=_adjacency(getattr(relation, "name", relation), unit), method=method)
    for part, count in _parts(event, 1, accountant.adjacency.startswith("replace")):
        accountant.compose(part, count)
    return accountant


_RELATIONS = {"ADD_OR_REMOVE_ONE": "add-remove", "REPLACE_SPECIAL": "add-remove", "REPLACE_ONE": "replace"}


def _adjacency(relation: str, unit: Unit) -> Adjacency:
    if relation not in _RELATIONS:
        raise _unsupported(f"neighboring relation {relation}")
    return cast(Adjacency, f"{_RELATIONS[relation]}-{unit}")


def _unsupported(what: str, why: str = "has no counterpart here") -> UnsupportedEvent:
    error = UnsupportedEvent(f"{what} {why}")
    error.event = what
    return error


def _name(event: Any) -> str:
    """The name of the class, also of an event that was converted to a named tuple."""
    name = getattr(event, "class_name", type(event).__name__)
    return name.decode() if isinstance(name, bytes) else str(name)


def _parts(event: Any, count: int, replaces: bool) -> list[tuple[Event, int]]:
    """The mechanisms of an event tree with their numbers of runs. Trees may be deep: no recursion into compositions."""
    found: list[tuple[Event, int]] = []
    todo = [(event, count)]
    while todo:
        event, count = todo.pop()
        name = _name(event)
        if name == "ComposedDpEvent":
            todo.extend((part, count) for part in reversed(list(event.events)))
        elif name == "SelfComposedDpEvent":
            times: int = _plain("count", "int", event.count)
            if times > 0:
                todo.append((event.event, times * count))
        elif name != "NoOpDpEvent":
            read = _READERS.get(name)
            if read is None:
                raise _unsupported(name)
            part = read(event, replaces)
            if part is not None:
                found.append((part, count))
    return found


def _gaussian(noise_multiplier: float) -> Event:
    return NonPrivate() if noise_multiplier == 0.0 else Gaussian(noise_multiplier)


def _sampled(event: Event, probability: float) -> Event:
    return event if probability == 1.0 or isinstance(event, NonPrivate) else event.poisson_sampled(probability)


def _on_one_sample(event: Any, replaces: bool) -> Event:
    """What runs on a sample: one mechanism, or Gaussians on the same sample, which are equivalent to one with less noise."""
    parts = _parts(event, 1, replaces)
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    if any(isinstance(part, NonPrivate) for part, _ in parts):
        return NonPrivate()
    if not parts or not all(isinstance(part, Gaussian) for part, _ in parts):
        raise _unsupported("a sampled composition", "of other mechanisms than Gaussians has no counterpart here")
    precision = math.fsum(count / cast(Gaussian, part).noise_multiplier ** 2 for part, count in parts)
    return Gaussian(math.sqrt(1.0 / precision) * (1.0 - 1e-15))


def _poisson_sampled(event: Any, replaces: bool) -> Event | None:
    probability: float = _plain("sampling_probability", "float", event.sampling_probability)
    return None if probability == 0.0 else _sampled(_on_one_sample(event.event, replaces), probability)


def _without_replacement(event: Any, replaces: bool) -> Event:
    inner = _on_one_sample(event.event, replaces)
    if isinstance(inner, NonPrivate):
        return inner
    return inner.sampled_without_replacement(event.sample_size, event.source_dataset_size)


def _tree(event: Any, _: bool) -> Event:
    # a record is in one of the trees, so the tallest counts
    counts = event.step_counts
    steps = max(counts, default=0) if isinstance(counts, Iterable) else counts
    noise: float = _plain("noise_multiplier", "float", event.noise_multiplier)
    return NonPrivate() if noise == 0.0 else TreeAggregation(noise, steps)


def _zcdp(event: Any, replaces: bool) -> Event:
    if getattr(event, "xi", 0.0) != 0.0:
        raise _unsupported("ZCDpEvent", "with xi other than 0 has no counterpart here")
    return Zcdp(event.rho, "replace" if replaces else "add-remove")


def _repeat_and_select(event: Any, replaces: bool) -> Event:
    parts = _parts(event.event, 1, replaces)
    one = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else compose(part.repeat(count) for part, count in parts)
    mean, shape = float(event.mean), float(event.shape)
    if mean == 1.0 and shape < math.inf:
        return one  # it runs exactly once
    return RepeatAndSelect(one, _stopping(mean, shape))


def _stopping(mean: float, shape: float) -> Stopping:
    if shape == math.inf:
        return Poisson(mean)
    if shape == 1.0:
        return TruncatedNegativeBinomial(1.0, 1.0 / mean)
    if not (mean > 1.0 and shape > -1.0):
        raise _unsupported("RepeatAndSelectDpEvent", f"of mean {mean} and shape {shape} has no counterpart here")
    low, high = 0.0, 1.0  # the mean falls from infinity to 1
    for _ in range(200):
        middle = 0.5 * (low + high)
        if low < middle < high:
            low, high = (middle, high) if _mean(middle, shape) > mean else (low, middle)
    return Logarithmic(low) if shape == 0.0 else TruncatedNegativeBinomial(shape, low)


def _mean(probability: float, shape: float) -> float:
    """Mean of the truncated negative binomial distribution."""
    log = math.log(probability)
    odds = (1.0 - probability) / probability
    return odds / -log if shape == 0.0 else shape * odds / -math.expm1(shape * log)


def _noisy(kind: Callable[[float], Event], noise: float) -> Event:
    return NonPrivate() if noise == 0.0 else kind(noise)


_READERS: dict[str, Callable[[Any, bool], Event | None]] = {
    "NonPrivateDpEvent": lambda _event, _: NonPrivate(),
    "GaussianDpEvent": lambda event, _: _gaussian(_plain("noise_multiplier", "float", event.noise_multiplier)),
    "LaplaceDpEvent": lambda event, _: _noisy(Laplace, event.noise_multiplier),
    "DiscreteLaplaceDpEvent": lambda event, _: DiscreteLaplace(event.noise_parameter, event.sensitivity),
    "RandomizedResponseDpEvent": lambda event, _: _noisy(
        lambda probability: RandomizedResponse(probability, event.num_buckets), event.noise_parameter
    ),
    "MixtureOfGaussiansDpEvent": lambda event, _: _noisy(
        lambda sigma: MixtureOfGaussians(sigma, tuple(event.sensitivities), tuple(event.sampling_probs)), event.standard_deviation
    ),
    "PoissonSampledDpEvent": _poisson_sampled,
    "SampledWithoutReplacementDpEvent": _without_replacement,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "ZCDpEvent": _zcdp,
    "RepeatAndSelectDpEvent": _repeat_and_select,
}
