"""What the accountant can fail with, beside `dp_personal.errors`."""

from __future__ import annotations

from ..errors import BadSetting, DpError

__all__ = ["NoGuarantee", "NotCertified", "TargetOutOfReach", "UnsupportedEvent"]


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
