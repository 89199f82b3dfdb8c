"""Engines release the same as one process, also if a task dies. Tests of engines that are not installed are skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import N_ITEMS, columns

import dp_personal as dp
from dp_personal import workers

pa = pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
pytestmark = pytest.mark.filterwarnings("default")  # engines raise many warnings of their own


def engine(name: str) -> Any:
    """The module of an engine; the test is skipped if it is not installed, unless it is required."""
    return __import__(name) if os.environ.get("REQUIRE_ENGINES") else pytest.importorskip(name)


def model() -> dp.PrivateRecommender:
    catalogue = [str(item) for item in range(N_ITEMS)]
    named = {"user": "user_id", "item": "item", "rating": "stars"}
    return dp.PrivateRecommender(epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=7, dim=2, catalogue=catalogue, **named)


@pytest.fixture(scope="module")
def alone() -> dp.PrivateRecommender:
    return model().fit(pa.table(columns()))


def dies_once(mark: Path, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, whose process dies during the first call that is not the start of the run."""

    def dies(job: workers.Job, shard: int, users: Any, messages: list[bytes]) -> bytes:
        if len(messages) > 2 and not mark.exists():
            mark.touch()
            os._exit(9)
        answer: bytes = work(job, shard, users, messages)
        return answer

    return dies


def test_spark(alone: dp.PrivateRecommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine("pyspark")
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from dp_personal import spark

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[4,4]").config("spark.ui.enabled", "false")
    session = builder.config("spark.local.dir", str(tmp_path)).getOrCreate()
    mark, answers = tmp_path / "died", spark._answers

    def answers_that_die(job: workers.Job, messages: list[bytes], asked: set[int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
        work = answers(job, messages, asked)

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for row in work(batches):
                yield row
                if len(messages) > 2 and not mark.exists():  # after part of the answer
                    mark.touch()
                    os._exit(9)

        return run

    monkeypatch.setattr(spark, "_answers", answers_that_die)
    monkeypatch.setattr(spark, "_ROW_BYTES", 100)
    try:
        data = columns()
        df = session.createDataFrame(list(zip(*(data[name].tolist() for name in data), strict=True)), list(data))
        fitted = spark.fit(df, model(), shards=7)
        assert mark.exists()
        assert np.array_equal(fitted.item_factors_, alone.item_factors_)
        with pytest.raises(dp.BadInput, match="no column 'user_id'"):
            spark.fit(df.withColumnRenamed("user_id", "who"), model())
    finally:
        session.stop()


def test_ray(alone: dp.PrivateRecommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = engine("ray")
    import with_ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=2**28, log_to_driver=False)
    mark = tmp_path / "died"
    monkeypatch.setattr(with_ray, "answer", ray.remote(max_retries=3)(dies_once(mark, workers.answer)))
    try:
        fitted = with_ray.fit(pa.table(columns()), model(), 4)
    finally:
        ray.shutdown()
    assert mark.exists()
    assert np.array_equal(fitted.item_factors_, alone.item_factors_)


def test_dask(alone: dp.PrivateRecommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = engine("distributed")
    import with_dask
    from distributed.protocol.pickle import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    import pyarrow.parquet as pq

    users = pa.table(columns())
    shards = pa.array(workers.shards_of(users, "user_id", 4))
    for shard in range(4):
        pq.write_table(users.filter(pa.compute.equal(shards, shard)), tmp_path / f"{shard}.parquet")

    def load(shard: int) -> Any:
        return pq.read_table(tmp_path / f"{shard}.parquet")

    mark = tmp_path / "died"
    monkeypatch.setattr(with_dask.workers, "answer", dies_once(mark, workers.answer))
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        fitted = with_dask.fit(client, load, model(), 4, columns=users.column_names)
    assert mark.exists()
    assert np.array_equal(fitted.item_factors_, alone.item_factors_)
