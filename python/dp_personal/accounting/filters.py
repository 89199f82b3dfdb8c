"""Budgets for mechanisms that are chosen one after the other, by looking at earlier outputs.

An accountant takes its mechanisms as given. A filter is fixed in advance and lets each be chosen on the way: whatever it lets run
is (epsilon, delta)-DP together. A spend that does not fit raises `BudgetExceeded` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import _native
from .accountant import Adjacency
from .events import Event, _bad, to_json

__all__ = ["GaussianFilter", "IndividualGaussianFilter", "Odometer", "OrderBalance", "RdpFilter"]


class GaussianFilter:
    """The exact filter for Gaussian mechanisms; nothing is lost against a plan made in advance."""

    def __init__(self, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user") -> None:
        self._filter = _native.GaussianFilter(epsilon, delta, adjacency)

    def spend(self, event: Event) -> None:
        """Counts `event` before it runs."""
        self._filter.spend(to_json(event))

    @property
    def spent(self) -> float:
        """Mu spent so far, rounded up."""
        return self._filter.spent()

    @property
    def remaining(self) -> float:
        """Mu that can still be spent, rounded down."""
        return self._filter.remaining()


class OrderBalance(NamedTuple):
    """What one order of a filter has spent, in nats of Renyi divergence."""

    order: float
    spent: float
    budget: float


class RdpFilter:
    """A filter for any mechanism with a Renyi divergence.

    The orders are fixed before the first spend: those given, else the one at which `schedule` (events with counts, public and
    only a guess) would use the smallest part of the budget. With several orders each has an equal part of delta, and one within
    its budget is enough.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        orders: Iterable[float] | None = None,
        schedule: Iterable[tuple[Event, int]] | None = None,
        adjacency: Adjacency = "add-remove-user",
    ) -> None:
        if (orders is None) == (schedule is None):
            raise _bad("orders", orders, "either `orders` or `schedule`")
        if orders is not None:
            given = [float(order) for order in orders]
            self._filter = _native.RdpFilter.over_orders(epsilon, delta, adjacency, given)
        else:
            expected = [(to_json(event), count) for event, count in schedule or ()]
            self._filter = _native.RdpFilter.for_schedule(epsilon, delta, adjacency, expected)

    def spend(self, event: Event) -> None:
        """Counts `event` before it runs."""
        self._filter.spend(to_json(event))

    @property
    def balances(self) -> list[OrderBalance]:
        """What each order has spent."""
        return [OrderBalance(*balance) for balance in self._filter.balances()]


class IndividualGaussianFilter:
    """A Gaussian budget for each unit, which pays for that unit's own contribution alone.

    **Who is admitted is private data**: it depends on the records. Leave the others out of the step, and do not publish, log or
    look at it to choose the next step. So this neither prints nor pickles what it holds.
    """

    def __init__(self, n_units: int, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user") -> None:
        self._filter = _native.IndividualGaussianFilter(epsilon, delta, adjacency, n_units)

    def admit(self, mu: Iterable[float]) -> Any:
        """Charges unit i with `mu[i]`, its norm over the noise, and gives a numpy array that says who takes part in the step."""
        import numpy as np

        return np.array(self._filter.admit_all([float(one) for one in mu]), dtype=bool)


class Odometer:
    """Says at any moment what Gaussian mechanisms chosen step by step have cost so far, also for who stops by looking at outputs.

    `mu` is where the ladder of its readings begins; start it near what will be spent. `growth` is that of mu squared from rung to
    rung, 2 unless it is given.
    """

    def __init__(self, *, delta: float, mu: float, growth: float | None = None, adjacency: Adjacency = "add-remove-user") -> None:
        self._odometer = _native.Odometer(delta, adjacency, mu, growth)

    def compose(self, event: Event, count: int = 1) -> None:
        """Adds `count` runs of `event`."""
        self._odometer.compose(to_json(event), count)

    @property
    def epsilon(self) -> float:
        """Epsilon up to now at the odometer's delta; 0 before the first event."""
        return self._odometer.epsilon()

    @property
    def spent(self) -> float:
        """Mu spent so far. Not a guarantee at a moment that depends on outputs."""
        return self._odometer.spent()
