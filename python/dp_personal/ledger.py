"""Ledgers: the spending on one data set over all runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Literal

from . import _html, _native
from ._json import loads
from .errors import SettingType, bad_setting

__all__ = ["NO_LEDGER", "Adjacency", "Ledger", "LedgerKind"]

Adjacency = Literal["add-remove-user", "replace-user", "add-remove-record", "replace-record"]
"""Which data sets are neighbours: one user or one record more or less, or exchanged for another."""

LedgerKind = Literal["gaussian", "mixed", "schedule"]
"""What a ledger counts."""


class _NoLedger:
    """Marker for a run that is counted alone: nothing adds it to other runs on the same data."""

    def __repr__(self) -> str:
        return "NO_LEDGER"

    def __reduce__(self) -> str:
        return "NO_LEDGER"

    def __copy__(self) -> _NoLedger:
        return self

    def __deepcopy__(self, memo: object) -> _NoLedger:
        return self


NO_LEDGER: Final = _NoLedger()
"""In place of a ledger: epsilon is that of this run alone. The certificate says so."""


def _share(run: dict[str, Any]) -> str:
    share = run.get("share")
    return "" if share is None else f"{100.0 * share:.1f} %"


class Ledger:
    """A ledger file. This class only reads it; runs write to it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise bad_setting("ledger", path, "the file of a ledger", SettingType)
        self.path = Path(path)

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
    ) -> Ledger:
        """Create a ledger with the total that all runs on a data set may spend.

        It counts only Gaussian mechanisms, mechanisms with a Renyi divergence (`"mixed"`), or one schedule that is paid
        for as a whole. Estimators pay for adding or removing one user, the default; your own pipelines may use another
        neighbouring relation.

        `data_set` is the name that runs use for the data; the default is the file name of the ledger without its
        extension. Runs on a table in memory and on a file `NAME.csv` accept `NAME` and `NAME.csv`, the former if the
        ledger's file is `NAME.ledger`.
        """
        ledger = cls(path)
        name = ledger.path.stem if data_set is None else data_set
        if adjacency == "add-remove-user" and kind != "schedule":
            _native.ledger_create(ledger._given(), name, epsilon, delta, kind)
        else:
            _native.OpenLedger.create(ledger._given(), name, (epsilon, delta), adjacency, kind).close()
        return ledger

    def accept_rollback(self) -> None:
        """Use a ledger that was truncated or is an older copy, if the newest copy is lost.

        Until then, runs with it raise `LedgerError`. The ledger and all later certificates say that the payments that
        it lost are not counted.
        """
        _native.ledger_accept_rollback(self._given())

    def _given(self) -> str:
        return os.fspath(self.path)

    def as_dict(self) -> dict[str, Any]:
        """The spending, its purposes, and the remaining budget; the same as `dp ledger show --json`."""
        json, _ = _native.ledger_show(self._given())
        return loads(json)

    def show(self) -> str:
        """The same as text."""
        _, text = _native.ledger_show(self._given())
        return text

    def _repr_html_(self) -> str:
        fields = self.as_dict()
        balance, left = fields["balance"], fields["left"]
        spent = balance["spent"] / balance["budget"] if balance["budget"] > 0.0 else 1.0
        facts = [
            ("budget", f"{_html.guarantee(fields['epsilon'], fields['delta'])} for all runs, {fields['adjacency']}"),
            ("spent", f"{100.0 * spent:.1f} % by {_html.count(fields['n_releases'], 'release')}"),
        ]
        if left and left.get("epsilon") is not None:
            facts.append(("left", f"\u03b5 {left['epsilon']:.4g}"))
        runs = [
            (
                run["time"].replace("T", " ").removesuffix("Z"),
                str(run["command"] or "own pipeline"),
                f"{run['n_releases']}",
                _share(run),
            )
            for run in fields["runs"]
        ]
        parts = [_html.bar(spent), _html.facts(facts)]
        if runs:
            parts.append(_html.table(("paid (UTC)", "by", "releases", "of the budget"), runs))
        return _html.card("Ledger", f"{fields['data_set']}: {self.path.name}", *parts)

    def __repr__(self) -> str:
        return f"Ledger({self._given()!r})"
