"""A private recommender with Dask: workers load their shards, and what is lost is loaded and summed again."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from distributed import Client

import dp_personal as dp
from dp_personal import workers


def fit(
    client: Client, load: Callable[[int], pa.Table], model: dp.PrivateRecommender, n_shards: int, **more: Any
) -> dp.PrivateRecommender:
    """Fit the model; `load` reads the rows of a shard, assigned by `workers.shards_of`; `more` has `columns`."""
    parts = [client.submit(load, shard) for shard in range(n_shards)]

    def tasks(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        # impure: an answer is not kept longer than it is needed
        futures = [client.submit(workers.answer, job, shard, parts[shard], messages, pure=False) for shard in asked]
        return list(zip(asked, client.gather(futures), strict=True))

    return workers.fit(model, tasks, n_shards, **more)
