"""Personalization with user-level differential privacy."""

from __future__ import annotations

from . import accounting, errors
from ._evidence import evidence
from ._load import load
from ._native import __version__
from ._synth import synth
from .certificate import Certificate
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
from .linear import (
    PrivateFederatedClassifier,
    PrivateFederatedRegressor,
    PrivatePersonalClassifier,
    PrivatePersonalRegressor,
)
from .nightly import Nightly, NightlySubspace
from .plan import Plan
from .recommender import ItemVectors, PrivatePopularity, PrivateRecommender

__all__ = [
    "NO_LEDGER",
    "BadInput",
    "BadSetting",
    "BudgetExceeded",
    "Certificate",
    "DpError",
    "DpWarning",
    "ItemVectors",
    "Ledger",
    "LedgerError",
    "LedgerInUse",
    "Nightly",
    "NightlySubspace",
    "NotFittedError",
    "Plan",
    "PrivacyWarning",
    "PrivateFederatedClassifier",
    "PrivateFederatedRegressor",
    "PrivatePersonalClassifier",
    "PrivatePersonalRegressor",
    "PrivatePopularity",
    "PrivateRecommender",
    "__version__",
    "accounting",
    "errors",
    "evidence",
    "load",
    "synth",
]
