"""Silos with two servers: the first sees masks of each silo and the exact total, the second sees masks only."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_workers import Grid, said_in, silo_in, without_flower  # noqa: F401

import dp_personal as dp
from dp_personal import _native, _shares, flower, workers
from dp_personal.errors import BadSetting, DpError

pytest.importorskip("cryptography")
pytestmark = pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning")
N_SILOS = 3
COLUMNS, ITEMS = ["user", "item", "rating"], [f"i{item}" for item in range(5)]


class Federation:
    """Three silos and a share server in one folder, and everything that was sent."""

    def __init__(self, folder: Path, **policy: Any) -> None:
        self.share_server = flower.ShareServer(folder / "share server")
        self.share_server.folder.mkdir()
        key = self.share_server.public_key()
        self.silos = [silo_in(folder / str(silo), silo, share_server=key, **policy) for silo in range(N_SILOS)]
        for silo in self.silos:
            ratings = (silo.folder / "ratings.csv").read_text()
            (silo.folder / "ratings.csv").write_text(
                ratings.replace("u", f"{silo.number}-u").replace(f"{silo.number}-user", "user")
            )
        self.share_server.admit([silo.public_key() for silo in self.silos])
        self.sent: list[tuple[int, str, dict[str, Any], dict[str, Any]]] = []
        self.fails: Callable[[int, str], bool] = lambda *_: False

    def reply(self, silo: int, what: str, said: dict[str, Any]) -> dict[str, Any]:
        if what == "query.model":
            self.silos[silo].take(said)
            return {"body": b""}
        answer = self.share_server.total(said) if what == "query.shares" else self.silos[silo].sum(said)
        self.sent.append((silo, what, said, answer))
        if self.fails(silo, what):
            raise RuntimeError("lost")
        return answer

    def fit(self, **more: Any) -> dp.PrivateRecommender:
        grid = Grid([0, 1, 2, flower.ShareServer.number], self.reply)
        return flower.fit(grid, model(**more), N_SILOS, columns=COLUMNS, run="a")

    def answers(self, what: str) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
        return [(silo, said, answer) for silo, kind, said, answer in self.sent if kind == f"query.{what}"]


def model(**more: Any) -> dp.PrivateRecommender:
    given: dict[str, Any] = {"ledger": dp.NO_LEDGER, "insecure_seed": 7, "dim": 2, "n_rounds": 2, "catalogue": ITEMS}
    return dp.PrivateRecommender(epsilon=4.0, **given | more)


def alone(folder: Path) -> dp.PrivateRecommender:
    """The model of one process with the users of all silos."""
    rows = [line.split(",") for silo in range(N_SILOS) for line in (folder / str(silo) / "ratings.csv").read_text().split()[1:]]
    return model().fit({name: np.array(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)})


def words(body: bytes) -> np.ndarray:
    """The coordinates of an answer."""
    start = 5 + int.from_bytes(body[1:5], "little")
    return np.frombuffer(body[start:], dtype="<u8")


def exact(silo: flower.Silo, said: dict[str, Any]) -> bytes:
    """The answer that the silo would give in clear."""
    command, settings, n_silos = json.loads(said["settings"])
    files = {name: (said[f"file {name}"], said[f"content {name}"]) for name in ["items"] if f"file {name}" in said}
    job = workers.Job(command, tuple((name, value) for name, value in settings), files, n_silos, silos=True)
    return workers.answer(job, silo.number, silo._users(command, is_empty=False), said["messages"])


@pytest.mark.usefixtures("without_flower")
def test_shares_give_the_bits_of_one_process_and_the_server_sees_masks(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    lost = {0: 2, flower.ShareServer.number: 1}

    def fails(silo: int, what: str) -> bool:
        is_sum = len(federation.sent[-1][2].get("messages", [])) > 1
        if not is_sum or not lost.get(silo):
            return False
        lost[silo] -= 1
        return True

    federation.fails = fails
    fitted = federation.fit()
    assert not any(lost.values())
    assert np.array_equal(fitted.item_factors_, alone(tmp_path).item_factors_)
    seen = federation.answers("sum")
    sums = [(silo, said, answer) for silo, said, answer in seen if len(said["messages"]) > 1]
    assert len(sums) > 3 * N_SILOS
    masks = []
    for silo, said, answer in sums:
        clear = exact(federation.silos[silo], said)
        assert len(answer["body"]) == len(clear)
        masks.append(words(answer["body"]) - words(clear))
        assert words(clear).tobytes() not in answer["sealed"] + answer["body"]
        totals = [reply["body"] for _, _, reply in federation.answers("shares")]
        assert not any(words(answer["body"]).tobytes() in total for total in totals)
    # 64 bits of n masks: each is set in n / 2 of them, up to 6 standard deviations; false alarm below 64 * 2e-9
    bits = np.unpackbits(np.concatenate(masks).view(np.uint8).reshape(-1, 8), axis=1)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 3 / np.sqrt(len(bits)))
    first = [answer for silo, _, answer in sums if silo == 0][:3]
    assert first[0] == first[1] == first[2]  # two of them were lost


@pytest.mark.usefixtures("without_flower")
def test_a_share_server_may_answer_its_greeting_after_the_silos(tmp_path: Path) -> None:
    federation = Federation(tmp_path)

    class LateGrid(Grid):
        def pull_messages(self, ids: list[str]) -> list[Any]:
            is_late = len(federation.answers("sum")) < N_SILOS
            late = {name for name, message in self.waiting.items() if is_late and message.to == 100 + flower.ShareServer.number}
            return super().pull_messages([name for name in ids if name not in late])

    grid = LateGrid([0, 1, 2, flower.ShareServer.number], federation.reply)
    assert flower.fit(grid, model(), N_SILOS, columns=COLUMNS, run="a", timeout=5.0).certificate_


def asked_in(federation: Federation) -> tuple[dict[str, Any], dict[str, Any]]:
    """The last messages of a run, to silos and to the share server."""
    federation.fit()
    return federation.answers("sum")[-1][1], federation.answers("shares")[-1][1]


@pytest.mark.usefixtures("without_flower")
def test_the_share_server_adds_up_one_set_of_all_silos(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    said, shares = asked_in(federation)
    server, sealed = federation.share_server, list(shares["sealed"])

    def refused(**more: Any) -> str:
        return str(server.total(shares | more)["refused"])

    assert "body" in server.total(shares)
    assert "body" in flower.ShareServer(server.folder).total(shares)
    for subset in ([], sealed[:2], [*sealed, sealed[0]]):
        assert "of all 3 silos, and of no others" in refused(sealed=subset)
    for wrong in (
        {"sealed": [sealed[0], sealed[0], sealed[2]]},
        {"sealed": [sealed[1], sealed[0], sealed[2]]},
        {"sealed": [sealed[0][:-1] + bytes([sealed[0][-1] ^ 1]), *sealed[1:]]},
        {"sealed": [sealed[0][:40], *sealed[1:]]},
        {"run": "b"},
        {"step": shares["step"] + 1},
        {"messages": "0" * 64},
    ):
        assert "not signed for this request" in refused(**wrong)

    # a silo that lost its record of what it gave, and other records: a second set for the step
    (federation.silos[1].folder / "shares.bin").unlink()
    again = federation.silos[1].sum(said)
    assert "added up other shares for this step" in refused(sealed=[sealed[0], again["sealed"], sealed[2]])
    assert "body" in server.total(shares)
    assert "log says why" in server.total({})["refused"]
    for keys in ([], ["00"], [federation.silos[0].public_key()] * 2):
        with pytest.raises(BadSetting, match="each key once"):
            server.admit(keys)


@pytest.mark.usefixtures("without_flower")
def test_a_silo_gives_the_same_shares_again_and_never_its_sum(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    said, _ = asked_in(federation)
    silo = federation.silos[0]
    given = silo.sum(said)
    ratings = (silo.folder / "ratings.csv").read_text()
    (silo.folder / "ratings.csv").write_text(ratings.replace(",5\n", ",1\n"))
    assert silo.sum(said) == given  # other records: the change does not show
    asked_again = said | {"messages": [*said["messages"][:-1], with_nonce(said["messages"][-1], 5)]}
    other = silo.sum(asked_again)
    assert other["sealed"] == given["sealed"]
    assert other["body"] != given["body"]
    assert np.array_equal(words(other["body"]), words(given["body"]))
    first = next(of for who, of, _ in federation.answers("sum") if who == 0 and len(of["messages"]) > 1)
    assert "keeps the shares of the last one only" in silo.sum(first)["refused"]
    (silo.folder / "key").unlink()
    (silo.folder / "shares.bin").unlink()
    assert silo.sum(said) == {"refused": flower._FAILED}


def with_nonce(request: bytes, nonce: int) -> bytes:
    """The request as a server that was restarted sends it."""
    length = int.from_bytes(request[1:5], "little")
    head = json.dumps(json.loads(request[5 : 5 + length]) | {"nonce": nonce}).encode()
    return request[:1] + len(head).to_bytes(4, "little") + head + request[5 + length :]


@pytest.mark.usefixtures("without_flower")
def test_silos_must_name_one_share_server(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    policy = federation.silos[1].folder / "policy.json"
    whole = json.loads(policy.read_text())
    other = flower.ShareServer(tmp_path / "other")
    other.folder.mkdir()
    for share_server in ({}, {"share_server": other.public_key()}):
        policy.write_text(json.dumps({name: value for name, value in whole.items() if name != "share_server"} | share_server))
        with pytest.raises(DpError, match="different share servers, or some silos name none"):
            federation.fit()
    assert not federation.answers("shares")
    assert all(len(said["messages"]) == 1 for _, said, _ in federation.answers("sum"))
    with pytest.raises(BadSetting, match="64 hexadecimal digits"):
        silo_in(tmp_path / "wrong", share_server="key")

    policy.write_text(json.dumps(whole))
    federation.share_server.admit([silo.public_key() for silo in reversed(federation.silos)])
    with pytest.raises(DpError, match=r"the share server refuses: .* check the order of the keys"):
        federation.fit()


@pytest.mark.usefixtures("without_flower")
def test_messages_that_differ_between_silos_are_not_added_up(tmp_path: Path) -> None:
    """A server that asks silos for different sums, to single one out, gets no total."""
    federation = Federation(tmp_path, most_runs=2)
    said, shares = asked_in(federation)
    other = federation.silos[0].sum(said | {"run": "b"})["sealed"]
    for run in ("a", "b"):
        name = flower._name(run, flower._hashes(said["messages"]))
        refused = federation.share_server.total(shares | {"run": name, "sealed": [other, *shares["sealed"][1:]]})
        assert "not signed for this request" in refused["refused"]


@pytest.mark.usefixtures("without_flower")
def test_a_server_that_is_restarted_repeats_its_request(tmp_path: Path) -> None:
    ledger = dp.Ledger.create(tmp_path / "l.ledger", epsilon=4.0, delta=1e-5)
    federation = Federation(tmp_path)

    def fit() -> dp.PrivateRecommender:
        grid = Grid([0, 1, 2, flower.ShareServer.number], federation.reply)
        more: dict[str, Any] = {"same_data_set": True, "resume": tmp_path / "run", "timeout": 5.0}
        return flower.fit(grid, model(ledger=ledger, insecure_seed=None), N_SILOS, columns=COLUMNS, run="a", **more)

    federation.fails = lambda _, what: what == "query.shares" and len(federation.answers("shares")) > 2
    with pytest.raises(DpError, match="the share server failed 10 times: lost"):
        fit()
    federation.fails = lambda *_: False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.DpWarning)
        fitted = fit()
    assert ledger.as_dict()["n_releases"] == len(fitted.plan().releases)


def test_a_restarted_server_asks_again_for_the_sum_that_it_missed(tmp_path: Path) -> None:
    """Also in clear, without a share server."""
    ledger = dp.Ledger.create(tmp_path / "l.ledger", epsilon=4.0, delta=1e-5)
    silo, is_lost = silo_in(tmp_path / "silo"), [True]

    def tasks(job: workers.Job, messages: list[bytes], _: list[int]) -> list[tuple[int, bytes]]:
        answer = silo.sum(said_in("a", job, messages))
        if len(messages) == 4 and is_lost.pop():
            raise ConnectionError("the server is gone")
        return [(0, answer["body"])]

    def fit() -> dp.PrivateRecommender:
        more: dict[str, Any] = {"silos": True, "same_data_set": True, "resume": tmp_path / "run"}
        return workers.fit(model(ledger=ledger, insecure_seed=None), tasks, 1, columns=COLUMNS, **more)

    with pytest.raises(ConnectionError):
        fit()
    is_lost.append(False)
    with pytest.warns(dp.DpWarning, match="resuming the interrupted run"):
        assert fit().certificate_


def test_shares_are_arithmetic_modulo_2_to_the_64(tmp_path: Path) -> None:
    values = np.array([0, 1, 2**64 - 1, 2**63], dtype="<u8")
    head = json.dumps({"shard": 1, "n_shards": 3, "run": "r", "step": 0, "list_head": "h", "nonce": 1}).encode()
    answer = b"\x04" + len(head).to_bytes(4, "little") + head + values.tobytes()
    first, second = (np.frombuffer(share, dtype="<u8") for share in _native.split_answer(answer))
    assert np.array_equal(first + second, values)
    assert not np.array_equal(first, np.frombuffer(_native.split_answer(answer)[0], dtype="<u8"))
    total = _native.sum_of_shares([first.tobytes(), second.tobytes()])
    assert total == values.tobytes()
    zero = b"\x04" + len(head).to_bytes(4, "little") + head + bytes(32)
    assert words(_native.add_share(zero, total)).tobytes() == values.tobytes()
    with pytest.raises(DpError):
        _native.sum_of_shares([])
    with pytest.raises(DpError):
        _native.sum_of_shares([bytes(8), bytes(16)])
    with pytest.raises(DpError):
        _native.split_answer(b"not an answer")
    shutil.rmtree(tmp_path)


def test_what_is_sealed_is_read_with_its_key_and_for_its_request_only(tmp_path: Path) -> None:
    key = _shares.ReplyKey()
    question = _shares.Question("r", 2, "0" * 64, N_SILOS, "ab" * 32)
    sealed = _shares._sealed(b"total", key.public, question.by(None))
    assert key.open(sealed, question) == b"total"
    with pytest.raises(DpError, match="another key or another request"):
        key.open(sealed, _shares.Question("r", 3, "0" * 64, N_SILOS, "ab" * 32))
    with pytest.raises(DpError, match="another key or another request"):
        _shares.ReplyKey().open(sealed, question)
