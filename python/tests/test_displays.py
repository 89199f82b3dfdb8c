"""Notebook displays are well-formed, contain released values, name no folders, and use the colours of the surrounding page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dp_personal as dp
from dp_personal import accounting
from dp_personal.accounting import events as ev

VOID = {"br", "img", "hr", "meta", "input"}


class Checked(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened
        assert self.opened.pop() == tag


def shown(of: Any) -> str:
    """The display without its style, as text and tags."""
    html: str = of._repr_html_()
    parser = Checked()
    parser.feed(html)
    assert parser.opened == []
    style, _, body = html.partition("</style>")
    # text and lines take the colour of the page, whatever it is
    assert re.findall(r"(?<![-\w])color:(?!inherit|#d9480f)[^;}]*", style) == []
    assert "background:#fff" not in style
    return body


def test_a_model_its_plan_its_certificate_and_its_ledger(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Any
) -> None:
    ledger = dp.Ledger.create(tmp_path / "ratings.ledger", epsilon=5.0, delta=1e-5)
    assert "0.0 %" in shown(ledger)
    model = recommender.set_params(ledger=ledger)
    assert "not fitted" in shown(model)
    plan = shown(model.plan())
    assert plan.count("<tr>") == 1 + len(model.plan().releases)
    widths = [float(width) for width in re.findall(r'style="width:([\d.]+)%"', plan)]
    assert sum(widths) == pytest.approx(100.0, abs=0.05 * len(widths))
    model.fit(ratings)
    certificate = shown(model.certificate_)
    assert "at most 7.39 times as likely" in certificate  # e^2, rounded up
    assert "item counts" in certificate
    fitted = shown(model)
    assert "12 items" in fitted
    assert "ratings.ledger" in fitted
    spent = ledger.as_dict()["balance"]
    assert f"{100 * spent['spent'] / spent['budget']:.1f} %" in shown(ledger)
    for display in (plan, certificate, fitted, shown(ledger)):
        assert str(tmp_path) not in display


def test_what_promises_nothing_says_so(recommender: dp.PrivateRecommender, ratings: Any) -> None:
    with pytest.warns(dp.PrivacyWarning):
        model = recommender.set_params(insecure_seed=1).fit(ratings)
    assert "NOT PRIVATE" in shown(model.certificate_)
    assert "no privacy is promised" in shown(model)
    edited = dp.Certificate(model.certificate_.to_json().replace('"epsilon": 2.0', '"epsilon": 1.0', 1))
    assert "does not hold" in shown(edited)


def test_texts_are_escaped(tmp_path: Path, recommender: dp.PrivateRecommender) -> None:
    ledger = dp.Ledger.create(tmp_path / "a<b>.ledger", epsilon=1.0, delta=1e-5)
    assert "a&lt;b&gt;.ledger" in shown(ledger)
    assert "&lt;i&gt;" in shown(recommender.set_params(rating="<i>"))


def test_answers_of_the_accountant(tmp_path: Path) -> None:
    one = ev.Gaussian(1.0)
    bound = one.epsilon(1e-5)
    assert "at most 4.37718" in shown(bound)
    assert "found by" in shown(bound)
    assert "not known from below" in shown(one.best_of(ev.Poisson(5.0)).epsilon(1e-5))
    assert "3.73063" in shown(accounting.calibrate_noise_multiplier(ev.Gaussian, epsilon=1.0, delta=1e-5))
    assert "true-positive rate of at most 26 %" in shown(one.trade_off(0.05))
    training = accounting.Accountant().compose(one.poisson_sampled(0.01), 500).compose(ev.Laplace(3.0))
    assert "501 mechanisms" in shown(training)
    assert "poisson, sampling probability 0.01, gaussian, noise multiplier 1" in shown(training)
    with accounting.OpenLedger.create(tmp_path / "survey.ledger", epsilon=1.0, delta=1e-5) as book:
        book.spend(ev.Gaussian(8.0), label="count")
        assert "by 1 release" in shown(book)
        assert str(tmp_path) not in shown(book)


def test_own_parts_of_a_model_show_nothing(recommender: dp.PrivateRecommender, ratings: Any) -> None:
    me = recommender.fit(ratings).personalize({0: 5.0})
    assert not hasattr(me, "_repr_html_")
    assert "5.0" not in repr(me)


def test_models_say_what_they_are() -> None:
    X = np.linspace(-1.0, 1.0, 100)[:, None]
    model = dp.PrivatePersonalRegressor(epsilon=3.0, ledger=dp.NO_LEDGER)
    call = "PrivatePersonalRegressor(epsilon=3.0, ledger=NO_LEDGER)"
    assert repr(model) == call
    assert repr(model.fit(X, X[:, 0], groups=np.arange(100) // 10)) == f"<fitted {call}>"
    me = model.personalize(X[:7], X[:7, 0])
    assert repr(me) == "<PersonalLinear: one user's private model from a PrivatePersonalRegressor>"
    assert not hasattr(me, "_repr_html_")


def test_nights(tmp_path: Path) -> None:
    nights = dp.Nightly.create(tmp_path / "a<b>", items=["i1", "i2"], lifetime_epsilon=5.0, delta=1e-5, rating_range=(1, 5))
    assert "0 nights" in shown(nights)
    nights.run({"user": ["u1", "u2"], "item": ["i1", "i2"], "rating": [1.0, 2.0]}, night=3, held_out=False)
    display = shown(nights)
    for text in ("Nightly", "a&lt;b&gt;", "\u03b5 5 at \u03b4 1e-5", "1 night", "<td>3</td>"):
        assert text in display
    assert str(tmp_path) not in display
    nowhere = shown(dp.Nightly(tmp_path / "nowhere"))
    assert "cannot be read" in nowhere
    assert str(tmp_path) not in nowhere
