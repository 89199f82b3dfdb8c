"""The package as a whole: what it imports, logs and warns of, and that its README runs."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dp_personal as dp

README = Path(__file__).parents[1] / "README.md"
Ratings = dict[str, Any]


def test_importing_loads_no_other_package() -> None:
    code = """
import sys
before = set(sys.modules)
import dp_personal
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - sys.stdlib_module_names))
"""
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["dp_personal"]


def test_what_happens_is_logged(caplog: pytest.LogCaptureFixture, recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    with caplog.at_level(logging.DEBUG, "dp_personal"):
        recommender.fit(ratings)
    assert {record.name for record in caplog.records} == {"dp_personal"}
    assert any("paying for the plan" in message for message in caplog.messages[:-1])  # as it goes on
    assert "this run alone" in caplog.messages[-1]  # when it is over


def test_a_weak_promise_is_a_warning(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    with pytest.warns(dp.DpWarning, match="hardly any protection") as warned:
        recommender.set_params(epsilon=25.0).fit(ratings)
    assert warned[0].filename == __file__


def test_a_catalogue_of_other_items_is_a_warning(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    others = recommender.set_params(item_ids_are_public=False, catalogue=[f"m{item}" for item in range(12)])
    with pytest.warns(dp.DpWarning, match="do not stand out from their noise"):
        others.fit(ratings)


def section(title: str) -> str:
    """The Python of a section."""
    [text] = re.findall(rf"^## {title}\n.*?^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    return str(text)


def test_the_readme_recommends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratings: Ratings) -> None:
    monkeypatch.chdir(tmp_path)
    items = [f"item-{item}" for item in range(12)]
    frame = pl.DataFrame({"user_id": ratings["user_id"], "item_id": np.array(items)[ratings["item"]], "stars": ratings["stars"]})
    frame.write_parquet("ratings.parquet")
    pl.DataFrame({"item": items}).write_parquet("items.parquet")
    names: dict[str, Any] = {"my_history": {"item-1": 5.0, "item-3": 2.0}}
    exec(section("Recommend"), names)
    assert isinstance(names["model"], dp.PrivateRecommender)
    assert Path("report.html").exists()
    exec(section("Serve with faiss, or a vector column").replace("import faiss\n", ""), {**names, "faiss": Faiss})


class Faiss:
    """As much of faiss as the README uses."""

    class IndexFlatIP:
        def __init__(self, dim: int) -> None:
            self.dim = dim

        def add(self, matrix: Any) -> None:
            assert matrix.shape[1] == self.dim
            self.matrix = matrix

        def search(self, queries: Any, k: int) -> tuple[Any, Any]:
            scores = queries @ self.matrix.T
            order = np.argsort(-scores, axis=1)[:, :k]
            return np.take_along_axis(scores, order, axis=1), order


def test_the_readme_learns_from_rows_of_users() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 3))
    y = np.clip(5 + X @ [1.0, 2.0, 0.5], 0, 10)
    user_ids = np.repeat(np.arange(40), 10)
    names: dict[str, Any] = {"X": X, "y": y, "user_ids": user_ids, "X_mine": X[:5], "y_mine": y[:5], "X_new": X[5:9]}
    names |= {"ids": user_ids[5:9], "X_old": X[:5], "y_old": y[:5], "ids_old": user_ids[:5], "dp": dp}
    exec(section("Labelled rows"), names)
    assert names["model"].n_features_in_ == 3
