"""Certificates: what was released, and its privacy cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _html, _native
from ._json import loads
from .errors import CertificateError

__all__ = ["Certificate", "ReleasedMetric"]


class ReleasedMetric(NamedTuple):
    """A held-out metric that a run released, with its cost in the guarantee."""

    metric: str
    """What is measured, such as "RMSE" or "Recall@20"."""
    method: str
    """What was evaluated: "model", a baseline, or the gain of the model over a baseline."""
    value: float
    lower: float
    """The lower end of the interval of `value`, which covers the noise and the sampling of users."""
    upper: float
    confidence: float
    """Coverage probability of the interval, such as 0.95."""


class Certificate:
    """The certificate of a model. It contains released and public values only."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fields = loads(text)

    def as_dict(self) -> dict[str, Any]:
        """All fields, as described in `docs/certificate.md`."""
        return loads(self._text)

    def to_json(self) -> str:
        """The file itself, byte for byte."""
        return self._text

    @property
    def epsilon(self) -> float:
        """Epsilon of everything that was released, at `delta`; infinite if no privacy is promised."""
        return float(self._fields["guarantee"]["epsilon"]) if self.is_private else math.inf

    @property
    def delta(self) -> float:
        """Delta of the guarantee."""
        return float((self._fields["guarantee"] or self._fields["target"])["delta"])

    @property
    def epsilon_replace(self) -> float:
        """Epsilon for replacing one unit by another, at `delta`; infinite if none is certified."""
        epsilon = self._fields["guarantee"]["epsilon_replace"] if self.is_private else None
        return math.inf if epsilon is None else float(epsilon)

    @property
    def unit(self) -> str:
        """What is protected, such as "user": the assumptions say who that is."""
        return str(self._fields["unit"])

    @property
    def adjacency(self) -> str:
        """Which data sets are neighbours for `epsilon`, such as "add-remove-user"."""
        return str(self._fields["adjacency"])

    @property
    def is_private(self) -> bool:
        """Whether any privacy is promised: false for a run without noise, or with seeded noise."""
        return self._fields["guarantee"] is not None

    @property
    def metrics(self) -> list[ReleasedMetric]:
        """Held-out metrics that the run released (`release_metrics`); empty if it released none."""
        return [ReleasedMetric(*(of[name] for name in ReleasedMetric._fields)) for of in self._fields.get("metrics", [])]

    def verify(self) -> None:
        """Recompute all values from the releases; raises `CertificateError` if one differs."""
        _native.certificate_verify(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Certificate], tuple[str]]:
        return Certificate, (self._text,)

    def __repr__(self) -> str:
        promise = f"epsilon={self.epsilon:.6g}, delta={self.delta:.6g}" if self.is_private else "NOT PRIVATE"
        return f"Certificate({promise}, {self.adjacency})"

    def _repr_html_(self) -> str:
        return _html.card("Certificate", self._head(), *self._html_parts())

    def _head(self) -> str:
        if not self.is_private:
            return "no privacy is promised"
        return f"{_html.guarantee(self.epsilon, self.delta)} for each {self._fields['unit']}"

    def _html_parts(self) -> Iterator[str]:
        try:
            said = loads(_native.certificate_statement(self._text))
        except CertificateError as error:
            yield _html.alarm(f"This certificate does not hold: {error}")
            return
        if not self.is_private:
            yield _html.alarm(f"NOT PRIVATE: {self._fields['status'].get('reason', 'nothing is guaranteed')}.")
        yield from map(_html.text, said["meaning"])
        facts = [("data set", str(self._fields["data_set_id"]))]
        facts += [(f"\u03b5, {neighbours}", epsilon) for neighbours, epsilon in said["epsilons"]]
        if said["method"]:
            facts.append(("how it was found", said["method"]))
        facts += [(f"seen by {output['to']}", output["what"]) for output in self._fields["released"]]
        yield _html.facts(facts)
        metrics = [(of.metric, of.method, f"{of.value:.4g}", f"{of.lower:.4g} to {of.upper:.4g}") for of in self.metrics]
        if metrics:
            interval = f"{100 * self.metrics[0].confidence:.0f} % interval"
            yield _html.table(("metric", "of", "value", interval), metrics)
        releases = [(release["label"], describe(release["event"])) for release in self._fields["releases"]]
        yield _html.more(_html.count(len(releases), "release"), _html.table(("release", "mechanism"), releases))
        assumed = [assumption["text"] for assumption in self._fields["assumptions"]]
        if assumed:
            yield _html.more(f"rests on {len(assumed)} assumptions", _html.items(assumed))
        if self._fields["not_covered"]:
            yield _html.more("not covered", _html.items(self._fields["not_covered"]))


def describe(event: dict[str, Any]) -> str:
    """A mechanism in words: its name, and its parameters by name."""
    of = event.get("event")
    numbers = [
        f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in event.items()
        if isinstance(value, int | float) and value is not True
    ]
    inner = [describe(of)] if isinstance(of, dict) else []
    return ", ".join([event["mechanism"].replace("-", " ").removesuffix(" sampled"), *numbers, *inner])
