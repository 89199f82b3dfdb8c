"""Ledgers: what was spent on one data set over all runs."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Any, Final

from . import _native
from ._json import loads

__all__ = ["NO_LEDGER", "Ledger"]


class _NoLedger:
    """Says that a run is counted alone: nothing adds it to other runs on the same data."""

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


class Ledger:
    """A ledger file. It is only read here; runs write to it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        data_set: str | None = None,
        kind: str = "gaussian",
    ) -> Ledger:
        """Makes a ledger with the total that all runs on a data set may spend.

        `data_set` is the name under which runs know the data. Runs on a table in memory take the name of the ledger
        without its ending unless they are told another, and so does this; runs on a file take the file's name.
        """
        ledger = cls(path)
        name = ledger.path.stem if data_set is None else data_set
        _native.ledger_create(ledger._given(), name, epsilon, delta, kind)
        return ledger

    def _given(self) -> str:
        return os.fspath(self.path)

    def as_dict(self) -> dict[str, Any]:
        """What was spent, on what, and what is left; the same as `dp ledger show --json`."""
        json, _ = _native.ledger_show(self._given())
        return loads(json)

    def show(self) -> str:
        """The same in words."""
        _, text = _native.ledger_show(self._given())
        return text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.show())}</pre>"

    def __repr__(self) -> str:
        return f"Ledger({self._given()!r})"
