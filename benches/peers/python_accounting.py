"""Sends the same queries to dp_accounting and dp_personal.accounting and prints a table.

Every example is an event of dp_accounting. The peer answers with the accountant that its documentation uses, with
default settings; its lower end is that of its optimistic estimate, if it has one. Ours reads the event with
`from_dp_accounting`. Times are processor seconds of one answer, from the event to the result, medians of several runs;
a short one is repeated for 0.1 s. The program ends with an error if the brackets do not overlap.
"""

import argparse
import math
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import dp_accounting as dpa
from dp_accounting import dp_event, pld, rdp
from dp_accounting.pld import privacy_loss_distribution as losses
from record import record

import dp_personal
from dp_personal import accounting

SPECIAL = dpa.NeighboringRelation.REPLACE_SPECIAL
REPLACE = dpa.NeighboringRelation.REPLACE_ONE
ADD = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
INTERVAL = 1e-4
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Example:
    """One query. `source` is where the peer's documentation or tests contain it."""

    source: str
    event: Any
    delta: float | None = None
    epsilon: float | None = None
    relation: Any = ADD
    renyi: bool = False


def sgm(sigma, q, steps):
    return dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma)), steps)


def both(first, n_first, second, n_second):
    return dp_event.ComposedDpEvent([dp_event.SelfComposedDpEvent(first, n_first), dp_event.SelfComposedDpEvent(second, n_second)])


LAPLACE = dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(3), 40)
MIXTURES = both(
    dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]),
    3,
    dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33]),
    2,
)
TUTORIAL = "TensorFlow Privacy, MNIST tutorial"
BASIC = "privacy_loss_distribution_basic_example"
TESTS = "pld_privacy_accountant_test"

EXAMPLES = {
    "laplace-40": Example(BASIC, LAPLACE, epsilon=10),
    "laplace-gaussian": Example(BASIC, dp_event.ComposedDpEvent([LAPLACE, dp_event.GaussianDpEvent(5)]), epsilon=10),
    "dp-sgd": Example(TUTORIAL, sgm(1.1, 256 / 60_000, 60 * 60_000 // 256), delta=1e-5),
    "dp-sgd-rdp": Example(TUTORIAL, sgm(1.1, 256 / 60_000, 60 * 60_000 // 256), delta=1e-5, renyi=True),
    "dp-sgd-replace": Example("the same, one record replaced", sgm(1.1, 256 / 60_000, 60 * 60_000 // 256), delta=1e-5, relation=REPLACE),
    "gaussian": Example(TESTS, dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(math.sqrt(3)), 3), epsilon=1),
    "sampled-gaussian": Example(TESTS, sgm(0.5, 0.2, 3), epsilon=1),
    "laplace-two": Example(TESTS, both(dp_event.LaplaceDpEvent(1), 3, dp_event.LaplaceDpEvent(2), 2), delta=1e-3),
    "sampled-laplace": Example(
        TESTS, dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.2, dp_event.LaplaceDpEvent(0.5)), 3), delta=1e-3
    ),
    "discrete-laplace": Example(TESTS, both(dp_event.DiscreteLaplaceDpEvent(1, 1), 3, dp_event.DiscreteLaplaceDpEvent(0.5, 1), 2), delta=1e-3),
    "mixtures": Example(TESTS, MIXTURES, delta=1e-6),
    "tree": Example(
        "rdp_privacy_accountant_test, StackOverflow",
        dp_event.SingleEpochTreeAggregationDpEvent(8.83, 1600),
        delta=1e-6,
        relation=SPECIAL,
        renyi=True,
    ),
    "tuning": Example(
        "rdp_privacy_accountant_test", dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(10.0), 10, 1), delta=1e-6, renyi=True
    ),
}

CALIBRATED = "dp-sgd-noise"

# Run only if named: the peer takes minutes.
SLOW = ("mixtures",)


def ask(accountant, example):
    """Epsilon at the example's delta, or delta at its epsilon."""
    if example.delta is not None:
        return accountant.get_epsilon(example.delta)
    return accountant.get_delta(example.epsilon)


def theirs(example):
    if example.renyi:
        accountant = rdp.RdpAccountant(neighboring_relation=example.relation)
    else:
        accountant = pld.PLDAccountant(example.relation, INTERVAL)
    return ask(accountant.compose(example.event), example)


def ours(example):
    accountant = accounting.from_dp_accounting(example.event, neighboring_relation=example.relation)
    if example.delta is not None:
        return accountant.epsilon(example.delta)
    return accountant.delta(example.epsilon)


def optimistic(event, relation):
    """The peer's lower estimate of an event's privacy loss."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return optimistic(event.event, relation).self_compose(event.count)
    if isinstance(event, dp_event.ComposedDpEvent):
        whole, *rest = (optimistic(part, relation) for part in event.events)
        for part in rest:
            whole = whole.compose(part)
        return whole
    common = {"pessimistic_estimate": False, "value_discretization_interval": INTERVAL, "use_connect_dots": False}
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        common["sampling_prob"] = event.sampling_probability
        event = event.event
    if isinstance(event, dp_event.GaussianDpEvent):
        return losses.from_gaussian_mechanism(event.noise_multiplier, neighboring_relation=relation, **common)
    if isinstance(event, dp_event.LaplaceDpEvent):
        return losses.from_laplace_mechanism(event.noise_multiplier, **common)
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        return losses.from_discrete_laplace_mechanism(event.noise_parameter, event.sensitivity, **common)
    return losses.from_mixture_gaussian_mechanism(event.standard_deviation, event.sensitivities, event.sampling_probs, **common)


def lower_end(example):
    if example.renyi:
        return 0.0
    whole = optimistic(example.event, example.relation)
    if example.delta is not None:
        return whole.get_epsilon_for_delta(example.delta)
    return whole.get_delta_for_epsilon(example.epsilon)


def timed(question, runs):
    """The answer and the median processor seconds of one call."""
    answer = question()
    seconds = []
    for _ in range(runs):
        n, start = 0, time.process_time()
        while n == 0 or time.process_time() - start < 0.1:
            question()
            n += 1
        seconds.append((time.process_time() - start) / n)
    return answer, statistics.median(seconds)


def calibration(runs):
    """The noise of DP-SGD for epsilon 1 at delta 1e-5, found with `calibrate_dp_mechanism` as documented."""
    q, steps, epsilon, delta = 0.01, 1000, 1.0, 1e-5
    value, seconds = timed(
        lambda: dpa.calibrate_dp_mechanism(
            lambda: pld.PLDAccountant(ADD, INTERVAL), lambda z: sgm(z, q, steps), epsilon, delta, tol=TOLERANCE
        ),
        min(runs, 3),
    )

    def event(z):
        return accounting.sampled_gaussian(noise_multiplier=z, sampling_probability=q, steps=steps)

    found, our_seconds = timed(lambda: accounting.calibrate_noise_multiplier(event, epsilon=epsilon, delta=delta), runs)
    # the peer's value is an upper bound, up to its tolerance
    agree = abs(value - found.value) <= 1e-3 * value
    return value, found.value, seconds, our_seconds, agree


HEAD = f"{'example':<18}{'peer lower':>13}{'peer upper':>13}{'our lower':>21}{'our upper':>21}{'peer s':>10}{'ours s':>10}{'ratio':>8}"


def row(name, figures, seconds, our_seconds, agree):
    cells = [f"{figure:>{width}.{digits}g}" for figure, width, digits in zip(figures, (13, 13, 21, 21), (6, 6, 14, 14), strict=True)]
    times = f"{seconds:>10.3g}{our_seconds:>10.3g}{seconds / our_seconds:>7.0f}x"
    print(f"{name:<18}{''.join(cells)}{times}{'' if agree else '  DISAGREE'}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("examples", nargs="*", choices=[*EXAMPLES, CALIBRATED, []])
    args = parser.parse_args()
    peer = f"dp-accounting {version('dp-accounting')}"
    print(f"Python {platform.python_version()}, {peer}, numpy {version('numpy')}, dp-personal {dp_personal.__version__}")
    print(f"processor seconds, median of {args.runs} runs; the peer at interval {INTERVAL}\n\n{HEAD}")
    excluded = []
    usual = [name for name in (*EXAMPLES, CALIBRATED) if name not in SLOW]
    for name in args.examples or usual:
        if name == CALIBRATED:
            value, found, seconds, our_seconds, agree = calibration(args.runs)
            figures = (value, value, found, found)
        else:
            example = EXAMPLES[name]
            upper, seconds = timed(lambda example=example: theirs(example), args.runs)
            bound, our_seconds = timed(lambda example=example: ours(example), args.runs)
            lower = lower_end(example)
            figures = (lower, upper, bound.lower, bound.upper)
            agree = bound.lower <= upper * (1 + 1e-9) and lower <= bound.upper * (1 + 1e-9)
        row(name, figures, seconds, our_seconds, agree)
        record(f"{name}, in Python", peer, seconds, our_seconds)
        if not agree:
            excluded.append(name)
    print("\nexamples\n" + "\n".join(f"  {name:<18}{example.source}" for name, example in EXAMPLES.items()))
    if excluded:
        sys.exit(f"the brackets exclude each other: {', '.join(excluded)}")


if __name__ == "__main__":
    main()
