"""Epsilon and delta of composed mechanisms, and the parameter that just meets a target."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from .. import _html, _native
from ..certificate import describe
from ..errors import NoGuarantee
from ..ledger import Adjacency
from .events import Composed, Event, Repeated, _plain, to_json

__all__ = [
    "Accountant",
    "Adjacency",
    "Bound",
    "Calibrated",
    "Method",
    "TradeOff",
    "calibrate_count",
    "calibrate_largest",
    "calibrate_noise_multiplier",
    "calibrate_sampling_probability",
    "calibrate_smallest",
]

Method = Literal["tightest", "gdp", "saddle-point", "pld", "rdp", "zcdp"]
"""How a figure is found. `"tightest"` asks those that apply and keeps the best."""

_Answer = tuple[float, float, float, str]


class Bound(float):
    """An epsilon, a delta or a divergence with a lower and an upper bound.

    As a number it is `upper`, which is never below the true value: the value to promise.
    """

    lower: float
    """Never above the truth; 0 where the method knows nothing from below."""
    value: float
    """The best single figure: the exact value where the method is exact, else `upper`."""
    method: str
    """How it was found."""

    def __new__(cls, upper: float, lower: float, value: float, method: str) -> Bound:
        """A bracket from `lower` to `upper`."""
        bound = super().__new__(cls, upper)
        bound.lower, bound.value, bound.method = lower, value, method
        return bound

    @property
    def upper(self) -> float:
        """Never below the true value."""
        return float(self)

    def __reduce__(self) -> tuple[type[Bound], tuple[float, float, float, str]]:
        return Bound, (float(self), self.lower, self.value, self.method)

    def __repr__(self) -> str:
        return f"Bound({float(self)!r}, lower={self.lower!r}, method={self.method!r})"

    def __str__(self) -> str:
        return float.__repr__(self)

    def _repr_html_(self) -> str:
        return _html.card("Bound", f"at most {self.upper:.6g}", _html.facts(self._facts()))

    def _facts(self) -> list[tuple[str, str]]:
        known = f"at least {self.lower:.6g}" if self.lower > 0.0 else "not known from below"
        return [("the truth is", known), ("found by", self.method)]


@dataclass(frozen=True)
class TradeOff:
    """The type II error of the best test of whether one unit took part, at one type I error, with bounds on both sides."""

    alpha: float
    """False-positive rate of the membership test."""
    lower: float
    """Lower bound on its false-negative rate: the figure to promise."""
    upper: float
    """Upper bound on the smallest false-negative rate; `1 - alpha` if the method has no other bound."""
    method: str
    """How delta was found."""

    @property
    def true_positive_rate(self) -> float:
        """Upper bound on its true-positive rate."""
        return 1.0 - self.lower

    def _repr_html_(self) -> str:
        accused, found = 100.0 * self.alpha, 100.0 * self.true_positive_rate
        sentence = (
            f"A membership test with a false-positive rate of {accused:.3g} % has a true-positive rate of at most {found:.3g} %; "
            f"random guessing has {accused:.3g} %."
        )
        return _html.card("Trade-off", f"misses at least {100.0 * self.lower:.4g} %", _html.text(sentence))


def _bound(answer: _Answer) -> Bound:
    value, lower, upper, method = answer
    return Bound(upper, lower, value, method)


def _trade_off(alpha: float, answer: _Answer) -> TradeOff:
    _, lower, upper, method = answer
    return TradeOff(alpha, lower, upper, method)


def _orders(orders: Iterable[float] | None) -> list[float] | None:
    return None if orders is None else [float(order) for order in orders]


def epsilon(event: Event, delta: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> Bound:
    return _bound(_native.account_answer(to_json(event), ("epsilon", delta), adjacency, method, None))


def delta(event: Event, epsilon: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> Bound:
    return _bound(_native.account_answer(to_json(event), ("delta", epsilon), adjacency, method, None))


def trade_off(event: Event, alpha: float, *, adjacency: Adjacency = "add-remove-user", method: Method = "tightest") -> TradeOff:
    return _trade_off(alpha, _native.account_answer(to_json(event), ("trade-off", alpha), adjacency, method, None))


def rdp(event: Event, order: float, *, adjacency: Adjacency = "add-remove-user") -> Bound:
    return _bound(_native.account_rdp(to_json(event), order, adjacency))


def mu(event: Event, *, adjacency: Adjacency = "add-remove-user") -> float:
    return _native.account_mu(to_json(event), adjacency)


def rho(event: Event, *, adjacency: Adjacency = "add-remove-user") -> float:
    return _native.account_rho(to_json(event), adjacency)


class Accountant:
    """Adds up the cost of mechanisms. It is valid for a schedule fixed in advance.

    To decide what to run, or when to stop, by looking at outputs, use a filter: see `GaussianFilter` and `RdpFilter`.
    """

    def __init__(
        self,
        *,
        adjacency: Adjacency = "add-remove-user",
        method: Method = "tightest",
        orders: Iterable[float] | None = None,
    ) -> None:
        """`orders` are Renyi orders for method `"rdp"`, about 330 of them by default."""
        self.adjacency: Adjacency = adjacency
        self.method: Method = method
        self.orders = _orders(orders)
        self._counts: dict[Event, int] = {}

    def compose(self, event: Event, count: int = 1) -> Accountant:
        """Adds `count` runs of `event`. An event that this accountant cannot count raises an error, and changes nothing."""
        count = _plain("count", "Count", count)
        known = self._counts.get(event, 0)
        if known == 0:
            _native.account_check(to_json(event), self.adjacency, self.method, self.orders)
        self._counts[event] = _plain("count", "Count", known + count)
        return self

    @property
    def event(self) -> Composed:
        """Everything composed so far, as one event."""
        counts = self._counts.items()
        return Composed(tuple(event if count == 1 else Repeated(event, count) for event, count in counts))

    def _composed(self) -> str:
        if not self._counts:
            raise NoGuarantee("nothing was composed, so there is no guarantee to state")
        return to_json(self.event)

    def _ask(self, question: str, at: float) -> _Answer:
        return _native.account_answer(self._composed(), (question, at), self.adjacency, self.method, self.orders)

    def epsilon(self, delta: float) -> Bound:
        """The smallest epsilon at `delta`."""
        return _bound(self._ask("epsilon", delta))

    def delta(self, epsilon: float) -> Bound:
        """The smallest delta at `epsilon`."""
        return _bound(self._ask("delta", epsilon))

    def trade_off(self, alpha: float) -> TradeOff:
        """False-negative rate of the best attacker with false-positive rate `alpha`: a bracket."""
        return _trade_off(alpha, self._ask("trade-off", alpha))

    def _repr_html_(self) -> str:
        rows = [(describe(event._json()), str(count)) for event, count in self._counts.items()]
        head = f"{sum(self._counts.values())} mechanisms, {self.adjacency}"
        return _html.card("Accountant", head, _html.table(("mechanism", "runs"), rows))

    def __repr__(self) -> str:
        return f"<Accountant: {sum(self._counts.values())} mechanisms, {self.adjacency}, {self.method}>"


_T = TypeVar("_T", int, float)


@dataclass(frozen=True)
class Calibrated(Generic[_T]):
    """A parameter that meets a target, rounded to the safe side, and its epsilon at the target's delta."""

    value: _T
    epsilon: Bound

    def _repr_html_(self) -> str:
        gives = ("gives epsilon", f"{self.epsilon.upper:.6g}")
        return _html.card("Calibrated", f"{self.value:.6g}", _html.facts([gives, *self.epsilon._facts()]))


def _number(
    events: Callable[[float], Event],
    target: tuple[float, float],
    adjacency: Adjacency,
    what: str,
    within: tuple[float, float] = (0.0, 0.0),
) -> Calibrated[float]:
    value, answer = _native.calibrate_number(lambda x: to_json(events(x)), target, adjacency, what, within)
    return Calibrated(value, _bound(answer))


def calibrate_noise_multiplier(
    event: Callable[[float], Event], *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user"
) -> Calibrated[float]:
    """The smallest noise multiplier z, from 1e-6 to 1e9, with which `event(z)` is (epsilon, delta)-DP."""
    return _number(event, (epsilon, delta), adjacency, "noise-multiplier")


def calibrate_sampling_probability(
    event: Callable[[float], Event], *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user"
) -> Calibrated[float]:
    """The largest sampling probability q, from 1e-12 to 1, with which `event(q)` is (epsilon, delta)-DP."""
    return _number(event, (epsilon, delta), adjacency, "sampling-probability")


def calibrate_smallest(
    event: Callable[[float], Event],
    *,
    within: tuple[float, float],
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "add-remove-user",
) -> Calibrated[float]:
    """The smallest x of an interval with which `event(x)` is (epsilon, delta)-DP, if the cost decreases with x."""
    return _number(event, (epsilon, delta), adjacency, "smallest", within)


def calibrate_largest(
    event: Callable[[float], Event],
    *,
    within: tuple[float, float],
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "add-remove-user",
) -> Calibrated[float]:
    """The largest x of an interval with which `event(x)` is (epsilon, delta)-DP, if the cost increases with x."""
    return _number(event, (epsilon, delta), adjacency, "largest", within)


def calibrate_count(
    event: Callable[[int], Event], *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove-user"
) -> Calibrated[int]:
    """The largest n with which `event(n)` is (epsilon, delta)-DP, exactly: n + 1 would miss the target."""
    value, answer = _native.calibrate_count(lambda n: to_json(event(n)), (epsilon, delta), adjacency)
    return Calibrated(value, _bound(answer))
