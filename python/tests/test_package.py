"""The package as a whole: what it imports, logs and warns of, and that its README runs."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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


@pytest.mark.filterwarnings("ignore::dp_personal.DpWarning")
def test_the_readme_runs_in_order_from_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "faiss", Faiss)
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(blocks) == 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert Path("report.html").exists()
    assert isinstance(names["tonight"], dp.PrivateRecommender)
    assert len(names["frame"]) == 150
    assert names["rows"].n_features_in_ == 3


def test_the_readme_names_every_fitted_attribute(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    X, users = np.random.default_rng(0).uniform(-1, 1, (200, 2)), np.repeat(np.arange(20), 10)
    linear = {"ledger": dp.NO_LEDGER, "feature_range": (-1, 1)}
    personal = dp.PrivatePersonalClassifier(**linear).fit(X, X[:, 0] > 0, groups=users)
    federated = dp.PrivateFederatedRegressor(**linear, n_rounds=2, alpha_grid=[0.5]).fit(X, X[:, 0], groups=users)
    assert federated.alpha_ == 0.5
    assert (personal.shared_.shape, federated.shared_.shape) == ((3, 1), (1, 3))
    table = README.read_text(encoding="utf-8").partition("## What fitted estimators have")[2].partition("\n## ")[0]
    for model in (recommender.fit(ratings), personal, federated):
        fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        assert [name for name in sorted(fitted) if f"`{name}`" not in table] == []
