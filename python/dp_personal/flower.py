"""Training on silos with Flower: each SuperNode holds the records of its users, the ServerApp holds ledger and noise.

The server is trusted: it sees each silo's exact sums, and they are stored in the files of the SuperLink. A silo reveals
nothing else, and no more than its policy admits. If the policies of all silos name a share server (`ShareServer`), the
server sees uniform masks of each silo and the exact sum over all of them. `examples/flower` is an app with all sides.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import shutil
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native, _shares, linear, recommender, workers
from ._load import load
from ._numpy import np
from ._shares import ShareServer
from .errors import BadSetting, DpError, DpWarning

if TYPE_CHECKING:
    from ._estimator import Estimator

__all__ = ["ShareServer", "Silo", "fit"]

_E = TypeVar("_E", bound="Estimator")
_PAUSE = 0.5
"""Seconds between looks for answers."""
_WHO = -1
"""In the place of a silo: the node is asked which one it holds."""
_TRIES = 10
"""How often one failure of a silo's app is met with the same message."""
_OF_APP = frozenset({1, 2, 8})
"""Flower's error codes of a ClientApp that does not load, raises or crashes; those of nodes that are gone are others."""

logger = logging.getLogger(__name__)


def fit(
    grid: Any,
    model: _E,
    n_silos: int,
    *,
    columns: Sequence[str],
    run: str | None = None,
    timeout: float = 3600.0,
    **more: Any,
) -> _E:
    """Fit a recommender or linear models on the users of `n_silos` SuperNodes, and send them the released model.

    If a silo is offline, the server waits and asks it again when it is back; the run ends after `timeout` seconds
    without an answer from all silos. Nothing was paid for the incomplete sum, and with `resume` the run can be
    continued; pass the same `run` then, because otherwise the silos count it as another run. A `DpWarning` names silos
    to which the released model cannot be sent. `columns` are the columns of the silos' files; `more` is as in
    `workers.fit`.
    """
    run_name = run or uuid.uuid4().hex
    nodes = _Nodes(grid, timeout)

    def tasks(job: workers.Job, messages: list[bytes], asked: list[int]) -> list[tuple[int, bytes]]:
        said: dict[str, Any] = {
            "run": run_name,
            "settings": json.dumps([job.command, job.settings, job.n_shards]),
            "messages": messages,
        }
        for name, (file, content) in job.files.items():
            said |= {f"file {name}": file, f"content {name}": content}
        return _sums(nodes, run_name, messages, dict(nodes.answers("sum", said, asked)), n_silos)

    workers.fit(model, tasks, n_silos, columns=columns, silos=True, **more)
    _deliver(nodes, model, n_silos)
    return model


def _hashes(messages: Sequence[bytes]) -> list[str]:
    """Hashes of the server's messages. The last one is of the request itself: a server that is restarted repeats it."""
    *before, last = messages
    return [sha256(message).hexdigest() for message in (*before, _native.without_nonce(last))]


def _name(run: str, hashes: Sequence[str]) -> str:
    """The name of a run, which includes everything that its processes agree on."""
    return run + hashes[0]


def _question(run: str, hashes: Sequence[str], n_silos: int, share_server: str) -> _shares.Question:
    return _shares.Question(_name(run, hashes), len(hashes), _shares.hash_of(hashes), n_silos, share_server)


def _sums(
    nodes: _Nodes, run: str, messages: Sequence[bytes], answers: Mapping[int, Mapping[str, Any]], n_silos: int
) -> list[tuple[int, bytes]]:
    """The answers of silos; if they are in shares, the first one with the share server's sum added."""
    named = {str(answer.get("share_server", "")) for answer in answers.values()}
    if len(named) > 1:
        raise DpError("the policies of the silos name different share servers, or some silos name none")
    sums, share_server = {silo: bytes(answer["body"]) for silo, answer in sorted(answers.items())}, named.pop()
    if share_server and len(messages) > 1:
        if len(sums) < n_silos:
            raise DpError("a sum in shares was rejected; it has no meaning without those of all silos")
        question, key = _question(run, _hashes(messages), n_silos, share_server), _shares.ReplyKey()
        said = {
            "run": question.run,
            "step": question.step,
            "messages": question.messages,
            "sealed": [answers[silo]["sealed"] for silo in sums],
            "to": key.public,
        }
        for _, total in nodes.answers("shares", said, [ShareServer.number]):
            sums[0] = _native.add_share(sums[0], key.open(total["body"], question))
    return list(sums.items())


def _deliver(nodes: _Nodes, model: Estimator, n_nodes: int) -> None:
    """Send the released model to the nodes. It has been paid for, so a node that cannot receive it does not raise an error."""
    released = {"names": list(model._files), "contents": list(model._files.values())}
    waiting, failed = set(range(n_nodes)), dict[int, str]()
    while waiting:
        try:
            for silo, _ in nodes.answers("model", released, waiting):
                waiting.remove(silo)
        except _NodeFailed as error:
            failed[error.number] = str(error)
        except Exception as error:
            failed |= dict.fromkeys(waiting, str(error))
        waiting -= failed.keys()
    if failed:
        text = (
            f"the run is complete and its model is returned, but the {nodes.kind}s {sorted(failed)} may not have received it "
            f"({'; '.join(sorted(set(failed.values())))}): save the model and copy its files to their folders `model`"
        )
        warnings.warn(text, DpWarning, stacklevel=3)


class _NodeFailed(DpError):
    """A node refuses, or fails repeatedly in the same way."""

    def __init__(self, who: str, number: int, text: str) -> None:
        super().__init__(f"{who} {text}")
        self.number = number


class _Nodes:
    """The nodes of a grid by the numbers of the silos or devices that they hold; one of them may be the share server."""

    def __init__(self, grid: Any, timeout: float, kind: str = "silo") -> None:
        self._grid, self._timeout, self.kind = grid, timeout, kind
        self._nodes: dict[int, int] = {}
        self._greeted: set[int] = set()
        self._problems = set[str]()
        """Why nodes did not answer that may be missing: each reason is logged once."""
        self._greetings: dict[str, int] = {}
        """Nodes that have not yet said their number. A greeting may be answered after all nodes that were asked."""

    def _who(self, number: int) -> str:
        return "the share server" if number == ShareServer.number else f"{self.kind} {number}"

    def answers(self, what: str, said: dict[str, Any], asked: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """One answer of each silo to a message, however late. A silo that comes back as another node is asked there again."""
        return self._answers(what, lambda _: said, asked, may_be_missing=False)

    def answers_in_time(
        self, what: str, said: Callable[[int], dict[str, Any]], asked: Iterable[int]
    ) -> Iterator[tuple[int, Any]]:
        """The same with a message for each number, until the time is over. Nodes that refuse or fail do not answer."""
        return self._answers(what, said, asked, may_be_missing=True)

    def _answers(
        self, what: str, said: Callable[[int], dict[str, Any]], asked: Iterable[int], *, may_be_missing: bool
    ) -> Iterator[tuple[int, Any]]:
        from flwr.app import ConfigRecord, RecordDict

        missing, told, failed = set(asked), set[tuple[int, int]](), ""
        failures = Counter[tuple[int, int, str]]()
        waiting: dict[str, tuple[int, int]] = {}
        end = time.monotonic() + self._timeout
        while missing:
            is_over = time.monotonic() > end
            if is_over and not may_be_missing:
                who = ", ".join(map(self._who, sorted(missing)))
                raise TimeoutError(f"no answer of {who} in {self._timeout:.0f} s. {failed}")
            new = set() if is_over else set(self._grid.get_node_ids()) - self._greeted
            self._greeted |= new
            self._greetings |= {self._ask("silo", RecordDict(), node): node for node in new}
            for silo in set() if is_over else missing & self._nodes.keys():
                node = self._nodes[silo]
                if (node, silo) not in told:
                    told.add((node, silo))
                    content = RecordDict({"said": ConfigRecord(said(silo))})
                    waiting[self._ask(what, content, node)] = (node, silo)
            for reply in self._grid.pull_messages([*self._greetings, *waiting]):
                answered = reply.metadata.reply_to_message_id
                node, of = (self._greetings.pop(answered), _WHO) if answered in self._greetings else waiting.pop(answered)
                answer, problem, is_final = _read(reply, failures, (node, of))
                if problem and not is_final:
                    failed = problem
                    self._greeted.discard(node)
                    told.discard((node, of))
                elif of == _WHO:
                    self._meet(node, answer)
                elif of in missing:
                    missing.remove(of)
                    if problem:
                        self._give_up(of, problem, may_be_missing=may_be_missing)
                    else:
                        yield of, answer
            if is_over:  # a pull may have waited for one node while others had answered
                return
            if missing:
                time.sleep(_PAUSE)

    def _meet(self, node: int, answer: Mapping[str, Any]) -> None:
        """Note the number that a node says it holds."""
        if isinstance(number := answer.get("silo"), int):
            self._nodes[number] = node

    def _give_up(self, number: int, problem: str, *, may_be_missing: bool) -> None:
        if not may_be_missing:
            raise _NodeFailed(self._who(number), number, problem)
        if problem not in self._problems:
            self._problems.add(problem)
            logger.warning("a %s does not answer: it %s", self.kind, problem)

    def _ask(self, what: str, content: Any, node: int) -> str:
        from flwr.app import Message

        return str(next(iter(self._grid.push_messages([Message(content, dst_node_id=node, message_type=f"query.{what}")]))))


def _read(reply: Any, failures: Counter[tuple[int, int, str]], of: tuple[int, int]) -> tuple[Mapping[str, Any], str, bool]:
    """The answer of a node, or what is wrong, and whether it is useless to ask again."""
    if reply.has_error():
        problem = f"{reply.error.reason}"
        failures[(*of, problem)] += reply.error.code in _OF_APP
        is_final = failures[(*of, problem)] >= _TRIES
        return {}, f"failed {_TRIES} times: {problem}" if is_final else problem, is_final
    answer: Mapping[str, Any] = reply.content.get("answer", {})
    refused = answer.get("refused")
    return answer, f"refuses: {refused}" if refused else "", True


_RECORDS = {"train": "ratings.csv", "personalize": "rows.csv", "federate": "rows.csv"}
"""A silo's file of records by the command that trains on them."""
_ROLES = {"user": "user_col", "item": "item_col", "rating": "rating_col", "target": "target_col"}
"""What a column of records may be, and the setting that says so."""
_MODELS: tuple[type[Estimator], ...] = (
    recommender.PrivateRecommender,
    recommender.PrivatePopularity,
    linear.PrivatePersonalRegressor,
    linear.PrivatePersonalClassifier,
    linear.PrivateFederatedRegressor,
    linear.PrivateFederatedClassifier,
)
_NEED_DISK = frozenset({"memory", "scratch"})
_FAILED = "the silo failed; its own log says why"
"""The one answer to a failure. What failed may follow from the silo's records, so that no more of it leaves the silo."""


class _Participant:
    """A node with a folder of its own, which receives the released model."""

    def __init__(self, number: int, folder: str | os.PathLike[str]) -> None:
        self.number = number
        self.folder = Path(folder)

    def take(self, said: Mapping[str, Any]) -> None:
        """Store the released model, replacing the previous one."""
        model, new, old = (self.folder / name for name in ("model", "model.new", "model.old"))
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        new.mkdir()
        for name, content in zip(said["names"], said["contents"], strict=True):
            (new / Path(name).name).write_bytes(content)
        if model.exists():
            model.rename(old)
        new.rename(model)
        shutil.rmtree(old, ignore_errors=True)


class Silo(_Participant):
    """The users of one SuperNode: a folder with their records, the silo's policy and account, and the model of its last run.

    `ratings.csv` contains the records for recommenders, `rows.csv` those for linear models. `policy.json` states which
    runs the silo takes part in, `account.json` which runs it took part in, and `given.json` for which release lists it
    gave sums. A run is charged as a whole, durably, before its first sum leaves; each of its sums is given for one
    release list only, as often as it is requested. With a share server, `key` is the silo's private key and `shares.bin` the
    last sum in shares, in the form in which it leaves the silo.
    """

    def agree(self, policy: Mapping[str, Any]) -> None:
        """Create the silo's account, once.

        The policy has the fields of `ClientPolicy` of dp-mechanism; a run counts as one round. Three more fields are
        specific to silos: `columns`, the column names that the server must use, such as
        `{"rows.csv": {"user": "id", "target": "y"}}` (the server can name no other column as the user column, and none
        if the policy names none: then the default names of `dp` apply); `share_server`, the public key of the share server,
        without whose shares no sum of the silo can be read (see `public_key`); and `insecure_seed`, true if runs with seeded
        noise, which have no guarantee, are admitted for tests.
        """
        parts = _Policy.of(policy)
        for file, roles in parts.columns.items():
            if file not in _RECORDS.values() or not roles.keys() <= _ROLES.keys():
                raise BadSetting(
                    f"`columns` of a policy has {', '.join(_ROLES)} of ratings.csv and rows.csv; found {file}: {roles}"
                )
        if parts.share_server is not None and not _shares.is_key(parts.share_server):
            raise BadSetting(
                "`share_server` of a policy is the public key of the share server: 64 hexadecimal digits in lower case"
            )
        _native.Record.open(os.fspath(self.folder / "account.json"), json.dumps(parts.of_clients), True)
        (self.folder / "policy.json").write_text(json.dumps(dict(policy)))

    def public_key(self) -> str:
        """The key with which the share server recognises this silo (`ShareServer.admit`). Created on the first call."""
        return _shares.public_key_in(self.folder / "key", _shares.signing)

    def sum(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a message of the server, or a refusal.

        # Privacy
        A refusal states the reason if it follows from the server's messages and the silo's policy and account. Any
        other failure is answered with one fixed text. The readiness of the silo is determined without its records.
        """
        return _shares.reply(lambda: self._sum(said), f"silo {self.number}", _FAILED)

    def _sum(self, said: Mapping[str, Any]) -> dict[str, Any]:
        command, settings, n_silos = json.loads(said["settings"])
        names = [key.removeprefix("file ") for key in said if key.startswith("file ")]
        files = {name: (Path(said[f"file {name}"]).name, said[f"content {name}"]) for name in names}
        job = workers.Job(command, tuple((name, value) for name, value in settings), files, n_silos, silos=True)
        messages = list(said["messages"])
        hashes, is_sum = _hashes(messages), len(messages) > 1
        try:
            share_server = self._agree(said["run"], job, hashes)
        except DpError as refused:
            return {"refused": str(refused)}

        def exact() -> bytes:
            return workers.answer(job, self.number, self._users(command, is_empty=not is_sum), messages)

        if share_server is None:
            return {"body": exact()}
        named = {"share_server": share_server}
        if not is_sum:
            return named | {"body": exact()}
        share, sealed = self._in_shares(_question(said["run"], hashes, n_silos, share_server), exact)
        return named | {"body": _native.share_answer(messages[-1], (self.number, n_silos), share), "sealed": sealed}

    def _in_shares(self, question: _shares.Question, exact: Callable[[], bytes]) -> tuple[bytes, bytes]:
        """The silo's two shares, the second one sealed. If they are asked for again, they are the same ones.

        # Privacy
        New shares of records that have changed would reveal the change to the server, which knows the first share of both.
        """
        path, name = self.folder / "shares.bin", sha256(question.by(self.number)).digest()
        kept = path.read_bytes() if path.exists() else b""
        if not kept.startswith(name):
            share, rest = _native.split_answer(exact())
            sealed = _shares.seal(rest, self.folder / "key", question, self.number)
            kept = name + len(share).to_bytes(8, "little") + share + sealed
            _shares.replace(path, kept)
        kept = kept[len(name) :]
        n_bytes, both = int.from_bytes(kept[:8], "little"), kept[8:]
        return both[:n_bytes], both[n_bytes:]

    def _users(self, command: str, *, is_empty: bool) -> dict[str, Any]:
        """The silo's records as columns; or only the column names, which are sufficient for a readiness check."""
        with (self.folder / _RECORDS[command]).open(newline="") as file:
            reader = csv.reader(file)
            header = next(reader)
            rows = [] if is_empty else list(reader)
        columns = zip(*rows, strict=True) if rows else [()] * len(header)
        return {name: np.array(column, dtype=object) for name, column in zip(header, columns, strict=True)}

    def _agree(self, run: str, job: workers.Job, hashes: list[str]) -> str | None:
        """Agree to the run, and record the release list of this sum. A readiness check costs and records nothing.

        Returns the share server of the silo's policy.
        """
        policy = _Policy.of(json.loads((self.folder / "policy.json").read_text()))
        _check_settings(job, policy.columns, may_be_seeded=policy.may_be_seeded)
        path, of_clients, multipliers = self.folder / "account.json", json.dumps(policy.of_clients), job.noise_multipliers()
        name = _name(run, hashes)
        record = _native.Record.open(os.fspath(path), of_clients, False)  # no other process opens it until this returns
        has_joined = json.loads(path.read_text())["runs"].get(name, 0) > 0
        with tempfile.TemporaryDirectory(prefix="dp-personal-") as folder:  # check admission on a copy of the account
            copy = shutil.copy(path, folder)
            _native.Record.open(os.fspath(copy), of_clients, False).join(name, multipliers)
        given = self._given(name, hashes, has_joined=has_joined, in_shares=policy.share_server is not None)
        if len(hashes) > 1:
            _shares.replace(self.folder / "given.json", json.dumps(given).encode())
            record.join(name, multipliers)
        return policy.share_server

    def _given(self, run: str, hashes: list[str], *, has_joined: bool, in_shares: bool) -> dict[str, Any]:
        """The record of the sums given in a run, including this one."""
        path = self.folder / "given.json"
        given = json.loads(path.read_text()) if path.exists() else {}
        if given.get("run") != run:
            if has_joined:
                raise DpError("the silo joined this run before, and given.json, which says what it gave, is lost")
            given = {"run": run, "silo": self.number, "list": [], "last": {}}
        if given["silo"] != self.number:
            raise DpError("the silo takes part in this run under another number: its users would be counted twice")
        *before, last = hashes
        is_forked = any(old != new for old, new in zip(given["list"], before, strict=False))
        if is_forked or given["last"].setdefault(str(len(before)), last) != last:
            raise DpError("the silo has given a sum of this run for another list of releases")
        if in_shares and before and len(before) < max(map(int, given["last"])):
            raise DpError("the silo has given a later sum of this run, and keeps the shares of the last one only")
        given["list"] = max(given["list"], before, key=len)
        return given

    def personalize(self, *history: Any) -> Any:
        """A user's personal part of the silo's model, computed from local records; it does not leave the silo."""
        model: Any = load(self.folder / "model")
        return model.personalize(*history)


@dataclass(frozen=True)
class _Policy:
    """A policy, split into that of every client and what a silo adds."""

    of_clients: dict[str, Any]
    columns: dict[str, dict[str, str]]
    may_be_seeded: bool
    share_server: str | None

    @classmethod
    def of(cls, policy: Mapping[str, Any]) -> _Policy:
        rest = dict(policy)
        columns, may_be_seeded = rest.pop("columns", {}), rest.pop("insecure_seed", False) is True
        share_server = rest.pop("share_server", None)
        return cls(rest, columns, may_be_seeded, share_server)


def _check_settings(job: workers.Job, columns: Mapping[str, Mapping[str, str]], *, may_be_seeded: bool) -> None:
    """Refuse settings by which a server would choose the user column, a local file to read, or the noise."""
    if job.command not in _RECORDS:
        raise DpError(f"a silo has no records for {job.command!r}")
    kinds = [kind for kind in _MODELS if kind._command == job.command]
    files = {kind._settings.get(name, name) for kind in kinds for name in kind._public_tables}
    parameters = {kind._settings.get(name, name) for kind in kinds for name in kind._parameters().keys() - kind._not_settings}
    admitted = (parameters | {"task", "data_set", "no_ledger"}) - files - _NEED_DISK
    fixed = workers.stand_ins(job.command)
    for name, value in job.settings:
        if value != fixed[name] if name in fixed else name not in admitted:
            raise DpError(f"a silo takes no `{name}` from a server, or only as a file that is sent along")
        if name == "insecure_seed" and not may_be_seeded:
            raise DpError("the noise would be seeded, which the silo's policy does not admit")
    if unknown := job.files.keys() - files:
        raise DpError(f"a silo takes no files for {', '.join(sorted(unknown))}")
    own = columns.get(_RECORDS[job.command], {})
    for role, setting in _ROLES.items():
        named = [value for name, value in job.settings if name == setting]
        if named != ([own[role]] if role in own else []):
            raise DpError(f"the server names another column, or none, as `{role}` than the silo's policy does")
