"""Item vectors in the form that serving libraries expect, and generated data."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dp_personal as dp


@pytest.fixture(scope="module", params=["explicit", "implicit", "popularity"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    ratings, items = dp.synth(
        "ratings", tmp_path_factory.mktemp("made") / "ratings", n_users=400, n_items=60, n_ratings=8000, data_seed=3
    )
    given: dict[str, Any] = {"epsilon": 20.0, "ledger": dp.NO_LEDGER, "catalogue": items}
    made = {
        "explicit": lambda: dp.PrivateRecommender(dim=5, n_rounds=2, **given),
        "implicit": lambda: dp.PrivateRecommender(feedback="implicit", min_rating=1.0, dim=4, n_rounds=2, **given),
        "popularity": lambda: dp.PrivatePopularity(min_rating=1.0, **given),
    }
    return made[request.param]().fit(ratings)


def histories(n: int = 30) -> list[dict[str, float]]:
    rng = np.random.default_rng(0)
    return [{f"i{item}": float(rng.integers(1, 6)) for item in rng.choice(60, 8, replace=False)} for _ in range(n)]


def close(ranked: list[str], best: list[dp.recommender.Recommendation]) -> bool:
    """Whether two rankings are the same except for items whose scores are equal in single precision."""
    scores = {one.item: one.score for one in best}
    return all(
        item == one.item or (item in scores and abs(scores[item] - one.score) < 1e-4 * (1 + abs(one.score)))
        for item, one in zip(ranked, best, strict=True)
    )


def test_a_matrix_product_ranks_as_the_model_does(model: Any) -> None:
    vectors = model.item_vectors()
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix.flags.c_contiguous
    assert not vectors.matrix.flags.writeable
    assert vectors.matrix.shape == model.item_factors_.shape
    assert vectors.ids == model.items_
    assert len(vectors) == 60
    for history in histories():
        me = model.personalize(history)
        scores = vectors.matrix @ me.vector + me.offset
        assert np.allclose(scores, me.predict(vectors.ids), atol=1e-4)
        order = [vectors.ids[at] for at in np.argsort(-scores, kind="stable") if vectors.ids[at] not in history]
        best = me.recommend(len(order))
        assert len(best) == len(order) > 50
        assert close(order, best)


def test_faiss_finds_what_the_model_recommends(model: Any) -> None:
    faiss = pytest.importorskip("faiss")
    vectors = model.item_vectors()
    index = faiss.IndexFlatIP(vectors.matrix.shape[1])
    index.add(vectors.matrix)
    for history in histories(10):
        me = model.personalize(history)
        _, found = index.search(me.vector.astype(np.float32)[None], 10 + len(history))
        ranked = [vectors.ids[at] for at in found[0] if vectors.ids[at] not in history][:10]
        assert close(ranked, me.recommend(10))


def test_libraries_that_read_arrow_take_vectors_as_a_table(model: Any) -> None:
    vectors = model.item_vectors()
    n_items, dim = vectors.matrix.shape
    table = pa.table(vectors)
    assert table.schema == pa.schema(
        [
            pa.field("item", pa.string(), nullable=False),
            pa.field("title", pa.string()),
            pa.field("vector", pa.list_(pa.field("item", pa.float32(), nullable=False), dim), nullable=False),
        ]
    )
    flat = table.column("vector").combine_chunks().flatten().to_numpy()
    assert np.array_equal(flat.reshape(n_items, dim), vectors.matrix)
    frame = pl.DataFrame(vectors)
    assert frame["vector"].dtype == pl.Array(pl.Float32, dim)
    assert frame["item"].to_list() == vectors.ids
    assert frame["title"].to_list() == model.titles_
    assert np.array_equal(frame["vector"].to_numpy(), vectors.matrix)
    found = duckdb.sql("select item, vector[1] as first from vectors").fetchall()
    assert dict(found) == {item: float(row[0]) for item, row in zip(vectors.ids, vectors.matrix, strict=True)}
    assert len(pd.DataFrame.from_arrow(vectors) if hasattr(pd.DataFrame, "from_arrow") else table.to_pandas()) == n_items


def test_what_is_not_fitted_has_no_vectors() -> None:
    with pytest.raises(dp.NotFittedError):
        dp.PrivateRecommender().item_vectors()


@pytest.mark.parametrize(("kind", "flags"), [("ratings", {"n_items": 80}), ("groups", {"dim": 3, "rank": 1})])
def test_made_data_are_those_of_dp_synth(tmp_path: Path, kind: Any, flags: dict[str, Any]) -> None:
    files = dp.synth(kind, tmp_path / "py", n_users=50, data_seed=7, **flags)
    assert all(file.exists() for file in files)
    with pytest.raises(FileExistsError):
        dp.synth(kind, tmp_path / "py")
    with pytest.raises(dp.BadSetting, match="go with"):
        dp.synth(kind, tmp_path / "other", **({"rank": 2} if kind == "ratings" else {"n_items": 9}))
    if "DP_BINARY" not in os.environ:
        pytest.skip("set DP_BINARY to the command line `dp`")
    named = {"n_users": "users", "n_items": "items", "dim": "features", "rank": "rank"}
    arguments = [f"--{named[name]}={value}" for name, value in {"n_users": 50, **flags}.items()]
    command = [os.environ["DP_BINARY"], "synth", kind, f"--out={tmp_path / 'dp'}", "--data-seed=7", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    for file in files:
        assert file.read_bytes() == (tmp_path / "dp" / file.name).read_bytes()
