"""Training on a Spark DataFrame: users stay on the executors, noise and ledger on the driver.

Executors need this package; shuffled rows and answers are as private as the records (docs/engines.md says how to encrypt them).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from . import workers
from ._estimator import Estimator
from .errors import BadInput

__all__ = ["fit"]

_E = TypeVar("_E", bound=Estimator)

_SHARD, _IS_ROW = "dp_shard", "dp_is_row"
_ROW_BYTES = 8_000_000
"""Of an answer in one row: neither the JVM nor Arrow likes larger ones."""


def fit(df: Any, model: _E, shards: int = 64, **more: Any) -> _E:
    """Fit a recommender or linear models on the users of a DataFrame, with a row for each rating or sample.

    Users are assigned to `shards` by their ids; each sum is one Spark job with a task for each shard. Spark runs a lost
    task again, and a shard counts once. The assigned rows are cached for the run. `more` is as in `workers.fit`.
    """
    user = model.user or "user"
    if user not in df.columns:
        raise BadInput(f"the DataFrame has no column {user!r} of users; it has {', '.join(df.columns)}")
    dealt = _dealt(df, user, shards).persist()
    try:
        return workers.fit(model, _tasks(dealt), shards, columns=df.columns, **more)
    finally:
        dealt.unpersist()


def _dealt(df: Any, user: str, n_shards: int) -> Any:
    """The rows with their shards, with each shard in one partition. Every shard has a dummy row, so that none is missing."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

    def deal(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            shards = workers.shards_of(pa.Table.from_batches([batch.select([user])]), user, n_shards)
            of_batch = batch.append_column(_SHARD, pa.array(shards, pa.int32()))
            yield of_batch.append_column(_IS_ROW, pa.array([True] * batch.num_rows))

    more = [StructField(_SHARD, IntegerType()), StructField(_IS_ROW, BooleanType())]
    fields = [StructField(field.name, field.dataType) for field in df.schema.fields]
    rows = df.mapInArrow(deal, StructType(fields + more))
    nobody = df.sparkSession.range(n_shards).select(
        *(sql.lit(None).cast(field.dataType).alias(field.name) for field in fields),
        sql.col("id").cast("int").alias(_SHARD),
        sql.lit(False).alias(_IS_ROW),
    )
    return rows.unionByName(nobody).repartition(n_shards, _SHARD)


def _tasks(dealt: Any) -> workers.Tasks:
    """One Spark job for each message."""

    def tasks(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        rows = dealt.mapInArrow(_answers(job, messages, set(asked)), "shard int, part int, n_parts int, body binary").collect()
        parts: dict[int, dict[int, Any]] = defaultdict(dict)
        for row in rows:
            parts[row.shard][row.part] = row
        whole = (of for of in parts.values() if len(of) == of[min(of)].n_parts)
        return [(of[0].shard, b"".join(of[part].body for part in range(len(of)))) for of in whole]

    return tasks


def _answers(job: workers.Job, messages: list[bytes], asked: set[int]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The work of one partition: the answers of its shards, split into rows."""

    def answers(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        of_shards = defaultdict(list)
        for batch in batches:
            for shard in pc.unique(batch[_SHARD]).to_pylist():
                of_shards[shard].append(batch.filter(pc.equal(batch[_SHARD], shard)))
        for shard in sorted(asked & of_shards.keys()):
            table = pa.Table.from_batches(of_shards.pop(shard))
            users = table.filter(table[_IS_ROW]).drop_columns([_SHARD, _IS_ROW])
            # Spark does not preserve the order of rows, and which rows of a user are held out depends on it
            users = users.sort_by([(name, "ascending") for name in users.column_names])
            body = workers.answer(job, shard, users, messages)
            n_parts = -(-len(body) // _ROW_BYTES)
            for part in range(n_parts):
                of_part = body[part * _ROW_BYTES : (part + 1) * _ROW_BYTES]
                columns = {"shard": [shard], "part": [part], "n_parts": [n_parts], "body": [of_part]}
                schema = pa.schema([("shard", pa.int32()), ("part", pa.int32()), ("n_parts", pa.int32()), ("body", pa.binary())])
                yield pa.RecordBatch.from_pydict(columns, schema=schema)

    return answers
