"""A ledger that pays for the releases of your own pipeline, and the certificate of what it paid for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from .. import _html, _native
from ..certificate import Certificate
from ..errors import BadSetting, CertificateError, InputMissing
from ..ledger import Adjacency, Ledger, LedgerKind
from .events import Event, _plain, to_json

__all__ = ["Balance", "OpenLedger", "Spend", "certify", "check_covered", "read_certificate"]


class Balance(NamedTuple):
    """The spending of a ledger, in the measure that it uses."""

    measure: str
    spent: float
    budget: float
    left: float


@dataclass(frozen=True)
class Spend:
    """One release that a ledger has paid for. Nothing is refunded: if it is not made, the budget stays spent."""

    label: str
    event: Event
    release_id: str
    """Its name in the ledger and in certificates."""
    n_draws: int
    data_set: str
    delta: float
    """That of the ledger's budget."""
    adjacency: Adjacency
    doubts: tuple[str, ...] = ()
    """What the certificate has to say of a ledger that may lack payments (`Ledger.accept_rollback`)."""


class OpenLedger:
    """A ledger file, open and locked: it pays for releases before their noise is drawn.

    `data_set` and `adjacency` are those that the ledger was created for; the default name is the file name without its
    extension.

    >>> with OpenLedger("ratings.ledger") as ledger:  # doctest: +SKIP
    ...     spend = ledger.spend(gaussian(noise_multiplier=8.0), label="histogram")  # durable when this returns
    ...     histogram = counts + rng.normal(scale=8.0 * sensitivity, size=counts.shape)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Ledger,
        *,
        data_set: str | None = None,
        adjacency: Adjacency = "add-remove-user",
    ) -> None:
        self.path = path.path if isinstance(path, Ledger) else Path(path)
        self.data_set = self.path.stem if data_set is None else data_set
        self.adjacency: Adjacency = adjacency
        self._ledger = _native.OpenLedger.open(os.fspath(self.path), self.data_set, adjacency)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        data_set: str | None = None,
        kind: LedgerKind = "gaussian",
        adjacency: Adjacency = "add-remove-user",
    ) -> OpenLedger:
        """Create a ledger as `Ledger.create` does, and open it."""
        ledger = Ledger.create(path, epsilon=epsilon, delta=delta, data_set=data_set, kind=kind, adjacency=adjacency)
        return cls(ledger, data_set=data_set, adjacency=adjacency)

    def spend(self, event: Event, *, label: str, n_draws: int = 0) -> Spend:
        """Pay for one release, or raise `BudgetExceeded` and pay nothing.

        The payment is durable when this returns; draw the noise after that. `n_draws` counts draws of this package's
        own sampler, for which a part of delta is reserved; noise from other sources has none.
        """
        return self._pay([(label, event, n_draws)])[0]

    def spend_all(self, releases: Mapping[str, Event] | Iterable[tuple[str, Event]]) -> list[Spend]:
        """Pay for all these releases, given by their labels, or for none."""
        return self._pay(_wanted(releases))

    def affords(self, releases: Event | Mapping[str, Event] | Iterable[tuple[str, Event]]) -> bool:
        """Whether the budget has room for these releases now, without paying for them."""
        return self._ledger.affords(_texts(_wanted(releases)))

    def cost(self, releases: Event | Mapping[str, Event] | Iterable[tuple[str, Event]]) -> float:
        """The cost of these releases, in the measure of `balance`, whether or not the budget has room for them."""
        return self._ledger.cost(_texts(_wanted(releases)))

    def _pay(self, wanted: list[_Wanted]) -> list[Spend]:
        _, delta, _ = self._ledger.budget()
        ids = self._ledger.spend(_texts(wanted))
        doubts = tuple(self._ledger.doubts())
        return [
            Spend(label, event, release_id, n_draws, self.data_set, delta, self.adjacency, doubts)
            for (label, event, n_draws), release_id in zip(wanted, ids, strict=True)
        ]

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self._ledger.budget()[0]

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self._ledger.budget()[1]

    @property
    def n_releases(self) -> int:
        """Number of releases paid for so far."""
        return self._ledger.budget()[2]

    @property
    def balance(self) -> Balance:
        """The amounts spent and remaining."""
        return Balance(*self._ledger.balance())

    @property
    def remaining(self) -> float:
        """Mu of the Gaussian releases that can still be paid for, rounded down."""
        return self._ledger.remaining()

    def close(self) -> None:
        """Close the file, so that other processes can write to it."""
        self._ledger.close()

    def __enter__(self) -> OpenLedger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        spent, budget = self.balance.spent, self.balance.budget
        facts = [
            ("budget", f"{_html.guarantee(self.epsilon, self.delta)}, {self.adjacency}"),
            ("spent", f"{100.0 * spent / budget:.1f} % by {_html.count(self.n_releases, 'release')}"),
        ]
        return _html.card("Open ledger", f"{self.data_set}: {self.path.name}", _html.bar(spent / budget), _html.facts(facts))

    def __repr__(self) -> str:
        return f"OpenLedger({os.fspath(self.path)!r})"


_Wanted = tuple[str, Event, int]


def _wanted(releases: Event | Mapping[str, Event] | Iterable[tuple[str, Event]]) -> list[_Wanted]:
    if isinstance(releases, Event):
        releases = [("release", releases)]
    pairs = releases.items() if isinstance(releases, Mapping) else releases
    return [(label, event, 0) for label, event in pairs]


def _texts(wanted: list[_Wanted]) -> list[tuple[str, str, int]]:
    return [(label, to_json(event), _plain("n_draws", "int", n_draws)) for label, event, n_draws in wanted]


def certify(
    spends: Iterable[Spend],
    *,
    released: Mapping[str, str],
    assumptions: Iterable[str] = (),
) -> Certificate:
    """The certificate of releases that one ledger paid for.

    `released` states for each output who may see it; `assumptions` are what a reader must take on trust: how
    contributions were bounded and where the noise came from. The guarantee is that of these releases alone; the
    ledger's budget covers everything that it ever paid for.
    """
    paid = list(spends)
    if not paid or any((s.data_set, s.delta, s.adjacency) != (paid[0].data_set, paid[0].delta, paid[0].adjacency) for s in paid):
        raise BadSetting("a certificate is for one release or more, all paid for by one ledger")
    first = paid[0]
    releases = [(spend.label, to_json(spend.event), spend.n_draws, spend.release_id) for spend in paid]
    doubts = dict.fromkeys(doubt for spend in paid for doubt in spend.doubts)
    outputs, needs = list(released.items()), [*assumptions, *doubts]
    text = _native.certificate_of(releases, first.data_set, first.delta, first.adjacency, outputs, needs)
    return Certificate(text)


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """The certificate in a file, or in a model's folder. Its values are not recomputed yet: see `Certificate.verify`."""
    file = Path(path)
    if file.is_dir():
        file /= "certificate.json"
    try:
        return Certificate(file.read_bytes().decode())
    except FileNotFoundError:
        raise InputMissing(f"there is no certificate {file}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CertificateError(f"{file} is no certificate: {error}") from None


def check_covered(certificate: Certificate, ledger: str | os.PathLike[str] | Ledger) -> None:
    """Raise an error unless the ledger paid for every release of the certificate, and is no older copy of itself."""
    path = ledger.path if isinstance(ledger, Ledger) else ledger
    _native.ledger_covers(os.fspath(path), certificate.to_json())
