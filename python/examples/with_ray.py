"""A private recommender with Ray: the users of a shard stay in the object store, and a lost task is run again."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray

import dp_personal as dp
from dp_personal import workers

answer = ray.remote(max_retries=3)(workers.answer)


def fit(users: pa.Table, model: dp.PrivateRecommender, n_shards: int = 4, **more: Any) -> dp.PrivateRecommender:
    """Fit the model on a table with a row for each rating."""
    shards = pa.array(workers.shards_of(users, model.user or "user", n_shards))
    parts = [ray.put(users.filter(pc.equal(shards, shard))) for shard in range(n_shards)]

    def tasks(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        said = ray.put(messages)
        answers = ray.get([answer.remote(job, shard, parts[shard], said) for shard in asked])
        return list(zip(asked, answers, strict=True))

    return workers.fit(model, tasks, n_shards, columns=users.column_names, **more)
