"""Nights: the same state as `dp nightly`'s, one payment, and a model for every night."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dp_personal as dp


def ratings(n_users: int, n_items: int = 40) -> dict[str, object]:
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(n_users), 20)
    item = np.concatenate([rng.choice(n_items, 20, replace=False) for _ in range(n_users)])
    stars = np.clip(np.round(3.0 + np.cos(item) + 0.5 * rng.normal(size=user.size)), 1, 5)
    return {
        "user": [f"u{u}" for u in user],
        "item": [f"i{i}" for i in item],
        "rating": stars,
    }


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    path = tmp_path / "items.csv"
    path.write_text("item\n" + "".join(f"i{i}\n" for i in range(40)))
    return path


def test_nights_share_one_budget(tmp_path: Path, catalogue: Path) -> None:
    nights = dp.Nightly.create(
        tmp_path / "state", items=catalogue, lifetime_epsilon=5.0, delta=1e-5, rating_range=(1, 5), horizon=30
    )
    with pytest.raises(dp.BadInput, match="has no model yet: run a night"):
        nights.model()
    with pytest.raises(dp.BadSetting, match="there is no model to publish yet: `run` makes the first night"):
        nights.publish(tmp_path / "published")
    with pytest.raises(dp.BadSetting, match=r"this state learns from ratings: use `dp\.Nightly`$"):
        dp.NightlySubspace(nights.path).run({"user": ["u1"], "y": [1.0]})
    with pytest.raises(dp.DpError, match="is not the folder of a nightly state: `create` creates one"):
        dp.Nightly(tmp_path).status()
    with pytest.raises(dp.errors.InputMissing, match="`create` makes the state"):
        dp.Nightly(tmp_path / "none").model()
    first = nights.run(ratings(300), night=0)
    assert first["made_now"]
    assert first["n_nights"] == 1
    third = nights.run(ratings(600), night=2)
    assert third["n_nights"] == 2
    assert third["night"] == 2
    again = nights.run(ratings(600), night=2)
    assert not again["made_now"]
    assert again["n_nights"] == 2
    status = nights.status()
    assert (status["n_paid"], status["last_night"], status["horizon"]) == (2, 2, 30)
    assert 0.0 < status["epsilon_spent_by_the_first_users"] < 5.0
    model = nights.model()
    assert model.certificate_.epsilon == pytest.approx(5.0)
    model.verify()
    best = model.personalize({"i0": 5.0, "i3": 1.0}).recommend(3)
    assert len(best) == 3
    nights.publish(tmp_path / "published")
    published = dp.load(tmp_path / "published")
    assert isinstance(published, dp.PrivateRecommender)
    assert np.array_equal(published.item_factors_, model.item_factors_)
    # a ledger that is all spent
    balance = dp.Ledger(tmp_path / "state" / "ledger").as_dict()
    assert balance["n_releases"] == 1


def test_columns_are_named_once_for_all_nights(tmp_path: Path, catalogue: Path) -> None:
    nights = dp.Nightly.create(
        tmp_path / "state",
        items=catalogue,
        lifetime_epsilon=5.0,
        delta=1e-5,
        rating_range=(1, 5),
        user="person",
        item="film",
        rating="stars",
    )
    table = pd.DataFrame(ratings(100))
    nights.run(table.set_axis(["person", "film", "stars"], axis=1), night=0)
    with pytest.raises(dp.BadInput, match="looked for person"):
        nights.run(table, night=1)
    with pytest.raises(dp.BadSetting, match="`user`: on earlier nights a user was"):
        nights.run(table, night=1, user="user", item="item", rating="rating")
    nights.run(table.rename(columns={"user": "person"}), night=1, item="item", rating="rating")


def test_a_night_that_has_passed_is_refused(tmp_path: Path, catalogue: Path) -> None:
    nights = dp.Nightly.create(tmp_path / "state", items=catalogue, lifetime_epsilon=5.0, delta=1e-5, feedback="implicit")
    nights.run(ratings(100), night=5, rating="rating")
    with pytest.raises(dp.BadSetting, match="night 5 was made already"):
        nights.run(ratings(100), night=3, rating="rating")
    assert not nights.run(ratings(100), night=5, rating="rating")["made_now"]
    with pytest.raises(dp.BadSetting):
        dp.Nightly.create(tmp_path / "other", items=catalogue, lifetime_epsilon=5.0, delta=1e-5)
    assert not (tmp_path / "other").exists()


def test_users_are_erased_by_their_ids(tmp_path: Path, catalogue: Path) -> None:
    nights = dp.Nightly.create(tmp_path / "state", items=catalogue, lifetime_epsilon=5.0, delta=1e-5, rating_range=(1, 5))
    nights.run(ratings(200), night=0)
    store = tmp_path / "state" / "first-seen"
    before = store.read_bytes()
    assert nights.erase(["u7", "u8"]) == 2
    assert nights.erase("u12") == 1  # one id, not three letters
    with pytest.raises(dp.BadInput, match=r"^users: ids are text or whole numbers"):
        nights.erase(pd.Series([7.0, np.nan]))
    after = store.read_bytes()
    # two entries of those that were there became tombstones
    assert after != before
    assert len(after) == len(before)
    nights.run(ratings(200), night=1)
    with pytest.raises(dp.BadSetting):
        nights.run(ratings(200), restored=True)
    assert [of["night"] for of in nights.status(show_internal=True)["internal_by_night"]] == [0, 1]
    assert nights.status()["internal_by_night"] == []
    assert nights.status()["refused"] is None
    store.unlink()
    assert "first-seen" in nights.status()["refused"]
    assert "would be refused" in nights._repr_html_()


def test_catalogues_of_nights_are_files_tables_or_lists(tmp_path: Path, catalogue: Path) -> None:
    ids = [f"i{at}" for at in range(40)]
    settings: dict[str, Any] = {"lifetime_epsilon": 5.0, "delta": 1e-5, "rating_range": (1, 5)}
    made = [pd.DataFrame({"item": ids}), pl.DataFrame({"item": ids}), {"item": ids}, ids, str(catalogue), catalogue]
    for at, items in enumerate(made):
        nights = dp.Nightly.create(tmp_path / f"state{at}", items=items, **settings)
        assert (nights.path / "items.csv").read_bytes() == (tmp_path / "state0" / "items.csv").read_bytes()
    nights.run(ratings(100), night=0, items=pl.DataFrame({"item": [*ids, "new"]}))
    assert set(nights.model().items_) == {*ids, "new"}
    for wrong, said in ((7, "expected a table"), ({"title": ids}, "item column not found"), ([1.5], "ids are text")):
        with pytest.raises(dp.BadInput, match=f"^items:.* {said}") as raised:
            dp.Nightly.create(tmp_path / "other", items=wrong, **settings)
        assert tempfile.gettempdir() not in str(raised.value)
    assert not (tmp_path / "other").exists()


def test_strangers_are_refused_with_a_next_step(tmp_path: Path, catalogue: Path) -> None:
    nights = dp.Nightly.create(tmp_path / "state", items=catalogue, lifetime_epsilon=5.0, delta=1e-5, rating_range=(1, 5))
    nights.run(ratings(100), night=0)
    others = ratings(100)
    others["user"] = [f"secret{at}" for at in range(len(others["user"]))]  # type: ignore[arg-type]
    with pytest.raises(dp.LedgerError, match="state for other users") as raised:
        nights.run(others, night=1)
    assert "secret" not in str(raised.value)
    assert nights.status()["n_paid"] == 1


def test_nights_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n_users, n_rows, names = 100, 10, ["a", "b", "c", "d"]
    features = rng.uniform(-1, 1, size=(n_users * n_rows, 4))
    rows: dict[str, object] = {name: features[:, at] for at, name in enumerate(names)}
    rows["user"] = [f"u{user}" for user in np.repeat(np.arange(n_users), n_rows)]
    rows["y"] = features.sum(axis=1)
    nights = dp.NightlySubspace.create(
        tmp_path / "state",
        target="y",
        features=names,
        rank=2,
        lifetime_epsilon=5.0,
        delta=1e-5,
        target_range=(-4, 4),
        horizon=4,
        intercept="none",
    )
    with pytest.raises(dp.BadInput, match="no model yet"):
        nights.model()
    assert nights.run(rows, night=0)["n_nights"] == 1
    assert nights.run(rows, night=2)["n_nights"] == 2
    assert not nights.run(rows, night=2)["made_now"]
    with pytest.raises(dp.BadSetting, match=r"learns from labelled rows: use `dp\.NightlySubspace`$"):
        dp.Nightly(nights.path).run({"user": ["u"], "item": ["i"], "rating": [1.0]}, night=4)
    assert nights.erase(["u1"]) == 1
    model = nights.model()
    model.verify()
    assert isinstance(model, dp.PrivatePersonalRegressor)
    assert model.certificate_.epsilon == pytest.approx(5.0)
    assert model.shared_.shape == (4, 2)
    # the columns and their ranges are those of the state: a personal model of the sum of the features
    own = model.personalize(features[:40], features[:40].sum(axis=1))
    assert own.predict(features[:40]).shape == (40,)
    rest: dict[str, Any] = {"target": "y", "features": names, "rank": 2, "delta": 1e-5}
    bounds = dict.fromkeys([*names, "y"], (-1.0, 1.0))
    for at, given in enumerate([bounds, pd.DataFrame({"column": list(bounds), "lower": -1.0, "upper": 1.0})]):
        dp.NightlySubspace.create(tmp_path / f"bounds{at}", lifetime_epsilon=5.0, bounds=given, **rest)
    with pytest.raises(dp.BadSetting):
        dp.NightlySubspace.create(tmp_path / "other", lifetime_epsilon=-1.0, **rest)
    assert not (tmp_path / "other").exists()
