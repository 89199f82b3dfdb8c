"""Budgets for mechanisms that are chosen one after the other, by looking at earlier outputs.

An accountant assumes that its mechanisms are fixed in advance. A filter is fixed in advance, but each mechanism may be
chosen along the way: all mechanisms that it admits are together (epsilon, delta)-DP. A spend that does not fit raises
`BudgetExceeded` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import _native
from ..errors import bad_setting
from .accountant import Adjacency
from .events import Event, _plain, to_json

__all__ = ["GaussianFilter", "IndividualGaussianFilter", "Odometer", "OrderBalance", "RdpFilter"]


class GaussianFilter:
    """The exact filter for Gaussian mechanisms; it costs nothing compared with a plan made in advance."""

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
    """The spending of one order of a filter, in nats of Renyi divergence."""

    order: float
    spent: float
    budget: float


class RdpFilter:
    """A filter for any mechanism with a Renyi divergence.

    The orders are fixed before the first spend: either those given, or the one at which `schedule` (events with counts,
    public and only a guess) would use the smallest part of the budget. With several orders each has an equal part of
    delta, and it is sufficient that one is within its budget.
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
            raise bad_setting("orders", orders, "either `orders` or `schedule`")
        if orders is not None:
            given = [float(order) for order in orders]
            self._filter = _native.RdpFilter.over_orders(epsilon, delta, adjacency, given)
        else:
            expected = [(to_json(event), _plain("count", "Count", count)) for event, count in schedule or ()]
            self._filter = _native.RdpFilter.for_schedule(epsilon, delta, adjacency, expected)

    def spend(self, event: Event) -> None:
        """Counts `event` before it runs."""
        self._filter.spend(to_json(event))

    @property
    def balances(self) -> list[OrderBalance]:
        """The spending of each order."""
        return [OrderBalance(*balance) for balance in self._filter.balances()]


class IndividualGaussianFilter:
    """A Gaussian budget for each unit, which pays for that unit's own contribution only.

    **Which units are admitted is private data**: it depends on the records. Leave the others out of the step, and do
    not publish, log or look at the result to choose the next step. For this reason the class neither prints nor pickles
    its contents.
    """

    def __init__(self, n_units: int, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user") -> None:
        self._filter = _native.IndividualGaussianFilter(epsilon, delta, adjacency, n_units)

    def admit(self, mu: Iterable[float]) -> Any:
        """Charge unit i with `mu[i]`, its norm divided by the noise, and return an array that marks who takes part."""
        import numpy as np

        return np.array(self._filter.admit_all([float(one) for one in mu]), dtype=bool)


class Odometer:
    """The cost so far, at any moment, of Gaussian mechanisms chosen step by step, also if outputs decide when to stop.

    `mu` is where the ladder of its readings starts; choose it close to what will be spent. `growth` is the ratio of mu
    squared between successive rungs, 2 by default.
    """

    def __init__(self, *, delta: float, mu: float, growth: float | None = None, adjacency: Adjacency = "add-remove-user") -> None:
        self._odometer = _native.Odometer(delta, adjacency, mu, growth)

    def compose(self, event: Event, count: int = 1) -> None:
        """Adds `count` runs of `event`."""
        self._odometer.compose(to_json(event), _plain("count", "Count", count))

    @property
    def epsilon(self) -> float:
        """Epsilon so far at the odometer's delta; 0 before the first event."""
        return self._odometer.epsilon()

    @property
    def spent(self) -> float:
        """Mu spent so far. Not a guarantee at a moment that depends on outputs."""
        return self._odometer.spent()
