"""Mechanisms, described completely enough to account for them.

An event describes what ran, not its cost. Sensitivities are those of adding or removing one unit (a user or a record);
under replacement the accountants double them. Events are values: they can be compared, hashed and pickled.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from ..errors import bad_setting

if TYPE_CHECKING:
    from .accountant import Adjacency, Bound, Method, TradeOff

__all__ = [
    "ApproxDp",
    "BoundedRange",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Gaussian",
    "Laplace",
    "Logarithmic",
    "MixtureOfGaussians",
    "NonPrivate",
    "Poisson",
    "PoissonSampled",
    "RandomAllocation",
    "RandomizedResponse",
    "Rdp",
    "Relation",
    "RepeatAndSelect",
    "Repeated",
    "SampledWithoutReplacement",
    "Stopping",
    "TreeAggregation",
    "TruncatedNegativeBinomial",
    "Zcdp",
    "approx_dp",
    "bounded_range",
    "compose",
    "gaussian",
    "laplace",
    "pure_dp",
    "renyi_dp",
    "sampled_gaussian",
    "zcdp",
]

Relation = Literal["add-remove", "replace"]
"""The neighbours that a stated guarantee is for."""

ReplaceFactor = Literal["two", "sqrt-two"]

_STATED = "stated_"
"""What a mechanism is known to guarantee, in its fields; what it costs among others, its methods say."""

# numbers with a range: `_RANGES` has it under the same name
Positive: TypeAlias = float
NotNegative: TypeAlias = float
AboveOne: TypeAlias = float
AboveMinusOne: TypeAlias = float
Probability: TypeAlias = float
ProbabilityOrZero: TypeAlias = float
OpenProbability: TypeAlias = float
Count: TypeAlias = int
Buckets: TypeAlias = int
Sensitivity: TypeAlias = int

_MAX_COUNT = 2**64 - 1
_RANGES: dict[str, tuple[Callable[[Any], float], Callable[[Any], bool], str]] = {
    "float": (float, math.isfinite, "a finite number"),
    "Positive": (float, lambda x: 0.0 < x < math.inf, "a finite number above 0"),
    "NotNegative": (float, lambda x: 0.0 <= x < math.inf, "a finite number, 0 or above"),
    "AboveOne": (float, lambda x: 1.0 < x < math.inf, "a finite number above 1"),
    "AboveMinusOne": (float, lambda x: -1.0 < x < math.inf, "a finite number above -1"),
    "Probability": (float, lambda x: 0.0 < x <= 1.0, "a number above 0, at most 1"),
    "ProbabilityOrZero": (float, lambda x: 0.0 <= x <= 1.0, "a number from 0 to 1"),
    "OpenProbability": (float, lambda x: 0.0 < x < 1.0, "a number strictly between 0 and 1"),
    "int": (operator.index, lambda n: 0 <= n <= _MAX_COUNT, "a whole number from 0 to 2^64 - 1"),
    "Count": (operator.index, lambda n: 1 <= n <= _MAX_COUNT, "a whole number from 1 to 2^64 - 1"),
    "Buckets": (operator.index, lambda n: 1 < n < 2**32, "a whole number from 2 to 2^32 - 1"),
    "Sensitivity": (operator.index, lambda n: 1 <= n <= 2**20, "a whole number from 1 to 2^20"),
}
"""For each kind of number: how it is converted, which values are in its range, and the range in words."""

_ROUNDING = 1e-9
"""By how much a sum of probabilities may differ from 1."""


def _plain(name: str, annotation: str, value: Any) -> Any:
    """Convert numbers, numpy scalars and arrays to Python's own types; refuse values of other types or out of range."""
    if annotation.startswith("tuple["):
        of = annotation.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_plain(name, of, one) for one in value)
    if annotation in _RANGES:
        convert, is_within, expected = _RANGES[annotation]
        try:
            number = convert(value)
        except (TypeError, ValueError, OverflowError):
            raise bad_setting(name, value, expected) from None
        if not is_within(number):
            raise bad_setting(name, value, expected)
        return number
    kind = _KINDS.get(annotation)
    if kind is not None and not isinstance(value, kind):
        raise bad_setting(name, value, f"an instance of {annotation}")
    return value


class _Described:
    """Something that the compiled part reads as JSON."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = _plain(field.name.removeprefix(_STATED), str(field.type), getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    def _json(self) -> dict[str, Any]:
        described: dict[str, Any] = {self._tag: self._name}
        for field in fields(self):  # type: ignore[arg-type]
            described[field.name.removeprefix(_STATED)] = _jsonable(getattr(self, field.name))
        return described

    _tag = "mechanism"
    _name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """The name in JSON is that of the class: `poisson-sampled` for `PoissonSampled`."""
        cls._name = re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()


def _jsonable(value: Any) -> Any:
    if isinstance(value, _Described):
        return value._json()
    if isinstance(value, tuple):
        return [_jsonable(one) for one in value]
    return value


class Event(_Described):
    """A mechanism, or several mechanisms on the same data."""

    def epsilon(self, delta: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> Bound:
        """The smallest epsilon at `delta`: a float that is never below the true value; its `lower` is never above it."""
        return _accountant.epsilon(self, delta, adjacency=adjacency, method=method)

    def delta(self, epsilon: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> Bound:
        """The smallest delta at `epsilon`, as for `epsilon`."""
        return _accountant.delta(self, epsilon, adjacency=adjacency, method=method)

    def trade_off(self, alpha: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> TradeOff:
        """False-negative rate of the best attacker with false-positive rate `alpha`: a bracket."""
        return _accountant.trade_off(self, alpha, adjacency=adjacency, method=method)

    def rdp(self, order: float, *, adjacency: Adjacency = "add-remove-user") -> Bound:
        """Renyi divergence of any real order above 1, in nats, in the worse direction; infinite if it does not exist."""
        return _accountant.rdp(self, order, adjacency=adjacency)

    def mu(self, *, adjacency: Adjacency = "add-remove-user") -> float:
        """Mu of Gaussian differential privacy, rounded up; raises `UnsupportedEvent` for events that are not Gaussian."""
        return _accountant.mu(self, adjacency=adjacency)

    def rho(self, *, adjacency: Adjacency = "add-remove-user") -> float:
        """Rho of zero-concentrated differential privacy, rounded up; raises `UnsupportedEvent` for events without one."""
        return _accountant.rho(self, adjacency=adjacency)

    def repeat(self, count: int) -> Repeated:
        """The event `count` times on the same data."""
        return Repeated(self, count)

    def poisson_sampled(self, sampling_probability: float) -> PoissonSampled:
        """The event on a Poisson sample of the units."""
        return PoissonSampled(sampling_probability, self)

    def sampled_without_replacement(self, sample_size: int, population_size: int) -> SampledWithoutReplacement:
        """The event on `sample_size` of `population_size` units, drawn uniformly."""
        return SampledWithoutReplacement(sample_size, population_size, self)

    def best_of(self, stopping: Stopping) -> RepeatAndSelect:
        """The best of a random number of runs of this event."""
        return RepeatAndSelect(self, stopping)


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian mechanism on a sum over units.

    `noise_multiplier` is the standard deviation of the noise divided by the L2 sensitivity under add/remove of one
    unit. Sums whose contributions are all positive semidefinite move by a factor of the square root of 2 under
    replacement, not 2: `"sqrt-two"`.
    """

    noise_multiplier: Positive
    replace_factor: ReplaceFactor = "two"


@dataclass(frozen=True)
class Laplace(Event):
    """Laplace mechanism: the scale of the noise divided by the L1 sensitivity under add/remove of one unit."""

    noise_multiplier: Positive


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """Discrete Gaussian noise of parameter `sigma` on one integer query."""

    sigma: Positive
    sensitivity: Sensitivity = 1


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """Discrete Laplace noise, P(x) proportional to exp(-rate |x|), on one integer query."""

    rate: Positive
    sensitivity: Sensitivity = 1


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """Every unit reports its value of `buckets`, or a uniform one with `noise_probability`. For replacement only."""

    noise_probability: Probability
    buckets: Buckets = 2


@dataclass(frozen=True)
class BoundedRange(Event):
    """A mechanism whose privacy loss has a range of at most `stated_epsilon`, such as the exponential mechanism."""

    stated_epsilon: Positive
    relation: Relation = "add-remove"


@dataclass(frozen=True)
class ApproxDp(Event):
    """Any mechanism known to be (`stated_epsilon`, `stated_delta`)-DP."""

    stated_epsilon: NotNegative
    stated_delta: ProbabilityOrZero = 0.0
    relation: Relation = "add-remove"


@dataclass(frozen=True)
class Zcdp(Event):
    """Any mechanism known to be zCDP with `stated_rho`."""

    stated_rho: Positive
    relation: Relation = "add-remove"


@dataclass(frozen=True)
class Rdp(Event):
    """Any mechanism whose Renyi divergence of one `order` is known to be at most `stated_epsilon`."""

    order: AboveOne
    stated_epsilon: NotNegative
    relation: Relation = "add-remove"


@dataclass(frozen=True)
class PoissonSampled(Event):
    """A mechanism on a sample that each unit joins independently: Gaussian, mixture of Gaussians, Laplace or `ApproxDp`."""

    sampling_probability: Probability
    event: Event


@dataclass(frozen=True)
class SampledWithoutReplacement(Event):
    """A Gaussian mechanism on a sample of fixed size. Only defined under replacement: the number of units is public."""

    sample_size: Count
    population_size: Count
    event: Event

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample_size > self.population_size:
            raise bad_setting("sample_size", self.sample_size, "a whole number from 1 to population_size")


@dataclass(frozen=True)
class RandomAllocation(Event):
    """`n_steps` Gaussian releases, with each unit in exactly `n_selected` of them, chosen in secret ("balls and bins")."""

    noise_multiplier: Positive
    n_selected: Count
    n_steps: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_selected > self.n_steps:
            raise bad_setting("n_selected", self.n_selected, "a whole number from 1 to n_steps")


@dataclass(frozen=True)
class MixtureOfGaussians(Event):
    """A Gaussian mechanism with random L2 sensitivity: `sensitivities[i]` with `probabilities[i]`."""

    sigma: Positive
    sensitivities: tuple[NotNegative, ...]
    probabilities: tuple[Probability, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.probabilities) != len(self.sensitivities) or abs(math.fsum(self.probabilities) - 1.0) > _ROUNDING:
            raise bad_setting("probabilities", self.probabilities, "one for each sensitivity, with sum 1")


@dataclass(frozen=True)
class TreeAggregation(Event):
    """Continual release by a binary tree of `n_steps` leaves with Gaussian noise on every node; each unit is in one leaf."""

    noise_multiplier: Positive
    n_steps: Count


@dataclass(frozen=True)
class Composed(Event):
    """Several mechanisms on the same data, each of which may depend on earlier outputs."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Repeated(Event):
    """One mechanism `count` times on the same data."""

    event: Event
    count: Count


class Stopping(_Described):
    """The distribution of the number of runs of which the best result is published; chosen without looking at the data."""

    _tag = "distribution"


@dataclass(frozen=True)
class TruncatedNegativeBinomial(Stopping):
    """On 1, 2, ...; `shape` 1 is geometric. A smaller `success_probability` gives more runs."""

    shape: AboveMinusOne
    success_probability: OpenProbability


@dataclass(frozen=True)
class Logarithmic(Stopping):
    """The logarithmic distribution on 1, 2, ..."""

    success_probability: OpenProbability


@dataclass(frozen=True)
class Poisson(Stopping):
    """On 0, 1, 2, ...; with zero runs nothing is published."""

    mean: Positive


@dataclass(frozen=True)
class RepeatAndSelect(Event):
    """A mechanism run a secret random number of times, of which the best result is published, as in tuning."""

    event: Event
    stopping: Stopping


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without any guarantee."""


_KINDS: dict[str, type] = {"Event": Event, "Stopping": Stopping}


def to_json(event: Event) -> str:
    """The event in the JSON form of the ledger and the certificate."""
    return json.dumps(_jsonable(_plain("event", "Event", event)))


def _times(event: Event, name: str, count: int) -> Event:
    whole: int = _plain(name, "Count", count)
    return event if whole == 1 else Repeated(event, whole)


def gaussian(*, noise_multiplier: float, releases: int = 1) -> Event:
    """`releases` Gaussian mechanisms with the same noise multiplier."""
    return _times(Gaussian(noise_multiplier), "releases", releases)


def laplace(*, noise_multiplier: float, releases: int = 1) -> Event:
    """`releases` Laplace mechanisms with the same scale."""
    return _times(Laplace(noise_multiplier), "releases", releases)


def sampled_gaussian(*, noise_multiplier: float, sampling_probability: float, steps: int = 1) -> Event:
    """DP-SGD: `steps` Gaussian mechanisms, each on its own Poisson sample."""
    return _times(Gaussian(noise_multiplier).poisson_sampled(sampling_probability), "steps", steps)


def pure_dp(*, epsilon: float, releases: int = 1, relation: Relation = "add-remove") -> Event:
    """`releases` mechanisms that are each epsilon-DP."""
    return _times(ApproxDp(epsilon, 0.0, relation), "releases", releases)


def approx_dp(*, epsilon: float, delta: float, releases: int = 1, relation: Relation = "add-remove") -> Event:
    """`releases` mechanisms that are each (epsilon, delta)-DP."""
    return _times(ApproxDp(epsilon, delta, relation), "releases", releases)


def zcdp(*, rho: float, releases: int = 1, relation: Relation = "add-remove") -> Event:
    """`releases` mechanisms that are each rho-zCDP."""
    return _times(Zcdp(rho, relation), "releases", releases)


def bounded_range(*, epsilon: float, releases: int = 1, relation: Relation = "add-remove") -> Event:
    """`releases` mechanisms whose privacy loss has a range of at most epsilon, such as the exponential mechanism."""
    return _times(BoundedRange(epsilon, relation), "releases", releases)


def renyi_dp(*, order: float, epsilon: float, releases: int = 1, relation: Relation = "add-remove") -> Event:
    """`releases` mechanisms whose Renyi divergence of one order is at most epsilon."""
    return _times(Rdp(order, epsilon, relation), "releases", releases)


def compose(*events: Event | Iterable[Event]) -> Composed:
    """All these mechanisms on the same data, adaptively."""
    parts: list[Event] = []
    for event in events:
        parts.extend([event] if isinstance(event, Event) else event)
    return Composed(tuple(parts))


from . import accountant as _accountant  # noqa: E402  # it needs the classes above
