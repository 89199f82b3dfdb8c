"""Personalization with user-level differential privacy."""

from __future__ import annotations

from . import accounting, errors
from ._native import __version__
from .errors import (
    BadInput,
    BadSetting,
    BudgetExceeded,
    DpError,
    DpWarning,
    LedgerError,
    LedgerInUse,
    NotFittedError,
    PrivacyWarning,
)
from .ledger import NO_LEDGER, Ledger

__all__ = [
    "NO_LEDGER",
    "BadInput",
    "BadSetting",
    "BudgetExceeded",
    "DpError",
    "DpWarning",
    "Ledger",
    "LedgerError",
    "LedgerInUse",
    "NotFittedError",
    "PrivacyWarning",
    "__version__",
    "accounting",
    "errors",
]
