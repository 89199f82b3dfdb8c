"""Tables of every library give the same model, and Arrow's are not copied."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

import dp_personal as dp
from dp_personal import _native, tables

Ratings = dict[str, Any]


def factors(data: Any, **params: Any) -> np.ndarray[Any, Any]:
    given = {"rating": "stars", "item_ids_are_public": True, "n_rounds": 2, "no_split": True, **params}
    model = dp.PrivateRecommender(ledger=dp.NO_LEDGER, insecure_seed=5, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.PrivacyWarning)
        return model.fit(data).item_factors_


def arrow(ratings: Ratings) -> pa.Table:
    return pa.table(ratings)


def in_batches(ratings: Ratings) -> pa.Table:
    table = arrow(ratings)
    return pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])


def dataframe_alone(ratings: Ratings) -> Any:
    class Frame:
        def __dataframe__(self, **_: Any) -> Any:
            return arrow(ratings).__dataframe__()

    return Frame()


def of_text(table: pa.Table, kind: pa.DataType) -> pa.Table:
    return table.set_column(0, "user_id", table.column("user_id").cast(pa.string()).cast(kind))


def categorical(ratings: Ratings) -> pd.DataFrame:
    frame = pd.DataFrame(ratings)
    frame["user_id"] = frame["user_id"].astype(str).astype("category")
    return frame


def with_index(ratings: Ratings) -> pd.DataFrame:
    return pd.DataFrame(ratings).set_index(np.arange(len(ratings["item"])) * 2)


MADE: list[Callable[[Ratings], Any]] = [
    arrow,
    in_batches,
    dataframe_alone,
    pl.DataFrame,
    lambda r: pl.DataFrame(r).with_columns(pl.col("user_id").cast(pl.String), pl.col("item").cast(pl.UInt8)),
    lambda r: pl.DataFrame(r).with_columns(pl.col("user_id").cast(pl.String).cast(pl.Categorical)),
    pd.DataFrame,
    with_index,
    categorical,
    lambda r: of_text(arrow(r), pa.large_string()),
    lambda r: of_text(arrow(r), pa.string_view()),
    lambda r: arrow(r).set_column(2, "stars", arrow(r).column("stars").cast(pa.float32())),
    lambda r: {name: values.tolist() for name, values in r.items()},
    lambda r: {**r, "user_id": r["user_id"].astype(str)},
]


@pytest.mark.parametrize("make", MADE)
def test_every_kind_of_table_gives_the_same_model(make: Callable[[Ratings], Any], ratings: Ratings) -> None:
    assert np.array_equal(factors(make(ratings)), factors(ratings))


def test_relations_of_duckdb_and_parquet_files(tmp_path: Path, ratings: Ratings) -> None:
    table = arrow(ratings)
    relation = duckdb.connect().from_arrow(table)
    assert np.array_equal(factors(relation), factors(ratings))
    pa.parquet.write_table(table, tmp_path / "ratings.parquet")
    assert np.array_equal(factors(tmp_path / "ratings.parquet"), factors(ratings))


def test_matrices_of_users_by_items(ratings: Ratings) -> None:
    sparse = scipy.sparse.csr_matrix((ratings["stars"], (ratings["user_id"], ratings["item"])))
    dense = np.full(sparse.shape, np.nan)
    dense[ratings["user_id"], ratings["item"]] = ratings["stars"]
    expected = factors(ratings)
    for matrix in (sparse, sparse.tocsc(), scipy.sparse.coo_array(sparse), dense):
        assert np.array_equal(factors(matrix), expected)


def test_arrow_buffers_are_not_copied(ratings: Ratings) -> None:
    texts = of_text(arrow(ratings), pa.large_string())
    table = tables.source(texts, "ratings")
    assert isinstance(table, _native.Table)
    for at, (name, buffer) in enumerate([("user_id", 2), ("item", 1), ("stars", 1)]):
        own = texts.column(name).chunk(0).buffers()[buffer]
        assert own is not None
        assert table.addresses(at) == [own.address], name
    frame = pl.DataFrame(ratings)
    table = tables.source(frame, "ratings")
    assert isinstance(table, _native.Table)
    assert table.addresses(2) == [frame["stars"].to_numpy(allow_copy=False).__array_interface__["data"][0]]


def test_catalogues_are_files_tables_or_lists(tmp_path: Path, ratings: Ratings) -> None:
    items = [str(item) for item in range(12)]
    path = tmp_path / "items.csv"
    path.write_text("item\n" + "\n".join(items) + "\n")
    public: dict[str, Any] = {"item_ids_are_public": False}
    expected = factors(ratings, catalogue=path, **public)
    for catalogue in (items, pl.DataFrame({"item": items}), pd.DataFrame({"item": range(12)}), str(path)):
        assert np.array_equal(factors(ratings, catalogue=catalogue, **public), expected)


def test_features_of_items_make_new_ones_predictable(
    tmp_path: Path, recommender: dp.PrivateRecommender, ratings: Ratings
) -> None:
    genres = ["drama|war", "comedy"] * 6
    items = pl.DataFrame(
        {"item": range(12), "genres": genres, "year": [1990 + at for at in range(12)], "title": list("abcdefghijkl")}
    )
    model = recommender.set_params(catalogue=items, item_ids_are_public=False, method="am-ssp", features=["genres"], min_items=2)
    assert "catalogue=<DataFrame>" in repr(model)
    model.set_params(features=None)
    with pytest.warns(dp.DpWarning, match="features: genres, year of catalogue;"):
        model.fit(ratings)
    assert model.titles_ == list("abcdefghijkl")
    assert not any(tempfile.gettempdir().encode() in content for content in model._files.values())
    (tmp_path / "new.csv").write_text("item,genres,year,title\n100,drama,1995,New\n")
    me = model.personalize({0: 5.0, 1: 1.0}, new_items=tmp_path / "new.csv")
    assert np.isfinite(me.predict(["100"])).all()
    assert [(one.item, one.title) for one in me.recommend(12) if one.item == "100"] == [("100", "New")]
    with pytest.raises(dp.BadInput, match="catalogue") as raised:
        model.set_params(catalogue={"item": [1, 1], "year": [1990, 1991]}).fit(ratings)
    assert raised.value.source == "catalogue"
    assert tempfile.gettempdir() not in str(raised.value)


def test_nulls_and_other_columns_are_named_by_place(ratings: Ratings) -> None:
    def error(column: int, values: pa.Array) -> dp.BadInput:
        table = arrow(ratings)
        with pytest.raises(dp.BadInput) as raised:
            factors(table.set_column(column, table.column_names[column], values))
        return raised.value

    n = len(ratings["stars"])
    words = error(2, pa.array(["many" if row == 3 else "4" for row in range(n)]))
    assert (words.line, words.column) == (4, 3)
    assert error(0, pa.array([None, *range(n - 1)], pa.int64())).line == 1
    dates = error(1, pa.array(range(n), pa.timestamp("s")))
    assert dates.column == 2
    assert "text, whole numbers" in str(dates)
    with pytest.raises(dp.BadInput, match="at least one record"):
        factors(arrow(ratings).slice(0, 0))


def without_arrow(ratings: Ratings) -> pd.DataFrame:
    return _NoArrow(ratings)


OF_EACH_WAY: list[Callable[[Ratings], Any]] = [arrow, pl.DataFrame, pd.DataFrame, without_arrow, dict]


@pytest.mark.parametrize("make", OF_EACH_WAY)
def test_columns_that_are_no_ids_are_refused_with_one_message(make: Callable[[Ratings], Any], ratings: Ratings) -> None:
    def refused(column: str, values: Any, **params: Any) -> dp.BadInput:
        with pytest.raises(dp.BadInput) as raised:
            factors(make({**ratings, column: values}), **params)
        assert raised.value.source == "ratings"
        return raised.value

    days = np.datetime64("2026-01-01", "us") + ratings["user_id"]
    days_said = "ratings: column 'user_id' has a type that is not read, such as dates or lists: convert it to text, whole"
    pairs = [[user, user] for user in ratings["user_id"].tolist()]
    for values in (days, days.tolist(), pairs):
        for user in (None, "user_id"):
            dates = refused("user_id", values, user=user)
            assert str(dates).startswith(days_said)
            assert dates.column == 1
    floats_said = "ratings: column 'item' holds floating-point numbers or booleans, but ids are text or whole numbers"
    floats = refused("item", ratings["item"].astype(np.float64))
    assert str(floats).startswith(floats_said)
    assert "missing values" in str(floats)
    assert "astype('int64')" in str(floats)
    assert str(refused("stars", days)).startswith("ratings: column 'stars' has a type that is not read")
    texts = ["secret", *["4"] * (len(days) - 1)]
    assert str(refused("stars", texts)) == "ratings:1:3: expected a number for the rating (column 'stars')"


@pytest.mark.parametrize("make", OF_EACH_WAY)
def test_unused_columns_may_have_any_type(make: Callable[[Ratings], Any], ratings: Ratings) -> None:
    days = np.datetime64("2026-01-01", "us") + ratings["user_id"]
    assert np.array_equal(factors(make({**ratings, "when": days})), factors(ratings))
    catalogue = tables.to_csv(make({"item": np.arange(2), "when": days[:2]}), ["item"], "catalogue")
    assert catalogue == b"item\n0\n1\n"


def test_whole_numbers_with_missing_values_stay_whole(ratings: Ratings) -> None:
    for kind in (pd.DataFrame, _NoArrow):
        frame = kind(ratings).astype({"user_id": "Int64"})
        assert np.array_equal(factors(frame), factors(ratings))
        frame.loc[3, "user_id"] = pd.NA
        with pytest.raises(dp.BadInput, match=r"^ratings:4:1: .* for the user; the field is empty \(column 'user_id'\)$"):
            factors(frame)


def test_objects_that_pyarrow_refuses_are_not_quoted(ratings: Ratings) -> None:
    mixed = [1.5, "secret", *[None] * (len(ratings["item"]) - 2)]
    with pytest.raises(dp.BadInput, match="column 'user_id' has a type that is not read") as raised:
        factors(pd.DataFrame({**ratings, "user_id": mixed}))
    assert "secret" not in str(raised.value)


def test_ids_in_lists_are_text_or_whole_numbers(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    me = model.personalize({np.int64(0): 5.0, "3": 1.0})
    assert np.isfinite(me.predict([0, np.int64(3), "5"])).all()
    for call in (
        lambda: me.predict([7.0]),
        lambda: model.personalize({7.0: 5.0}),
        lambda: model.personalize([7.0]),
        lambda: factors(ratings, catalogue=pd.Series([7.0, np.nan]), item_ids_are_public=False),
        lambda: factors(ratings, catalogue=[np.datetime64("2026-01-01")], item_ids_are_public=False),
    ):
        with pytest.raises(dp.BadInput, match=r"^(items|history|catalogue): ids are text or whole numbers"):
            call()


def test_histories_are_tables_mappings_or_lists(recommender: dp.PrivateRecommender, ratings: Ratings) -> None:
    model = recommender.fit(ratings)
    table = pl.DataFrame({"item": [0, 3], "stars": [5.0, 1.0]})
    expected = model.personalize({0: 5.0, 3: 1.0}).recommend(5)
    for history in (table, table.to_pandas(), {"item": [0, 3], "stars": [5.0, 1.0]}, table.with_columns(user_id=7)):
        assert model.personalize(history).recommend(5) == expected
    with pytest.raises(dp.BadInput, match="one user"):
        model.personalize({"user_id": [1, 2], "item": [0, 3], "stars": [5.0, 1.0]})
    assert model.personalize({"nowhere": 5.0}).n_unknown_items == 1


def test_missing_ids_are_missing_whatever_pandas_calls_them() -> None:
    values = [
        pd.Series(["a", pd.NA], dtype="string"),
        np.array(["a", pd.NaT], dtype=object),
        np.array(["a", np.nan], dtype=object),
    ]
    assert [tables._values(column) for column in values] == [("str", ["a", ""])] * 3


def test_a_series_is_no_table_and_a_list_of_public_ids(ratings: Ratings) -> None:
    frame = pd.DataFrame(ratings)
    with pytest.raises(dp.errors.BadInput, match="found Series: a table has named columns"):
        factors(frame["stars"])
    with pytest.raises(dp.errors.BadInput, match="several columns have the same name"):
        tables.source(_NoArrow(pd.concat([frame, frame], axis=1)), "ratings")
    with pytest.raises(dp.errors.BadInput, match="call its `collect\\(\\)`"):
        factors(pl.DataFrame(ratings).lazy())
    public = sorted(set(frame["item"]))
    lists = [public, pd.Series(public), pl.Series(public), np.array(public)]
    assert len({tables.to_csv(ids, ["item"], "catalogue") for ids in lists}) == 1


class _NoArrow(pd.DataFrame):
    """A frame of pandas without pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        raise ImportError("pyarrow")


@pytest.mark.parametrize("missing", ["pandas", "Int64", "polars", "objects"])
def test_missing_ratings_are_left_out(ratings: Ratings, missing: str) -> None:
    whole = {name: values.astype("int64") for name, values in ratings.items()}
    frame = pd.DataFrame(whole)
    stars = frame["stars"].astype("float64" if missing == "pandas" else "Int64")
    stars[5] = np.nan if missing == "pandas" else pd.NA
    data: dict[str, Any] = {
        "pandas": frame.assign(stars=stars),
        "Int64": frame.assign(stars=stars),
        "polars": pl.DataFrame(whole).with_columns(stars=pl.Series(stars.astype(object).where(stars.notna(), None).tolist())),
        "objects": {**whole, "stars": stars.astype(object)},
    }
    assert np.array_equal(factors(data[missing]), factors(frame.drop(5)))


def test_three_columns_of_an_array_are_three_items_and_a_warning(
    recommender: dp.PrivateRecommender, ratings: dict[str, Any]
) -> None:
    array = np.column_stack(list(ratings.values()))
    with pytest.raises(dp.DpWarning, match="this one has 3 items: if its columns are user, item and rating, give a table"):
        recommender.fit(array)
