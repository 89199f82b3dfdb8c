"""Plans: what a run will release, before any data are read."""

from __future__ import annotations

from typing import Any

from . import _html
from ._json import loads
from .certificate import describe

__all__ = ["Plan"]


class Plan:
    """The releases of a run and their cost: public, and the same for all data."""

    def __init__(self, text: str) -> None:
        self._fields = loads(text)

    @property
    def epsilon(self) -> float:
        """Epsilon of all releases together, at `delta`."""
        return float(self._fields["guarantee"]["epsilon"])

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return float(self._fields["guarantee"]["delta"])

    @property
    def releases(self) -> list[dict[str, Any]]:
        """Label, mechanism and noise multiplier of each release; the multiplier is None for noise that is not Gaussian."""
        found: list[dict[str, Any]] = self._fields["releases"]
        return found

    def _head(self) -> str:
        return f"{len(self.releases)} releases: epsilon {self.epsilon:.6g} at delta {self.delta:.6g}"

    def __str__(self) -> str:
        width = max((len(release["label"]) for release in self.releases), default=0)
        lines = [f"  {release['label']:<{width}}  {_noise(release)}" for release in self.releases]
        return "\n".join([self._head(), *lines])

    def __repr__(self) -> str:
        return f"<Plan: {self._head()}>"

    def _repr_html_(self) -> str:
        rows = [(release["label"], describe(release["mechanism"])) for release in self.releases]
        costs = [release["noise_multiplier"] and release["noise_multiplier"] ** -2 for release in self.releases]
        known = [cost for cost in costs if cost is not None]
        shares = [cost / sum(known) for cost in known] if len(known) == len(rows) else None
        parts = [_html.table(("release", "mechanism"), rows, shares)]
        if shares is not None:
            parts.append(_html.text("Bars are shares of the cost, which adds up as 1 / noise multiplier squared."))
        return _html.card("Plan", f"{_html.guarantee(self.epsilon, self.delta)}, before any data are read", *parts)


def _noise(release: dict[str, Any]) -> str:
    multiplier = release["noise_multiplier"]
    if multiplier is None:
        return str(release["mechanism"].get("mechanism", "not Gaussian"))
    return f"noise multiplier {multiplier:.4g}"
