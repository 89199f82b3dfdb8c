"""Stand-ins with the names and fields of the other libraries' classes: those libraries are not needed here."""

import math
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import pytest

from dp_personal import accounting
from dp_personal.accounting import events as ev


def like(name: str, **fields: Any) -> Any:
    """An event of `dp_accounting`, created from the name of its class."""
    return type(name, (), fields)()


def gaussian(z: float) -> Any:
    return like("GaussianDpEvent", noise_multiplier=z)


def composed(*events: Any) -> Any:
    return like("ComposedDpEvent", events=list(events))


def times(event: Any, count: int) -> Any:
    return like("SelfComposedDpEvent", event=event, count=count)


def sampled(event: Any, q: float) -> Any:
    return like("PoissonSampledDpEvent", sampling_probability=q, event=event)


def one(event: Any, **settings: Any) -> accounting.Event:
    (part,) = accounting.from_dp_accounting(event, **settings).event.events
    return part


def test_opacus_histories_are_read_in_every_form() -> None:
    history = [(1.1, 0.01, 500), (1.3, 0.02, 100), (2.0, 1.0, 3)]
    expected = accounting.compose(
        accounting.sampled_gaussian(noise_multiplier=1.1, sampling_probability=0.01, steps=500),
        accounting.sampled_gaussian(noise_multiplier=1.3, sampling_probability=0.02, steps=100),
        accounting.gaussian(noise_multiplier=2.0, releases=3),
    )
    state = {"history": history, "mechanism": "rdp"}
    for given in (history, state, SimpleNamespace(history=history)):
        found = accounting.from_opacus(given)
        assert found.event == expected
        assert found.adjacency == "add-remove-record"
        assert found.epsilon(1e-5) == expected.epsilon(1e-5)
        assert found.epsilon(1e-5).lower > 0
        assert found.delta(2.0) == expected.delta(2.0)
    assert accounting.from_opacus([(1.0, 0.1, 5), (1.0, 0.1, 7)]).event.events == (
        accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.1, steps=12),
    )


def test_an_opacus_history_without_noise_has_no_guarantee() -> None:
    with pytest.raises(accounting.NoGuarantee):
        accounting.from_opacus([(0.0, 0.1, 1)])
    with pytest.raises(accounting.NoGuarantee):
        accounting.from_opacus([]).epsilon(1e-5)
    with pytest.raises(ValueError, match="noise_multiplier"):
        accounting.from_opacus([("a", 0.1, 1)])


def test_trees_of_events_are_flattened() -> None:
    step = sampled(gaussian(1.0), 0.01)
    tree = composed(times(composed(step, like("NoOpDpEvent")), 10), times(times(gaussian(5.0), 2), 3), times(step, 0), step)
    found = accounting.from_dp_accounting(tree)
    assert found.event == accounting.compose(
        accounting.sampled_gaussian(noise_multiplier=1.0, sampling_probability=0.01, steps=11),
        accounting.gaussian(noise_multiplier=5.0, releases=6),
    )
    deep = gaussian(3.0)
    for _ in range(3000):
        deep = composed(times(deep, 1))
    assert one(deep) == ev.Gaussian(3.0)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (like("LaplaceDpEvent", noise_multiplier=2.0), ev.Laplace(2.0)),
        (like("DiscreteLaplaceDpEvent", noise_parameter=0.5, sensitivity=2), ev.DiscreteLaplace(0.5, 2)),
        (like("ZCDpEvent", rho=0.1, xi=0.0), ev.Zcdp(0.1)),
        (
            like("MixtureOfGaussiansDpEvent", standard_deviation=2.0, sensitivities=[0, 1], sampling_probs=[0.5, 0.5]),
            ev.MixtureOfGaussians(2.0, (0.0, 1.0), (0.5, 0.5)),
        ),
        (like("SingleEpochTreeAggregationDpEvent", noise_multiplier=3.0, step_counts=8), ev.TreeAggregation(3.0, 8)),
        (like("SingleEpochTreeAggregationDpEvent", noise_multiplier=3.0, step_counts=[4, 9]), ev.TreeAggregation(3.0, 9)),
        (sampled(like("LaplaceDpEvent", noise_multiplier=2.0), 0.1), ev.Laplace(2.0).poisson_sampled(0.1)),
        (sampled(gaussian(2.0), 1.0), ev.Gaussian(2.0)),
        (
            like("RepeatAndSelectDpEvent", event=gaussian(9.0), mean=5.0, shape=math.inf),
            ev.Gaussian(9.0).best_of(ev.Poisson(5.0)),
        ),
        (
            like("RepeatAndSelectDpEvent", event=gaussian(9.0), mean=5.0, shape=1.0),
            ev.Gaussian(9.0).best_of(ev.TruncatedNegativeBinomial(1.0, 0.2)),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_each_class_has_its_counterpart(theirs: Any, ours: accounting.Event) -> None:
    assert one(theirs) == ours


def test_replacement_is_read_as_such() -> None:
    response = like("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=4)
    assert one(response, neighboring_relation="REPLACE_ONE") == ev.RandomizedResponse(0.5, 4)
    batch = like("SampledWithoutReplacementDpEvent", source_dataset_size=100, sample_size=5, event=gaussian(4.0))
    relation = SimpleNamespace(name="REPLACE_ONE")
    found = accounting.from_dp_accounting(batch, neighboring_relation=relation, unit="user")
    assert found.adjacency == "replace-user"
    assert found.event.events == (ev.Gaussian(4.0).sampled_without_replacement(5, 100),)
    assert accounting.from_dp_accounting(gaussian(1.0), neighboring_relation="REPLACE_SPECIAL").adjacency == "add-remove-record"
    with pytest.raises(accounting.UnsupportedEvent, match="randomized-response"):
        accounting.from_dp_accounting(response)


def test_gaussians_on_one_sample_are_one_gaussian() -> None:
    found = one(sampled(composed(gaussian(3.0), times(gaussian(4.0), 1)), 0.1))
    assert isinstance(found, ev.PoissonSampled)
    assert isinstance(found.event, ev.Gaussian)
    assert found.event.noise_multiplier == pytest.approx(2.4, rel=1e-14)
    assert found.event.noise_multiplier <= 2.4
    with pytest.raises(accounting.UnsupportedEvent, match="other mechanisms"):
        one(sampled(composed(gaussian(3.0), like("LaplaceDpEvent", noise_multiplier=1.0)), 0.1))


def test_the_mean_number_of_runs_is_kept() -> None:
    for shape, mean in [(0.0, 4.0), (0.5, 10.0), (2.0, 30.0), (-0.5, 3.0)]:
        found = one(like("RepeatAndSelectDpEvent", event=gaussian(9.0), mean=mean, shape=shape))
        assert isinstance(found, ev.RepeatAndSelect)
        stopping = found.stopping
        assert isinstance(stopping, ev.Logarithmic | ev.TruncatedNegativeBinomial)
        gamma = stopping.success_probability
        # sum over k of k P(k), with P(k+1)/P(k) = (1 - gamma) (k + shape) / (k + 1)
        weight, total, weighted, k = 1.0, 0.0, 0.0, 1
        while weight > 1e-18 * max(total, 1.0):
            total, weighted = total + weight, weighted + k * weight
            weight, k = weight * (1 - gamma) * (k + shape) / (k + 1), k + 1
        assert weighted / total == pytest.approx(mean, rel=1e-9)


def test_one_run_is_no_selection() -> None:
    assert one(like("RepeatAndSelectDpEvent", event=gaussian(9.0), mean=1, shape=0.5)) == ev.Gaussian(9.0)


def test_what_has_no_counterpart_is_named() -> None:
    cases = {
        "UnsupportedDpEvent": like("UnsupportedDpEvent"),
        "SampledWithReplacementDpEvent": composed(like("SampledWithReplacementDpEvent")),
        "TruncatedSubsampledGaussianDpEvent": times(like("TruncatedSubsampledGaussianDpEvent"), 3),
        "ZCDpEvent": like("ZCDpEvent", rho=0.1, xi=0.5),
        "SomethingNew": sampled(like("SomethingNew"), 0.5),
    }
    for name, event in cases.items():
        with pytest.raises(accounting.UnsupportedEvent, match=name) as raised:
            accounting.from_dp_accounting(event)
        assert raised.value.event == name
    with pytest.raises(accounting.UnsupportedEvent, match="neighboring relation"):
        accounting.from_dp_accounting(gaussian(1.0), neighboring_relation="OTHER")
    with pytest.raises(accounting.NoGuarantee):
        accounting.from_dp_accounting(like("NonPrivateDpEvent"))


def test_accountants_and_named_tuples_are_read() -> None:
    accountant = SimpleNamespace(
        ledger=times(gaussian(2.0), 4), neighboring_relation=SimpleNamespace(name="REPLACE_ONE"), get_epsilon=lambda _: 0.0
    )
    found = accounting.from_dp_accounting(accountant)
    assert found.adjacency == "replace-record"
    assert found.event == accounting.compose(accounting.gaussian(noise_multiplier=2.0, releases=4))
    wrapped = namedtuple("wrapped", ["module_name", "class_name", "noise_multiplier"])
    assert one(wrapped("dp_accounting.dp_event", b"GaussianDpEvent", 2.5)) == ev.Gaussian(2.5)
