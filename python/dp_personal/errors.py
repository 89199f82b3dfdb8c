"""Exceptions of this package.

Every exception is a `DpError` and, where one fits, also the builtin exception that a caller would expect.
"""

from __future__ import annotations

__all__ = [
    "BadInput",
    "BadSetting",
    "BudgetExceeded",
    "CertificateError",
    "DpError",
    "DpWarning",
    "InputMissing",
    "LedgerError",
    "LedgerExists",
    "LedgerInUse",
    "LedgerMissing",
    "NoGuarantee",
    "NotCertified",
    "NotFittedError",
    "OutputError",
    "OutputExists",
    "PrivacyWarning",
    "SettingType",
    "TargetOutOfReach",
    "UnsupportedEvent",
    "bad_setting",
    "not_fitted",
]


class DpError(Exception):
    """Any exception that `dp_personal` raises."""


class BadSetting(DpError, ValueError):
    """A parameter that is missing or out of range, or parameters that cannot be combined. Nothing was spent."""

    setting: str | None = None
    """The parameter, where one alone is at fault."""


class SettingType(BadSetting, TypeError):
    """A parameter of a type that cannot be used."""


class BadInput(DpError, ValueError):
    """Data that cannot be used. Messages name the position, never a value found there."""

    source: str | None = None
    """The file, or what the table is called."""
    line: int | None = None
    """Line of a text file, or row of a table, counted from 1."""
    column: int | None = None
    """Field within the line or row, counted from 1."""


class InputMissing(BadInput, FileNotFoundError):
    """A file that does not exist."""


class BudgetExceeded(DpError, RuntimeError):
    """The ledger cannot pay for a run. Nothing was released."""

    epsilon_left: float | None = None
    """The largest epsilon at the same delta that the ledger can pay for, in Gaussian releases."""


class LedgerError(DpError, RuntimeError):
    """A ledger that is damaged, truncated, or of other data."""


class LedgerInUse(LedgerError, BlockingIOError):
    """A ledger that another process has open."""


class LedgerExists(LedgerError, FileExistsError):
    """A ledger was to be created where one already exists."""


class LedgerMissing(LedgerError, FileNotFoundError):
    """The ledger does not exist."""


class CertificateError(DpError, ValueError):
    """A certificate, or a file that it covers, failed verification."""


class OutputError(DpError, OSError):
    """A model or a page cannot be written."""


class OutputExists(OutputError, FileExistsError):
    """The output already exists and is not replaced."""


class NotFittedError(DpError, ValueError, AttributeError):
    """An estimator was used before `fit`."""


class UnsupportedEvent(BadSetting):
    """A mechanism that an accountant, the neighbouring relation or an adapter does not support."""

    event: str | None = None
    """Its name."""


class NoGuarantee(DpError, ValueError):
    """There is no finite value: nothing was composed, or a mechanism fails completely with a probability above delta."""


class TargetOutOfReach(DpError, ValueError):
    """No parameter in the searched range meets the target."""


class NotCertified(DpError, ArithmeticError):
    """A method cannot answer within its numerical limits; `"tightest"` chooses one that can."""


class DpWarning(UserWarning):
    """Something about a run or its data that the caller should know."""


class PrivacyWarning(DpWarning):
    """A guarantee that is weaker than it appears, or none at all."""


def bad_setting(name: str, value: object, expected: str, kind: type[BadSetting] = BadSetting) -> BadSetting:
    """The error to raise for a parameter out of its range, or of a type that cannot be used."""
    error = kind(f"{name} = {value!r}: expected {expected}")
    error.setting = name
    return error


def not_fitted(name: str) -> NotFittedError:
    """The error to raise; if scikit-learn is loaded, it is also an instance of scikit-learn's class of that name."""
    import sys

    text = f"this {name} is not fitted: call `fit` first"
    if "sklearn.exceptions" not in sys.modules:
        return NotFittedError(text)
    theirs = sys.modules["sklearn.exceptions"].NotFittedError
    both = type("NotFittedError", (NotFittedError, theirs), {"__module__": __name__})
    error: NotFittedError = both(text)
    return error
