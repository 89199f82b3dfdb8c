"""What a call can fail with.

Every exception is a `DpError` and, where one fits, the builtin that a caller would look for.
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
    "TargetOutOfReach",
    "UnsupportedEvent",
    "not_fitted",
]


class DpError(Exception):
    """Anything that `dp_personal` raises."""


class BadSetting(DpError, ValueError):
    """A parameter that is missing or out of range, or parameters that do not go together. Nothing was spent."""

    setting: str | None = None
    """The parameter, where one alone is at fault."""


class BadInput(DpError, ValueError):
    """Data that cannot be used. Messages name the place, never a value that stands there."""

    source: str | None = None
    """The file, or what the table is called."""
    line: int | None = None
    """Line of a text file, or row of a table, counted from 1."""
    column: int | None = None
    """Field within the line or row, counted from 1."""


class InputMissing(BadInput, FileNotFoundError):
    """A file that does not exist."""


class BudgetExceeded(DpError, RuntimeError):
    """A run that its ledger cannot pay for. Nothing was released."""


class LedgerError(DpError, RuntimeError):
    """A ledger that is damaged, cut off, or of other data."""


class LedgerInUse(LedgerError, BlockingIOError):
    """A ledger that another process has open."""


class LedgerExists(LedgerError, FileExistsError):
    """A ledger was to be made where one is already."""


class LedgerMissing(LedgerError, FileNotFoundError):
    """There is no such ledger."""


class CertificateError(DpError, ValueError):
    """A certificate, or a file that it covers, that does not hold."""


class OutputError(DpError, OSError):
    """A model or a page that cannot be written."""


class OutputExists(OutputError, FileExistsError):
    """The output is there already and is not replaced."""


class NotFittedError(DpError, ValueError, AttributeError):
    """An estimator was used before `fit`."""


class UnsupportedEvent(BadSetting):
    """A mechanism that an accountant, the neighbouring relation or an adapter has no answer for."""

    event: str | None = None
    """Its name."""


class NoGuarantee(DpError, ValueError):
    """There is no finite figure: nothing was composed, or a mechanism fails altogether with a probability above delta."""


class TargetOutOfReach(DpError, ValueError):
    """No parameter in the range that was searched meets the target."""


class NotCertified(DpError, ArithmeticError):
    """A method cannot answer within its numerical limits; `"tightest"` picks one that can."""


class DpWarning(UserWarning):
    """Something about a run or its data that whoever runs it should know."""


class PrivacyWarning(DpWarning):
    """A guarantee that is weaker than it looks, or none at all."""


def not_fitted(name: str) -> NotFittedError:
    """The error to raise; where scikit-learn is loaded it is an instance of its class of that name too."""
    import sys

    text = f"this {name} is not fitted: call `fit` first"
    if "sklearn.exceptions" not in sys.modules:
        return NotFittedError(text)
    theirs = sys.modules["sklearn.exceptions"].NotFittedError
    both = type("NotFittedError", (NotFittedError, theirs), {"__module__": __name__})
    error: NotFittedError = both(text)
    return error
