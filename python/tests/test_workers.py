"""Users in other processes: tasks that receive only their own users release the same as one process."""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import N_ITEMS, columns

import dp_personal as dp
from dp_personal import _native, devices, flower, spark, workers
from dp_personal.errors import BadSetting, DpError, InputMissing

pa = pytest.importorskip("pyarrow")
N_SHARDS = 3


def model(**more: Any) -> dp.PrivateRecommender:
    given: dict[str, Any] = {
        "ledger": dp.NO_LEDGER,
        "insecure_seed": 7,
        "dim": 2,
        "catalogue": [str(item) for item in range(N_ITEMS)],
    }
    return dp.PrivateRecommender(epsilon=4.0, user="user_id", item="item", rating="stars", **given | more)


def table() -> Any:
    return pa.table(columns())


def dealt(users: Any, shards: list[int]) -> list[Any]:
    return [users.filter(pa.array([found == shard for found in shards])) for shard in range(N_SHARDS)]


def tasks(parts: list[Any], *, lost: int = 0) -> Callable[..., list[tuple[int, bytes]]]:
    """Tasks in this process; for every message the first `lost` answers are lost and computed again."""

    def run(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        job = pickle.loads(pickle.dumps(job))
        for shard in asked[:lost]:
            workers.answer(job, shard, parts[shard], messages)
        return [(shard, workers.answer(job, shard, parts[shard], messages)) for shard in reversed(asked)]

    return run


@pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning")
@pytest.mark.parametrize("silos", [False, True])
def test_tasks_release_what_one_process_does(silos: bool) -> None:
    users = table()
    alone = model().fit(users)
    by_id = workers.shards_of(users, "user_id", N_SHARDS)
    by_parity = [int(user) % 2 for user in users["user_id"].to_pylist()]
    parts = dealt(users, by_parity if silos else by_id)
    assert sum(part.num_rows for part in parts) == users.num_rows
    made: list[int] = []
    run = tasks(parts, lost=2)
    fitted = workers.fit(
        model(), run, N_SHARDS, columns=users.column_names, silos=silos, progress=lambda done, _: made.append(done)
    )
    assert np.array_equal(fitted.item_factors_, alone.item_factors_)
    assert ("no user has records in two silos" in fitted.certificate_.to_json()) == silos
    assert made == sorted(made)
    assert fitted.personalize({"1": 5.0, "2": 1.0}).recommend(2)


@pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning")
def test_a_task_refuses_users_of_another_shard() -> None:
    users = table()
    parts = dealt(users, [int(user) % N_SHARDS for user in users["user_id"].to_pylist()])
    with pytest.raises(DpError, match="shard"):
        workers.fit(model(), tasks(parts), N_SHARDS, columns=users.column_names)


@pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning")
def test_linear_models_are_learnt_in_tasks() -> None:
    rng = np.random.default_rng(2)
    user, x = np.repeat(np.arange(30), 8), rng.uniform(-1, 1, size=(240, 3))
    y = x[:, 0] * (user % 3) - x[:, 1]
    users = pa.table({"user": user, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})

    def linear() -> dp.PrivatePersonalRegressor:
        ranges: dict[str, Any] = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0), "user": "user", "target": "y"}
        return dp.PrivatePersonalRegressor(epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=7, rank=2, **ranges)

    def federated(**more: Any) -> dp.PrivateFederatedRegressor:
        ranges: dict[str, Any] = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0), "user": "user", "target": "y"}
        return dp.PrivateFederatedRegressor(
            epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=7, alpha_grid=[0.5], n_rounds=4, **ranges, **more
        )

    parts = dealt(users, workers.shards_of(users, "user", N_SHARDS))
    for make in (linear, federated):
        alone = make().fit(users)
        fitted = workers.fit(make(), tasks(parts), N_SHARDS, columns=users.column_names)
        assert np.array_equal(np.asarray(fitted._linear), np.asarray(alone._linear))
    with pytest.raises(DpError, match="train only in rounds"):
        workers.fit(federated(sampling_probability=0.5), tasks(parts), N_SHARDS, columns=users.column_names)


def test_ids_are_dealt_as_they_are_read() -> None:
    numbers = pa.table({"user": [3, 14, 15]})
    texts = pa.table({"user": ["3", "14", "15"]})
    wide = pa.table({"user": pa.array(["3", "14", "15"]).dictionary_encode()})
    assert workers.shards_of(numbers, "user", 97) == workers.shards_of(texts, "user", 97) == workers.shards_of(wide, "user", 97)


def test_an_engine_that_fails_ends_the_run_and_it_goes_on(tmp_path: Path) -> None:
    users = table()
    parts = dealt(users, workers.shards_of(users, "user_id", N_SHARDS))
    ledger = dp.Ledger.create(tmp_path / "l.ledger", epsilon=4.0, delta=1e-5)
    whole = tasks(parts)

    def fails(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        if len(messages) == 5:
            raise ConnectionError("the cluster is gone")
        return whole(job, messages, asked)

    def fit(run: Any, **more: Any) -> dp.PrivateRecommender:
        fitted = model(ledger=ledger, insecure_seed=None)
        return workers.fit(fitted, run, N_SHARDS, columns=users.column_names, resume=tmp_path / "run", **more)

    with pytest.raises(BadSetting, match="same_data_set"):
        fit(whole)
    with pytest.raises(ConnectionError, match="the cluster is gone"):
        fit(fails, same_data_set=True)
    n_paid = ledger.as_dict()["n_releases"]
    assert n_paid > 0
    with pytest.warns(dp.DpWarning, match="resuming the interrupted run"):
        fitted = fit(whole, same_data_set=True)
    assert ledger.as_dict()["n_releases"] == len(fitted.plan().releases)


def silo_in(folder: Path, number: int = 0, **policy: Any) -> flower.Silo:
    """A silo with ratings of 8 users, whose policy admits seeded noise."""
    folder.mkdir()
    users = [(f"u{user}", f"i{item}", str(1 + (user + item) % 5)) for user in range(8) for item in range(5)]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(",".join(row) + "\n" for row in users))
    silo = flower.Silo(number, folder)
    few = {"least_noise_multiplier": 0.5, "largest_clip_norm": 1.0, "most_rounds": 1, "most_runs": 1}
    silo.agree(few | {"insecure_seed": True} | policy)
    return silo


def said_in(run: str, job: workers.Job, messages: list[bytes]) -> dict[str, Any]:
    """A message of the server in Flower's format."""
    said: dict[str, Any] = {"run": run, "settings": json.dumps([job.command, job.settings, 1]), "messages": messages}
    for name, (file, content) in job.files.items():
        said |= {f"file {name}": file, f"content {name}": content}
    return said


def fit_on(silo: flower.Silo, asked: list[dict[str, Any]], run: str = "a", **more: Any) -> dp.PrivateRecommender:
    """Train on one silo; `asked` collects the server's messages."""

    def tasks(job: workers.Job, messages: list[bytes], _: list[int]) -> list[tuple[int, bytes]]:
        asked.append(said_in(run, job, messages))
        answer = silo.sum(asked[-1])
        if "refused" in answer:
            raise DpError(answer["refused"])
        return [(0, answer["body"])]

    given: dict[str, Any] = {"ledger": dp.NO_LEDGER, "insecure_seed": 7, "dim": 2, "catalogue": [f"i{item}" for item in range(5)]}
    fitted = dp.PrivateRecommender(epsilon=4.0, **given | more)
    return workers.fit(fitted, tasks, 1, columns=["user", "item", "rating"], silos=True)


@pytest.fixture
def sums(tmp_path: Path) -> list[dict[str, Any]]:
    """A server's messages to a silo in a run: a readiness check, and requests for sums."""
    asked: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.PrivacyWarning)
        fit_on(silo_in(tmp_path / "of the run"), asked)
    return asked


def with_setting(said: dict[str, Any], *settings: tuple[str, str]) -> dict[str, Any]:
    """The message with other settings of these names."""
    command, before, n_silos = json.loads(said["settings"])
    names = {name for name, _ in settings}
    return said | {"settings": json.dumps([command, [pair for pair in before if pair[0] not in names] + list(settings), n_silos])}


@pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning")
def test_a_silo_sums_for_one_list_and_says_no_to_what_its_policy_does_not_admit(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    silo = silo_in(tmp_path / "one")
    fitted = fit_on(silo, asked)
    last = [said for said in asked if len(said["messages"]) > 2][-1]
    assert silo.sum(last) == flower.Silo(0, silo.folder).sum(last)  # an answer that was lost
    messages = last["messages"]
    forked = last | {"messages": [messages[0], messages[2], *messages[2:]]}
    assert "another list of releases" in silo.sum(forked)["refused"]
    with pytest.raises(DpError, match="takes part in no other"):
        fit_on(silo, asked, "b")
    with pytest.raises(DpError, match="noise multiplier"):
        fit_on(silo_in(tmp_path / "noise", least_noise_multiplier=1000.0), asked)
    lifetime = {"target": {"epsilon": 0.1, "delta": 1e-5}, "adjacency": "add-remove-user"}
    with pytest.raises(DpError, match="budget is spent"):
        fit_on(silo_in(tmp_path / "lifetime", lifetime=lifetime), asked)
    silo = silo_in(tmp_path / "two", most_runs=2)
    fit_on(silo, asked, "a")
    fit_on(silo, asked, "b")
    with pytest.raises(DpError, match="answered this round before"):
        fit_on(silo, asked, "a")

    silo.take({"names": list(fitted._files), "contents": list(fitted._files.values())})
    own = flower.Silo(0, silo.folder).personalize({"i1": 5.0, "i2": 1.0})
    assert np.array_equal(own.predict(["i3"]), fitted.personalize({"i1": 5.0, "i2": 1.0}).predict(["i3"]))
    silo.take({"names": ["other"], "contents": [b""]})
    assert [path.name for path in (silo.folder / "model").iterdir()] == ["other"]  # no file of the previous model


def test_a_silo_names_its_own_columns_and_no_server_reads_files_of_it(tmp_path: Path, sums: list[dict[str, Any]]) -> None:
    silo = silo_in(tmp_path / "silo")
    secret = silo.folder / "ratings.csv"
    for said in (sums[0], sums[-1]):
        for role in ("user", "item", "rating"):
            assert f"another column, or none, as `{role}`" in silo.sum(with_setting(said, (f"{role}_col", "item")))["refused"]
        for name in ("items", "bounds", "scratch", "memory", "header", "format", "ledger", "out", "ratings"):
            assert f"takes no `{name}` from a server" in silo.sum(with_setting(said, (name, str(secret))))["refused"]
        assert "no files for ratings" in silo.sum(said | {"file ratings": "a.csv", "content ratings": b""})["refused"]
        strict = silo_in(tmp_path / f"strict {len(said['messages'])}", insecure_seed=False)
        assert "would be seeded" in strict.sum(said)["refused"]
    assert json.loads((silo.folder / "account.json").read_text())["runs"] == {}

    pinned = silo_in(tmp_path / "pinned", columns={"ratings.csv": {"user": "user"}})
    assert "another column, or none, as `user`" in pinned.sum(sums[0])["refused"]
    with pytest.warns(dp.PrivacyWarning, match="seeded"):
        fit_on(pinned, [], user="user")
    with pytest.raises(BadSetting, match="`columns` of a policy"):
        silo_in(tmp_path / "wrong", columns={"ratings.csv": {"usr": "user"}})


RANGES: dict[str, Any] = {"feature_range": (-1.0, 1.0), "user": "id", "target": "y", "ledger": dp.NO_LEDGER}
REGRESSION: dict[str, Any] = RANGES | {"target_range": (-3.0, 3.0)}


@pytest.mark.parametrize(
    "model",
    [
        dp.PrivatePopularity(epsilon=4.0, min_rating=1.0, ledger=dp.NO_LEDGER, catalogue=[f"i{item}" for item in range(5)]),
        dp.PrivatePersonalRegressor(epsilon=4.0, rank=1, bounds={"a": (-1.0, 1.0)}, **REGRESSION),
        dp.PrivatePersonalClassifier(epsilon=4.0, rank=1, **RANGES),
        dp.PrivateFederatedRegressor(epsilon=4.0, alpha_grid=[0.5], n_rounds=2, **REGRESSION),
        dp.PrivateFederatedClassifier(epsilon=4.0, alpha_grid=[0.5], n_rounds=2, **RANGES),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_silo_admits_every_kind_of_model(model: Any, tmp_path: Path) -> None:
    silo = silo_in(tmp_path / "silo", insecure_seed=False, columns={"rows.csv": {"user": "id", "target": "y"}})
    rows = "".join(f"u{user},{(user * row) % 7 / 7},{row / 8},{(user + row) % 2}\n" for user in range(12) for row in range(8))
    (silo.folder / "rows.csv").write_text("id,a,b,y\n" + rows)
    columns = ["user", "item", "rating"] if isinstance(model, dp.PrivatePopularity) else ["id", "a", "b", "y"]

    def tasks(job: workers.Job, messages: list[bytes], _: list[int]) -> list[tuple[int, bytes]]:
        answer = silo.sum(said_in("a", job, messages))
        assert "refused" not in answer
        return [(0, answer["body"])]

    assert workers.fit(model, tasks, 1, columns=columns, silos=True).certificate_


def test_no_path_of_the_coordinator_reaches_a_silo(tmp_path: Path) -> None:
    ledger, asked = dp.Ledger.create(tmp_path / "l.ledger", epsilon=4.0, delta=1e-5), list[dict[str, Any]]()
    silo = silo_in(tmp_path / "silo")

    def tasks(job: workers.Job, messages: list[bytes], _: list[int]) -> list[tuple[int, bytes]]:
        asked.append(said_in("a", job, messages))
        return [(0, silo.sum(asked[-1])["body"])]

    catalogue = [f"i{item}" for item in range(5)]
    paid = dp.PrivateRecommender(epsilon=4.0, ledger=ledger, dim=2, catalogue=catalogue)
    workers.fit(paid, tasks, 1, columns=["user", "item", "rating"], silos=True, same_data_set=True, resume=tmp_path / "run")
    assert len(asked) > 2
    assert not any(str(tmp_path) in said["settings"] for said in asked)


def test_whether_a_silo_is_ready_tells_nothing_of_its_users(
    tmp_path: Path, sums: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    silo, ready = silo_in(tmp_path / "silo"), sums[0]
    assert len(ready["messages"]) == 1
    whole = silo.sum(ready)
    (silo.folder / "ratings.csv").write_text("user,item,rating\nonly a user\n")
    assert silo.sum(ready) == whole
    assert silo.sum(sums[-1]) == {"refused": flower._FAILED}
    assert "silo 0 failed" in caplog.text
    assert silo.sum({}) == {"refused": flower._FAILED}

    strict = silo_in(tmp_path / "strict", least_noise_multiplier=1000.0)
    assert "noise multiplier" in strict.sum(ready)["refused"]
    assert json.loads((silo_in(tmp_path / "new").folder / "account.json").read_text())["runs"] == {}


def test_a_silo_notes_what_it_gave_and_under_which_number(tmp_path: Path, sums: list[dict[str, Any]]) -> None:
    silo = silo_in(tmp_path / "silo")
    assert "body" in silo.sum(sums[0])
    assert not (silo.folder / "given.json").exists()
    assert json.loads((silo.folder / "account.json").read_text())["runs"] == {}
    first, last = sums[1], sums[-1]
    whole = silo.sum(first)
    assert "body" in whole
    other = first | {"messages": [*first["messages"][:-1], last["messages"][-1]]}
    assert "another list of releases" in silo.sum(other)["refused"]
    assert "body" in silo.sum(last)
    assert silo.sum(first) == whole
    assert "another list of releases" in silo.sum(other)["refused"]
    for said in (sums[0], last):
        assert "under another number" in flower.Silo(1, silo.folder).sum(said)["refused"]
    (silo.folder / "given.json").unlink()
    assert "given.json" in silo.sum(last)["refused"]


Answer = Callable[[devices.Device, dict[str, Any]], dict[str, Any]]
"""A device's answer to a message."""


class Grid:
    """A grid whose silos answer at once, by `reply`, which may raise."""

    def __init__(self, silos: Iterable[int], reply: Callable[[int, str, Any], dict[str, Any]]) -> None:
        self.silos, self.reply, self.waiting, self.n_asked = list(silos), reply, dict[str, Any](), 0

    def get_node_ids(self) -> list[int]:
        return [100 + silo for silo in self.silos]

    def push_messages(self, messages: list[Any]) -> list[str]:
        self.n_asked += 1
        self.waiting[str(self.n_asked)] = messages[0]
        return [str(self.n_asked)]

    def pull_messages(self, ids: list[str]) -> list[Any]:
        return [self._answer(name, self.waiting.pop(name)) for name in ids if name in self.waiting]

    def _answer(self, name: str, message: Any) -> Any:
        silo = message.to - 100
        answer, error = {"silo": silo}, None
        if message.what != "query.silo":
            try:
                answer = self.reply(silo, message.what, message.content["said"])
            except RuntimeError as raised:
                error = SimpleNamespace(code=2, reason=str(raised))
        about = SimpleNamespace(reply_to_message_id=name)
        return SimpleNamespace(metadata=about, error=error, has_error=lambda: error is not None, content={"answer": answer})


class DeviceFederation:
    """Devices in one folder, started anew for each message, and everything that was sent."""

    def __init__(self, folder: Path, numbers: range, device_in: Callable[..., object], answer: Answer, **policy: Any) -> None:
        self.folder, self.numbers, self.answer = folder, numbers, answer
        for number in numbers:
            device_in(folder / str(number), number, **policy)
        self.sent: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
        self.fails: Callable[[int], bool] = lambda _: False

    def device(self, number: int) -> devices.Device:
        return devices.Device(number, self.folder / str(number))

    def reply(self, number: int, what: str, said: dict[str, Any]) -> dict[str, Any]:
        if what == "query.model":
            self.device(number).take(said)
            return {"body": b""}
        answer = self.answer(self.device(number), said)
        self.sent.append((number, said, answer))
        if self.fails(number):
            raise RuntimeError("lost")
        return answer


@pytest.fixture
def without_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the parts of Flower that the server uses."""
    replace_flower(monkeypatch)


def replace_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for fixtures of a module."""

    def message(content: Any, dst_node_id: int, message_type: str) -> Any:
        return SimpleNamespace(content=content, to=dst_node_id, what=message_type)

    app = SimpleNamespace(Message=message, RecordDict=dict, ConfigRecord=dict)
    monkeypatch.setitem(sys.modules, "flwr", SimpleNamespace(app=app))
    monkeypatch.setitem(sys.modules, "flwr.app", app)
    monkeypatch.setattr(flower, "_PAUSE", 0.0)


@pytest.mark.usefixtures("without_flower")
def test_a_silo_that_cannot_take_the_model_ends_no_run_that_is_paid_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = SimpleNamespace(_files={"a": b"content"})
    monkeypatch.setattr(workers, "fit", lambda model, *_, **__: model)
    got: list[int] = []

    def reply(silo: int, *_: Any) -> dict[str, Any]:
        if silo == 1:
            return {"refused": "the disk is full"}
        got.append(silo)
        return {"body": b""}

    with pytest.warns(dp.DpWarning, match=r"silos \[1\] may not have received it .*the disk is full"):
        assert flower.fit(Grid(range(3), reply), fitted, 3, columns=[]) is fitted  # type: ignore[type-var]
    assert set(got) == {0, 2}
    with pytest.warns(dp.DpWarning, match=r"silos \[2\] may not have received it .*no answer"):
        assert flower.fit(Grid(range(2), lambda *_: {"body": b""}), fitted, 3, columns=[], timeout=0.2) is fitted  # type: ignore[type-var]


@pytest.mark.usefixtures("without_flower")
def test_a_silo_that_always_fails_in_the_same_way_ends_the_run() -> None:
    grid = Grid([0], lambda *_: exec('raise RuntimeError("no module")'))
    with pytest.raises(DpError, match="silo 0 failed 10 times: no module"):
        list(flower._Nodes(grid, timeout=5.0).answers("sum", {}, [0]))
    assert grid.n_asked < 30


def test_public_files_of_the_same_name_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, bytes] = {}

    def answer_of(command: str, settings: list[tuple[str, str]], *_: object) -> bytes:
        seen.update((name, Path(value).read_bytes()) for name, value in settings)
        return b""

    monkeypatch.setattr(workers, "_native", SimpleNamespace(answer_of=answer_of, Table=_native.Table))
    files = {"items": ("public.csv", b"items"), "bounds": ("public.csv", b"bounds")}
    workers.answer(workers.Job("federate", (), files, 1, silos=False), 0, "users.csv", [b""])
    assert seen == {"items": b"items", "bounds": b"bounds"}


def test_a_task_of_spark_is_given_its_rows_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(workers, "answer", lambda *arguments: given.append(arguments[2]) or b"sum")
    rows = [("u1", 2.0), ("u0", 1.0), ("u1", None), ("u1", 1.0), ("u0", 1.0)]
    for order in (rows, rows[::-1]):
        names, values = zip(*order, strict=True)
        more = {spark._SHARD: pa.array([0] * 5, pa.int32()), spark._IS_ROW: [True] * 5}
        batches = pa.table({"user": names, "x": values, **more}).to_batches(max_chunksize=2)
        list(spark._answers(workers.Job("train", (), {}, 1, silos=False), [b""], {0})(iter(batches)))
    assert given[0].equals(given[1])
    assert given[0].column_names == ["user", "x"]
    assert given[0].num_rows == 5


def test_a_client_agrees_to_what_its_policy_admits_and_is_asked_once(tmp_path: Path) -> None:
    policy = {"least_noise_multiplier": 2.0, "largest_clip_norm": 1.0, "most_rounds": 1, "most_runs": 1}
    path = str(tmp_path / "client.json")
    record = _native.Record.open(path, json.dumps(policy), True)
    with pytest.raises(DpError, match="noise multiplier"):
        record.join("a", [3.0, 1.0])
    record.join("a", [3.0, 2.0])
    record.join("a", [3.0, 2.0])
    with pytest.raises(DpError, match="takes part in no other"):
        record.join("b", [3.0])
    del record
    again = _native.Record.open(path, json.dumps(policy), False)
    again.join("a", [3.0, 2.0])
    with pytest.raises(DpError):
        again.join("b", [3.0])
    with pytest.raises((InputMissing, DpError)):
        _native.Record.open(path + ".none", json.dumps(policy), False)
