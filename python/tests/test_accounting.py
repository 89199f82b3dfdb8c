import copy
import itertools
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import dp_personal as dp
from dp_personal import accounting
from dp_personal.accounting import events as ev
from dp_personal.accounting.events import to_json

PHI = NormalDist().cdf

EVENTS: list[accounting.Event] = [
    ev.Gaussian(2.0),
    ev.Gaussian(2.0, "sqrt-two"),
    ev.Laplace(3.0),
    ev.DiscreteGaussian(2.5, 1),
    ev.DiscreteLaplace(0.5, 2),
    ev.RandomizedResponse(0.5, 4),
    ev.BoundedRange(0.3),
    ev.ApproxDp(0.2, 1e-8),
    ev.Zcdp(0.01),
    ev.Rdp(8.0, 0.5),
    ev.Gaussian(1.0).poisson_sampled(0.01),
    ev.Laplace(5.0).poisson_sampled(0.1),
    ev.Gaussian(4.0).sampled_without_replacement(10, 1000),
    ev.RandomAllocation(2.0, 1, 10),
    ev.MixtureOfGaussians(1.5, (0.0, 1.0, 2.0), (0.5, 0.25, 0.25)),
    ev.TreeAggregation(5.0, 100),
    ev.Gaussian(20.0).best_of(ev.TruncatedNegativeBinomial(1.0, 0.1)),
    ev.Gaussian(20.0).best_of(ev.Logarithmic(0.2)),
    ev.Gaussian(20.0).best_of(ev.Poisson(5.0)),
    accounting.compose(ev.Gaussian(0.1 + 0.2), ev.Laplace(7.0).repeat(3)),
]


def neighbours(event: accounting.Event) -> accounting.Adjacency:
    local = isinstance(event, ev.RandomizedResponse | ev.SampledWithoutReplacement)
    return "replace-user" if local else "add-remove-user"


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang's profile of the Gaussian mechanism."""
    return PHI(mu / 2 - epsilon / mu) - math.exp(epsilon) * PHI(-mu / 2 - epsilon / mu)


def test_epsilon_of_gaussian_releases() -> None:
    ten = accounting.gaussian(noise_multiplier=2.0, releases=10).epsilon(delta=1e-5)
    assert gaussian_delta(math.sqrt(10) / 2, float(ten)) == pytest.approx(1e-5, rel=1e-8)
    one = accounting.gaussian(noise_multiplier=1.0).epsilon(1e-5)
    assert one == pytest.approx(4.377178095681225, abs=1e-12)
    hundred = accounting.gaussian(noise_multiplier=10.0, releases=100).epsilon(1e-5)
    assert hundred == pytest.approx(one, abs=1e-12)


def test_delta_of_gaussian_releases_is_the_profile() -> None:
    for sigma, epsilon in itertools.product([0.7, 1.0, 3.0], [0.0, 0.5, 2.0]):
        found = accounting.gaussian(noise_multiplier=sigma).delta(epsilon)
        assert found == pytest.approx(gaussian_delta(1 / sigma, epsilon), rel=1e-9)
        replaced = accounting.gaussian(noise_multiplier=sigma).delta(epsilon, adjacency="replace-user")
        assert replaced == pytest.approx(gaussian_delta(2 / sigma, epsilon), rel=1e-9)


def test_delta_of_one_laplace_release_is_the_closed_form() -> None:
    for scale, epsilon in [(1.0, 0.5), (2.0, 0.1), (0.5, 1.9)]:
        found = accounting.laplace(noise_multiplier=scale).delta(epsilon)
        assert found == pytest.approx(-math.expm1((epsilon - 1 / scale) / 2), rel=1e-12)


def test_pure_mechanisms_compose_optimally() -> None:
    # Kairouz, Oh, Viswanath: the losses of k eps-DP mechanisms are eps (2 B - k), B binomial
    k, each, epsilon = 30, 0.1, 0.7
    up = math.exp(each) / (1 + math.exp(each))
    exact = math.fsum(
        math.comb(k, i) * up**i * (1 - up) ** (k - i) * max(0.0, -math.expm1(epsilon - each * (2 * i - k))) for i in range(k + 1)
    )
    found = accounting.pure_dp(epsilon=each, releases=k).delta(epsilon)
    assert found.lower <= exact * (1 + 1e-12)
    assert exact <= found * (1 + 1e-12)
    assert found == pytest.approx(exact, rel=1e-5)


def sampled_moment(alpha: int, q: float, sigma: float) -> float:
    """Mironov, Talwar, Zhang: Renyi divergence of whole order of one sampled Gaussian."""
    terms = (
        math.comb(alpha, i) * (1 - q) ** (alpha - i) * q**i * math.exp((i * i - i) / (2 * sigma * sigma))
        for i in range(alpha + 1)
    )
    return math.log(math.fsum(terms)) / (alpha - 1)


def test_renyi_divergence_of_sampled_gaussians_is_the_binomial_sum() -> None:
    for alpha, q, sigma in [(2, 0.01, 1.0), (8, 0.1, 2.0), (32, 0.02, 1.5)]:
        step = accounting.sampled_gaussian(noise_multiplier=sigma, sampling_probability=q)
        assert step.rdp(alpha) == pytest.approx(sampled_moment(alpha, q, sigma), rel=1e-9)


def test_divergences_have_closed_forms_for_gaussians() -> None:
    twice = accounting.gaussian(noise_multiplier=2.0, releases=2)
    assert twice.mu() == pytest.approx(math.sqrt(0.5), rel=1e-14)
    assert twice.rho() == pytest.approx(0.25, rel=1e-14)
    assert twice.rdp(5.0) == pytest.approx(5 * 0.25, rel=1e-14)
    with pytest.raises(accounting.UnsupportedEvent, match="laplace"):
        accounting.laplace(noise_multiplier=1.0).mu()
    with pytest.raises(accounting.UnsupportedEvent, match="rdp"):
        accounting.renyi_dp(order=2.0, epsilon=1.0).rho()


def test_the_trade_off_of_gaussians_is_the_closed_form() -> None:
    for mu, alpha in itertools.product([0.3, 1.0, 3.0], [1e-4, 0.05, 0.5, 0.97]):
        exact = PHI(NormalDist().inv_cdf(1 - alpha) - mu)
        found = ev.Gaussian(1 / mu).trade_off(alpha)
        assert found.lower <= exact + 1e-15
        assert exact <= found.upper + 1e-15
        assert found.upper - found.lower < 1e-9
        assert (found.alpha, found.method) == (alpha, "gdp")
        replaced = PHI(NormalDist().inv_cdf(1 - alpha) - 2 * mu)
        assert ev.Gaussian(1 / mu).trade_off(alpha, adjacency="replace-user").lower == pytest.approx(replaced, abs=1e-9)


def test_the_trade_off_of_what_was_composed() -> None:
    training = accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.01, steps=1000)
    accountant = accounting.Accountant().compose(training)
    found = accountant.trade_off(0.1)
    assert found == training.trade_off(0.1)
    assert found.true_positive_rate == 1 - found.lower
    assert found.upper - found.lower < 1e-6
    for epsilon in (0.0, 0.5, 1.0, 2.0):  # each point of the profile bounds it from below
        delta = training.delta(epsilon).lower
        line = max(1 - delta - math.exp(epsilon) * 0.1, math.exp(-epsilon) * (1 - delta - 0.1))
        assert line <= found.upper
    back = training.trade_off(found.lower)  # it is its own inverse
    assert back.lower == pytest.approx(0.1, abs=1e-6)
    pld = training.trade_off(0.1, method="pld")
    assert pld.lower <= found.upper
    assert found.lower <= pld.upper
    renyi = training.trade_off(0.1, method="rdp")
    assert renyi.lower < found.lower
    assert found.upper <= renyi.upper <= 0.9
    with pytest.raises(dp.BadSetting, match="alpha"):
        training.trade_off(0.0)


def test_methods_agree_within_their_brackets() -> None:
    training = accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.01, steps=1000)
    best = training.epsilon(1e-5)
    assert best.method == "saddle-point"
    assert best.lower <= best.value <= best.upper == float(best)
    assert best.upper - best.lower < 1e-9
    for method in ("saddle-point", "pld", "rdp", "zcdp"):
        bound = training.epsilon(1e-5, method=method)
        assert bound.method == method
        assert bound.lower <= best.upper
        assert best.lower <= bound.upper
    with pytest.raises(accounting.UnsupportedEvent) as raised:
        training.epsilon(1e-5, method="gdp")
    assert raised.value.event == "poisson-sampled"


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_values(event: accounting.Event) -> None:
    assert pickle.loads(pickle.dumps(event)) == event == copy.deepcopy(event)
    assert len({event, pickle.loads(pickle.dumps(event))}) == 1
    assert eval(repr(event), vars(ev)) == event
    adjacency = neighbours(event)
    bound = event.epsilon(1e-5, adjacency=adjacency)
    assert 0 <= bound.lower <= bound.value <= bound.upper
    again = event.delta(float(bound), adjacency=adjacency)
    assert again.lower <= 1e-5 * (1 + 1e-6)
    twice = event.repeat(2).epsilon(1e-5, adjacency=adjacency)
    assert twice >= bound.lower


def test_every_event_of_the_accountant_has_a_class() -> None:
    names = {kind._name for kind in accounting.Event.__subclasses__()}
    with pytest.raises(dp.BadSetting) as raised:
        accounting.accountant._native.account_check('{"mechanism": "?"}', "add-remove-user", "tightest", None)
    listed = set(str(raised.value).split("expected one of ")[1].split(" at line")[0].replace("`", "").split(", "))
    assert listed == names


def test_numbers_of_numpy_are_numbers() -> None:
    event = accounting.gaussian(noise_multiplier=np.float32(2.0), releases=np.int64(10))  # type: ignore[arg-type]
    assert event == accounting.gaussian(noise_multiplier=2.0, releases=10)
    mixture = ev.MixtureOfGaussians(1.0, np.array([0.0, 1.0]), np.array([0.5, 0.5]))  # type: ignore[arg-type]
    assert hash(mixture) == hash(ev.MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)))


def test_a_bound_is_a_number_and_a_bracket() -> None:
    bound = accounting.laplace(noise_multiplier=2.0, releases=5).epsilon(1e-5)
    same = pickle.loads(pickle.dumps(bound))
    assert (same, same.lower, same.value, same.method) == (bound, bound.lower, bound.value, bound.method)
    assert str(bound) == str(float(bound))
    assert f"{bound:.3f}" == f"{float(bound):.3f}"
    assert bound.method in repr(bound)


@pytest.mark.parametrize(
    ("call", "setting"),
    [
        (lambda: accounting.gaussian(noise_multiplier=1.0).epsilon(0.0), "delta"),
        (lambda: accounting.gaussian(noise_multiplier=math.inf), "noise_multiplier"),
        (lambda: accounting.gaussian(noise_multiplier="two"), "noise_multiplier"),  # type: ignore[arg-type]
        (lambda: accounting.gaussian(noise_multiplier=1.0, releases=-1), "releases"),
        (lambda: accounting.gaussian(noise_multiplier=1.0, releases=2**64), "releases"),
        (lambda: accounting.gaussian(noise_multiplier=1.0, releases=1.5), "releases"),  # type: ignore[arg-type]
        (lambda: accounting.pure_dp(epsilon=math.nan), "epsilon"),
        (lambda: ev.PoissonSampled(0.5, 1.0), "event"),  # type: ignore[arg-type]
        (lambda: accounting.gaussian(noise_multiplier=1.0).rdp(1.0), "order"),
        (lambda: accounting.Accountant().compose(ev.Gaussian(1.0), 0), "count"),
        (lambda: accounting.GaussianFilter(epsilon=-1.0, delta=1e-5), "epsilon"),
        (lambda: accounting.RdpFilter(epsilon=1.0, delta=1e-5), "orders"),
        (lambda: accounting.calibrate_count(lambda n: ev.Gaussian(2.0).repeat(n), epsilon=1.0, delta=2.0), "delta"),
    ],
)
def test_a_setting_out_of_range_is_named(call: Callable[[], object], setting: str) -> None:
    with pytest.raises(dp.BadSetting, match=setting) as raised:
        call()
    assert raised.value.setting == setting
    assert isinstance(raised.value, ValueError)


ONE = ev.Gaussian(1.0)
RANGES: list[tuple[str, Callable[[Any], object], list[Any], list[Any]]] = [
    ("noise_multiplier", ev.Gaussian, [0.0, -1.0, math.inf, math.nan], [1e-300, 1e9]),
    ("noise_multiplier", lambda z: accounting.laplace(noise_multiplier=z), [0.0, -1.0], [0.5]),
    ("noise_multiplier", lambda z: ev.RandomAllocation(z, 1, 2), [0.0, -1.0], [0.5]),
    ("noise_multiplier", lambda z: ev.TreeAggregation(z, 2), [0.0, -1.0], [0.5]),
    ("sigma", ev.DiscreteGaussian, [0.0, -1.0], [0.5]),
    ("sigma", lambda sigma: ev.MixtureOfGaussians(sigma, (1.0,), (1.0,)), [0.0, -1.0], [0.5]),
    ("rate", ev.DiscreteLaplace, [0.0, -1.0], [0.5]),
    ("sensitivity", lambda n: ev.DiscreteLaplace(1.0, n), [0, -1, 2**20 + 1, 1.5], [1, 2**20]),
    ("noise_probability", ev.RandomizedResponse, [0.0, -0.1, 1.1], [0.1, 1.0]),
    ("buckets", lambda n: ev.RandomizedResponse(0.5, n), [0, 1, 2**32], [2, 2**32 - 1]),
    ("epsilon", ev.BoundedRange, [0.0, -1.0], [0.1]),
    ("epsilon", lambda epsilon: accounting.pure_dp(epsilon=epsilon), [-0.1, math.inf], [0.0, 1.0]),
    ("delta", lambda delta: accounting.approx_dp(epsilon=1.0, delta=delta), [-0.1, 1.1], [0.0, 1.0]),
    ("rho", lambda rho: accounting.zcdp(rho=rho), [0.0, -0.1], [0.1]),
    ("order", lambda order: accounting.renyi_dp(order=order, epsilon=1.0), [1.0, 0.5], [1.1]),
    ("epsilon", lambda epsilon: accounting.renyi_dp(order=2.0, epsilon=epsilon), [-0.1], [0.0]),
    ("sampling_probability", ONE.poisson_sampled, [0.0, -0.1, 2.0, math.nan], [1e-12, 1.0]),
    ("sample_size", lambda n: ONE.sampled_without_replacement(n, 10), [0, -1, 11], [1, 10]),
    ("population_size", lambda n: ONE.sampled_without_replacement(1, n), [0, -1], [1]),
    ("n_selected", lambda n: ev.RandomAllocation(1.0, n, 10), [0, -1, 11], [1, 10]),
    ("n_steps", lambda n: ev.TreeAggregation(1.0, n), [0, -1], [1]),
    ("sensitivities", lambda s: ev.MixtureOfGaussians(1.0, (1.0, s), (0.5, 0.5)), [-0.1, math.inf], [0.0]),
    ("probabilities", lambda p: ev.MixtureOfGaussians(1.0, (0.0, 1.0), p), [(1.0, 0.0), (0.5, 0.6), (1.0,)], [(0.9, 0.1)]),
    ("count", ONE.repeat, [0, -1, 2**64, 1.5], [1, 2**64 - 1]),
    ("releases", lambda n: accounting.gaussian(noise_multiplier=1.0, releases=n), [0, -1], [1]),
    ("steps", lambda n: accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.1, steps=n), [0, -1], [1]),
    ("count", lambda n: accounting.Odometer(delta=1e-5, mu=1.0).compose(ONE, n), [0, -1, 1.5], [1]),
    ("count", lambda n: accounting.RdpFilter(epsilon=1.0, delta=1e-5, schedule=[(ONE, n)]), [0, -1], [1]),
    ("shape", lambda shape: ev.TruncatedNegativeBinomial(shape, 0.5), [-1.0, -2.0], [-0.5, 0.0]),
    ("success_probability", ev.Logarithmic, [0.0, 1.0, -0.1], [0.5]),
    ("success_probability", lambda p: ev.TruncatedNegativeBinomial(1.0, p), [0.0, 1.0], [0.5]),
    ("mean", ev.Poisson, [0.0, -1.0], [0.5]),
]


@pytest.mark.parametrize(("setting", "build", "impossible", "possible"), RANGES)
def test_impossible_events_are_refused_when_they_are_built(
    setting: str, build: Callable[[Any], object], impossible: list[Any], possible: list[Any]
) -> None:
    for value in impossible:
        with pytest.raises(dp.BadSetting, match=f"^{setting} = .*: expected ") as raised:
            build(value)
        assert raised.value.setting == setting
    for value in possible:
        build(value)


def test_unknown_words_are_settings_errors() -> None:
    one = accounting.gaussian(noise_multiplier=1.0)
    for wrong in ({"adjacency": "add-remove"}, {"method": "moments"}):
        with pytest.raises(dp.BadSetting, match=next(iter(wrong))):
            one.epsilon(1e-5, **wrong)  # type: ignore[arg-type]
    with pytest.raises(dp.BadSetting, match="orders"):
        accounting.Accountant(method="pld", orders=[2.0]).compose(one)


def test_what_has_no_guarantee_says_so() -> None:
    for event in (ev.NonPrivate(), ev.ApproxDp(1.0, 0.1), accounting.compose(ev.Gaussian(1.0), ev.NonPrivate())):
        with pytest.raises(accounting.NoGuarantee) as raised:
            event.epsilon(1e-5)
        assert isinstance(raised.value, ValueError)
    with pytest.raises(accounting.NoGuarantee):
        accounting.Accountant().epsilon(1e-5)
    with pytest.raises(accounting.UnsupportedEvent, match="randomized-response"):
        ev.RandomizedResponse(0.5).epsilon(1e-5)
    deep = ev.Gaussian(1.0).repeat(1)
    for _ in range(70):
        deep = deep.repeat(1)
    with pytest.raises(dp.BadSetting):
        deep.epsilon(1e-5)


def test_an_accountant_adds_up_and_refuses_whole() -> None:
    accountant = accounting.Accountant()
    for _ in range(5):
        accountant.compose(ev.Gaussian(4.0)).compose(ev.Laplace(20.0), 2)
    whole = accounting.compose(ev.Gaussian(4.0).repeat(5), ev.Laplace(20.0).repeat(10))
    assert accountant.event == whole
    assert accountant.epsilon(1e-6) == whole.epsilon(1e-6)
    assert accountant.delta(1.0) == whole.delta(1.0)
    before = accountant.event
    for refused in (ev.NonPrivate(), ev.RandomizedResponse(0.5)):
        with pytest.raises(dp.DpError):
            accountant.compose(refused)
    assert accountant.event == before
    assert pickle.loads(pickle.dumps(accountant)).epsilon(1e-6) == accountant.epsilon(1e-6)


def test_orders_are_those_given() -> None:
    sigma, delta, order = 3.0, 1e-5, 8.0
    accountant = accounting.Accountant(method="rdp", orders=[order]).compose(ev.Gaussian(sigma))
    rdp = order / (2 * sigma**2)
    cks = rdp + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)
    assert accountant.epsilon(delta) == pytest.approx(cks, rel=1e-9)


def test_calibration_meets_the_target_and_no_less_would() -> None:
    found = accounting.calibrate_noise_multiplier(ev.Gaussian, epsilon=1.0, delta=1e-5)
    assert found.value == pytest.approx(3.730631634815942, rel=1e-9)
    assert gaussian_delta(1 / found.value, 1.0) <= 1e-5
    assert found.epsilon <= 1.0
    assert ev.Gaussian(found.value * (1 - 1e-6)).epsilon(1e-5) > 1.0

    def training(steps: int) -> accounting.Event:
        return accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.01, steps=steps)

    steps = accounting.calibrate_count(training, epsilon=2.0, delta=1e-5)
    assert isinstance(steps.value, int)
    assert training(steps.value).epsilon(1e-5) <= 2.0 < training(steps.value + 1).epsilon(1e-5)

    def sampled(q: float) -> accounting.Event:
        return accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=q, steps=100)

    rate = accounting.calibrate_sampling_probability(sampled, epsilon=1.0, delta=1e-5)
    assert 0.99 < rate.epsilon <= 1.0
    scale = accounting.calibrate_smallest(ev.Laplace, within=(0.1, 10.0), epsilon=0.5, delta=1e-9)
    assert scale.value == pytest.approx(2.0, rel=1e-6)
    pure = accounting.calibrate_largest(ev.ApproxDp, within=(0.1, 10.0), epsilon=0.5, delta=1e-9)
    assert pure.value == pytest.approx(0.5, rel=1e-6)


def test_a_target_out_of_reach_and_an_exception_end_a_calibration() -> None:
    with pytest.raises(accounting.TargetOutOfReach):
        accounting.calibrate_smallest(ev.Laplace, within=(0.1, 1.0), epsilon=0.1, delta=1e-9)
    calls = []

    def broken(z: float) -> accounting.Event:
        calls.append(z)
        raise RuntimeError("no event")

    with pytest.raises(RuntimeError, match="no event"):
        accounting.calibrate_noise_multiplier(broken, epsilon=1.0, delta=1e-5)
    assert len(calls) == 1
    with pytest.raises(dp.BadSetting, match="event"):
        accounting.calibrate_noise_multiplier(lambda z: z, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type, return-value]


CTRL_C = """
import signal, sys, time
from dp_personal import accounting
from dp_personal.accounting import events as ev

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may have inherited to ignore it
question = sys.argv[1]
many = accounting.compose(*(ev.Laplace(3.0 + 0.01 * at).poisson_sampled(0.3).repeat(50) for at in range(60)))

def slow(z):
    time.sleep(30)
    return ev.Gaussian(z)

began = time.monotonic()
print("asked", flush=True)
try:
    if question == "epsilon":
        many.epsilon(1e-9, method="pld")
    else:
        accounting.calibrate_noise_multiplier(slow, epsilon=1.0, delta=1e-5)
except KeyboardInterrupt:
    print(f"stopped {time.monotonic() - began}", flush=True)
else:
    print("finished")
"""


@pytest.mark.parametrize("question", ["epsilon", "calibration"])
def test_ctrl_c_ends_a_long_answer(question: str) -> None:
    with subprocess.Popen([sys.executable, "-c", CTRL_C, question], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline()
        assert said.startswith("stopped"), said
        assert float(said.split()[1]) < 20.0  # on a busy machine; an answer takes longer
    assert process.returncode == 0


def test_threads_get_the_same_answers() -> None:
    events = [accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.01, steps=500 + i) for i in range(16)]
    alone = [event.epsilon(1e-5) for event in events]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda event: event.epsilon(1e-5), events)) == alone
        found = pool.map(lambda _: accounting.calibrate_noise_multiplier(ev.Gaussian, epsilon=1.0, delta=1e-5).value, range(8))
        assert len(set(found)) == 1


def test_others_run_while_an_answer_is_computed() -> None:
    n_parts, elapsed = 2, 0.0
    while elapsed < 0.3:  # long enough to be interrupted
        slow = accounting.compose(ev.Laplace(60.0 + i) for i in range(n_parts))
        before = time.perf_counter()
        slow.epsilon(1e-5, method="pld")
        elapsed, n_parts = time.perf_counter() - before, 2 * n_parts
    worker = threading.Thread(target=slow.epsilon, args=(1e-5,), kwargs={"method": "pld"})
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10


def test_a_gaussian_filter_lets_the_budget_be_spent_and_no_more() -> None:
    filter_ = accounting.GaussianFilter(epsilon=1.0, delta=1e-5)
    step = ev.Gaussian(2 * 3.7307)
    assert filter_.remaining == pytest.approx(1 / 3.730631634815942, rel=1e-9)
    for _ in range(4):
        filter_.spend(step)
    spent = filter_.spent
    with pytest.raises(dp.BudgetExceeded):
        filter_.spend(step)
    assert filter_.spent == spent == pytest.approx(math.sqrt(4 / step.noise_multiplier**2))
    with pytest.raises(accounting.UnsupportedEvent):
        filter_.spend(ev.Laplace(100.0))


def test_an_rdp_filter_counts_at_fixed_orders() -> None:
    filter_ = accounting.RdpFilter(epsilon=2.0, delta=1e-6, orders=[16.0])
    epsilon, delta, order = 2.0, 1e-6, 16.0
    budget = epsilon - math.log(1 - 1 / order) + math.log(order * delta) / (order - 1)
    (balance,) = filter_.balances
    assert balance.budget == pytest.approx(budget, rel=1e-12)
    filter_.spend(ev.Gaussian(4.0))
    assert filter_.balances[0].spent == pytest.approx(order / 32, rel=1e-12)
    with pytest.raises(dp.BudgetExceeded):
        filter_.spend(ev.Gaussian(1.0))
    guess = accounting.RdpFilter(epsilon=2.0, delta=1e-6, schedule=[(ev.Gaussian(30.0), 100), (ev.Laplace(50.0), 10)])
    guess.spend(ev.Laplace(9.0))
    assert len(guess.balances) == 1


def test_individual_accounts_pay_for_their_own_contributions() -> None:
    filter_ = accounting.IndividualGaussianFilter(2, epsilon=1.0, delta=1e-5)  # mu 0.268 each
    assert filter_.admit([0.25, 0.01]).tolist() == [True, True]
    assert filter_.admit(np.array([0.25, 0.01])).tolist() == [False, True]
    assert filter_.admit([math.nan, -1.0]).tolist() == [False, False]
    with pytest.raises(TypeError):
        pickle.dumps(filter_)


def test_an_odometer_reads_rungs() -> None:
    odometer = accounting.Odometer(delta=1e-5, mu=0.5)
    assert odometer.epsilon == 0.0
    odometer.compose(ev.Gaussian(4.0))
    first = odometer.epsilon
    # the first rung uses half of delta
    assert gaussian_delta(0.5, first) == pytest.approx(0.5e-5, rel=1e-6)
    odometer.compose(ev.Gaussian(1.0), 2)
    assert odometer.epsilon > first
    assert odometer.spent == pytest.approx(math.sqrt(2 + 1 / 16))
    with pytest.raises(dp.BadSetting, match="growth"):
        accounting.Odometer(delta=1e-5, mu=0.5, growth=1.0)


GOLDEN = os.environ.get("DP_GOLDEN")


def golden_event(mechanism: dict[str, Any]) -> accounting.Event | None:
    kind = mechanism["mechanism"]
    made: dict[str, Callable[[dict[str, Any]], accounting.Event]] = {
        "gaussian": lambda m: ev.Gaussian(m["sigma"] / m["sensitivity"]),
        "laplace": lambda m: ev.Laplace(m["scale"] / m["sensitivity"]),
        "discrete_gaussian": lambda m: ev.DiscreteGaussian(m["sigma"], m["sensitivity"]),
        "discrete_laplace": lambda m: ev.DiscreteLaplace(m["rate"], m["sensitivity"]),
        "approximate_dp": lambda m: ev.ApproxDp(m["epsilon"], m["delta"]),
        "poisson_subsampled_gaussian": lambda m: ev.Gaussian(m["sigma"] / m["sensitivity"]).poisson_sampled(
            m["sampling_probability"]
        ),
        "zcdp": lambda m: ev.Zcdp(m["rho"]),
    }
    if kind not in made or None in mechanism.values():
        return None
    return made[kind](mechanism).repeat(mechanism["count"])


@pytest.mark.skipif(GOLDEN is None, reason="DP_GOLDEN names no folder with reference values")
def test_reference_values_lie_within_the_brackets() -> None:
    file = json.loads((Path(str(GOLDEN)) / "accounting.json").read_text())
    asked = 0
    for case in file["cases"]:
        parts = [golden_event(mechanism) for mechanism in case["events"]]
        query = case["query"]
        if None in parts or case["neighbour"] != "add_remove" or {"formula", "accountant"} & set(query):
            continue
        whole = accounting.compose(part for part in parts if part is not None)
        if query["kind"] == "epsilon_at_delta":
            found = whole.epsilon(query["delta"])
        elif query["kind"] == "delta_at_epsilon":
            found = whole.delta(query["epsilon"])
        elif query["kind"] == "rdp_at_alpha":
            found = whole.rdp(query["alpha"])
        else:
            continue
        value, allowed = case["value"], 2 * case["uncertainty_rel"] * abs(case["value"]) + 4e-16
        assert found.lower <= value * (1 + 1e-15) + allowed, case["id"]
        assert value <= found.upper * (1 + 1e-15) + allowed, case["id"]
        asked += 1
    assert asked > 90


def test_an_event_is_written_as_certificates_have_it() -> None:
    assert json.loads(to_json(ev.ApproxDp(0.5))) == {
        "mechanism": "approx-dp",
        "epsilon": 0.5,
        "delta": 0.0,
        "relation": "add-remove",
    }
