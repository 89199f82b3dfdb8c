"""Training on users who are in other processes: the interface for engines.

One process coordinates (`fit`): it holds ledger, noise and output folder, and no users. The users are assigned to
shards. For every sum the engine runs a task for each shard (`answer`), which receives the job, the table of that
shard's users and all messages of the coordinator so far, and keeps no state: a task that is lost is run again, and a
shard counts once.

Answers are exact sums, as private as the data: they must stay on the trusted side, and so must everything that an
engine writes of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native, tables
from .errors import BadInput, BadSetting, DpError

if TYPE_CHECKING:
    from ._estimator import Estimator

__all__ = ["Job", "Tasks", "answer", "fit", "shards_of"]

_E = TypeVar("_E", bound="Estimator")


_TABLE = "users"
"""What the table of private records is called."""
_TABLES = {"train": "ratings", "personalize": "data", "federate": "data"}
"""Commands that run in tasks, and their settings for the table of private records."""
_COORDINATORS_OWN = frozenset({"resume", "same_data_set"})
"""Settings that tasks are not told: they concern files that the coordinator alone opens."""


def stand_ins(command: str) -> dict[str, str]:
    """Placeholder settings that are the same for every task: it opens no ledger, writes no model and receives its table."""
    return {"ledger": "ledger", "out": "model", _TABLES[command]: _TABLE}


@dataclass(frozen=True)
class Job:
    """What all processes of a run must agree on: settings and public files. It is sent to every task."""

    command: str
    settings: tuple[tuple[str, str], ...]
    files: dict[str, tuple[str, bytes]]
    """For settings that name public files, the name of the file and its content."""
    n_shards: int
    silos: bool

    @contextlib.contextmanager
    def all_settings(self) -> Iterator[list[tuple[str, str]]]:
        """The settings, including those of the public files, which exist while the context is open."""
        with tempfile.TemporaryDirectory(prefix="dp-personal-") as folder:
            settings = list(self.settings)
            for name, (file, content) in self.files.items():
                path = Path(folder) / name / file  # a separate folder for each: two files may have the same name
                path.parent.mkdir()
                path.write_bytes(content)
                settings.append((name, os.fspath(path)))
            yield settings

    def noise_multipliers(self) -> list[float]:
        """Noise multipliers of all releases that the run will make."""
        plan_of = {"train": _native.train_plan, "personalize": _native.personalize_plan, "federate": _native.federate_plan}
        with self.all_settings() as settings:
            plan = json.loads(plan_of[self.command](settings))
        multipliers = [release["noise_multiplier"] for release in plan["releases"]]
        if None in multipliers:
            raise DpError("the run makes a release that is no Gaussian one, which no silo's account counts")
        return multipliers


Tasks = Callable[[Job, list[bytes], list[int]], Sequence[tuple[int, bytes]]]
"""Runs `answer` for each of the shards with the messages so far, and returns shards and answers when all are there."""


def answer(job: Job, shard: int, users: Any, messages: Sequence[bytes]) -> bytes:
    """The answer of one shard to the last message: a function of the arguments alone.

    `users` is a table of the users of this shard only. The answer is as private as the table.
    """
    with job.all_settings() as settings:
        table = tables.source(users, _TABLE)
        return _native.answer_of(job.command, settings, table, (shard, job.n_shards, job.silos), list(messages))


def shards_of(users: Any, column: str, n_shards: int) -> list[int]:
    """The shard of each row of an Arrow table, by the id in its user column. It is the same in every run."""
    table = _native.Table.from_arrow("users", users)
    shards = table.shards(table.column_names().index(column), n_shards)
    if shards is None:
        raise BadInput("users are dealt by a column of an Arrow table")
    return shards


def fit(
    model: _E,
    tasks: Tasks,
    n_shards: int,
    *,
    columns: Sequence[str],
    silos: bool = False,
    same_data_set: bool = False,
    progress: bool | Callable[[int, int], object] = False,
    resume: str | os.PathLike[str] | None = None,
) -> _E:
    """Fit a recommender, or linear models, on users who are in `n_shards` tasks.

    `columns` are those of the tables that tasks receive. A recommender's `catalogue` must be given. Users are assigned
    by `shards_of`, which every task checks; or, with `silos`, they are where their records are, and the certificate
    states the assumption that no user is in two silos. A ledger cannot be compared with users who are elsewhere:
    `same_data_set` declares that the ledger belongs to them; without it, a model with a ledger is refused. `progress`
    and `resume` are those of `model.fit`.
    """
    command = model._command
    empty = tables.of_columns({name: [] for name in columns}, _TABLE)

    def drive(given: list[tuple[str, str]], table: Any, listener: Any) -> str:
        is_file = model._public_tables.keys()
        names = {model._settings.get(name, name) for name in is_file}
        paths = {name: Path(value) for name, value in given if name in names}
        if folders := [name for name, path in paths.items() if path.is_dir()]:
            raise BadSetting(f"`{folders[0]}` is a folder, which is not sent to tasks: give a table, or train in one process")
        fixed = stand_ins(command)
        told = ((name, fixed.get(name, value)) for name, value in given if name not in names | _COORDINATORS_OWN)
        job = Job(
            command,
            tuple(told),
            {name: (path.name, path.read_bytes()) for name, path in paths.items()},
            n_shards,
            silos,
        )
        shards = (n_shards, silos)
        return _native.drive(command, given, table, listener, shards, lambda said, asked: list(tasks(job, said, asked)))

    more = {_TABLES[command]: _TABLE, "same_data_set": same_data_set}
    model._run(drive, empty, progress=progress, resume=resume, **more)
    return model
