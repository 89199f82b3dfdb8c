"""Certificates: what was released, and what that costs."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from . import _native
from ._json import loads

__all__ = ["Certificate"]


class Certificate:
    """The certificate of a model. It holds released and public values only."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fields = loads(text)

    def as_dict(self) -> dict[str, Any]:
        """All fields, as `docs/certificate.md` describes them."""
        return loads(self._text)

    def to_json(self) -> str:
        """The file itself, byte for byte."""
        return self._text

    @property
    def epsilon(self) -> float:
        """Epsilon of everything that was released, at `delta`; infinite where no privacy is promised."""
        return float(self._fields["guarantee"]["epsilon"]) if self.is_private else math.inf

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return float((self._fields["guarantee"] or self._fields["target"])["delta"])

    @property
    def is_private(self) -> bool:
        """Whether any privacy is promised: not by a run without noise, or with seeded noise."""
        return self._fields["guarantee"] is not None

    def verify(self) -> None:
        """Recompute all figures from the releases; `CertificateError` where one does not follow."""
        _native.certificate_verify(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Certificate], tuple[str]]:
        return Certificate, (self._text,)

    def __repr__(self) -> str:
        return f"Certificate(epsilon={self.epsilon:.6g}, delta={self.delta:.6g})"

    def _repr_html_(self) -> str:
        releases = self._fields["releases"]
        return (
            "<table><caption>Certificate</caption>"
            f"<tr><td>epsilon</td><td>{self.epsilon:.6g}</td></tr><tr><td>delta</td><td>{self.delta:.6g}</td></tr>"
            f"<tr><td>neighbours</td><td>{escape(str(self._fields['adjacency']))}</td></tr>"
            f"<tr><td>data set</td><td>{escape(str(self._fields['data_set_id']))}</td></tr>"
            f"<tr><td>releases</td><td>{len(releases)}</td></tr></table>"
        )
