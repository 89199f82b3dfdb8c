"""Training on users' own devices with Flower: each SuperNode is one user, who trusts the server with the device's messages.

`fit` trains models that are partly shared in rounds: a device holds the rows of its user, computes a clipped gradient in each
round in which it is asked, and keeps the user's personal parameters. `fit_items` learns item vectors from one message of each
device, with its user's vector and examples. The server (a ServerApp) holds ledger and noise: it sees single messages before it
adds them, and they are stored in the files of the SuperLink. `examples/flower` is an app with both sides. For simulations,
`grid` may be a list of devices in this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native, _shares, tables
from ._load import load
from ._numpy import Array, Floats, np
from .errors import BadSetting
from .flower import _deliver, _NodeFailed, _Nodes, _Participant
from .items import PrivateItemRegressor

if TYPE_CHECKING:
    from ._estimator import Estimator, Progress
    from .linear import PersonalLinear, _Federated

__all__ = ["Device", "PrivateItemRegressor", "fit", "fit_items"]

_E = TypeVar("_E", bound="_Federated")
_USER = "user"
"""The column of users in the server's empty table; devices have none."""
_FAILED = "the device failed; its own log says why"
"""The one answer to a failure, which may follow from the user's rows."""
_Driver = Callable[[list[tuple[str, str]], Any, Any], str]
_Answer = Callable[[tuple[str, str], bytes | None], tuple[str | None, bytes, bytes]]


def fit(
    grid: Any,
    model: _E,
    n_devices: int,
    *,
    columns: Sequence[str],
    round_time: float = 60.0,
    same_data_set: bool = False,
    progress: Progress = False,
    resume: str | os.PathLike[str] | None = None,
) -> _E:
    """Fit a `PrivateFederatedRegressor` or `...Classifier` on `n_devices` devices, and send them the released model.

    The model needs one ratio in `alpha_grid`, `sampling_probability` (1 asks every device in every round), `n_users`, which
    is public, and `no_split=True`. `columns` are the columns of the devices' rows. A round ends when all devices have
    replied, asked or not, or after `round_time` seconds: updates that arrive later are not used, and a device that does not
    reply counts as 0. The noise and the cost are the same. `same_data_set`, `progress` and `resume` are those of
    `workers.fit`.

    # Privacy
    Choose `round_time` before the run. Do not end a run because of who replied or how many did.
    """
    if model._command != "federate":
        raise BadSetting(f"devices train a PrivateFederatedRegressor or PrivateFederatedClassifier; got {type(model).__name__}")
    nodes = _nodes(grid, round_time)
    user = model.user or _USER
    empty = tables.of_columns({name: [] for name in (user, *columns)}, "rows")
    more = {"data": "rows", "user": user, "same_data_set": same_data_set}
    model._run(_driver(nodes, model, n_devices, "round"), empty, progress=progress, resume=resume, **more)
    _deliver(nodes, model, n_devices)
    return model


def fit_items(
    grid: Any,
    model: PrivateItemRegressor,
    n_devices: int,
    *,
    round_time: float = 60.0,
    run: str | None = None,
    same_data_set: bool = False,
    progress: Progress = False,
    resume: str | os.PathLike[str] | None = None,
) -> PrivateItemRegressor:
    """Learn item vectors from the vectors and examples of at most `n_devices` devices, and send them the released model.

    All devices are invited with one message, and answer once. The round is closed when all have replied or refused, or after
    `round_time` seconds. Messages that arrive later, or that break a rule, are not counted; the log names their devices. A
    device that does not answer counts as no user: noise and cost are the same. The ledger pays for both releases when the
    round is closed, before noise is drawn. `same_data_set`, `progress` and `resume` are those of `workers.fit`.

    A run whose release is listed is resumed without asking a device. Before that it is begun anew: if the server ended before
    it paid, devices repeat their messages at no cost to them where `run` is the same, which needs a ledger. Without `run`, or
    if the ledger has paid for anything since, they count it as another run.

    # Privacy
    The server is the aggregator of Krichene et al. 2024, Algorithm 8: it sees the vector and the examples of each device, and
    must be trusted with them. Choose `n_devices` and `round_time` before the run, not by who takes part.
    """
    nodes = _nodes(grid, round_time)
    empty = tables.of_columns({_USER: []}, "devices")
    more = {"data": "devices", "same_data_set": same_data_set, "run": run}
    model._run(_driver(nodes, model, n_devices, "examples"), empty, progress=progress, resume=resume, **more)
    _deliver(nodes, model, n_devices)
    return model


class _Here(_Nodes):
    """Devices in this process in place of a grid."""

    def __init__(self, devices: list[Device]) -> None:
        super().__init__(None, 0.0, "device")
        self._devices = {device.number: device for device in devices}

    def answers(self, what: str, said: dict[str, Any], asked: Iterable[int]) -> Iterator[tuple[int, Any]]:  # noqa: ARG002
        """Give each device the released model, which is the only message of this kind."""
        for number in sorted(asked):
            if number not in self._devices:
                raise _NodeFailed(f"device {number}", number, "is not in this process")
            self._devices[number].take(said)
            yield number, {}

    def answers_in_time(
        self, what: str, said: Callable[[int], dict[str, Any]], asked: Iterable[int]
    ) -> Iterator[tuple[int, Any]]:
        """The answers of the devices that are here."""
        for number in sorted(self._devices.keys() & set(asked)):
            yield number, getattr(self._devices[number], what)(said(number))


def _nodes(grid: Any, round_time: float) -> _Nodes:
    return _Here(grid) if isinstance(grid, list) else _Nodes(grid, round_time, "device")


def _driver(nodes: _Nodes, model: Estimator, n_devices: int, what: str) -> _Driver:
    """The run of a model's command in which devices answer messages of a kind."""
    is_seeded = model.insecure_seed is not None

    def rounds(message: bytes, asked: list[int]) -> list[tuple[int, bytes]]:
        are_asked = set(asked)

        def said(device: int) -> dict[str, Any]:
            return {"message": message, "asked": device in are_asked, "insecure_seed": is_seeded}

        replies = nodes.answers_in_time(what, said, range(n_devices))
        return [(device, body) for device, reply in replies if isinstance(body := reply.get("body"), bytes)]

    def drive(given: list[tuple[str, str]], table: Any, listener: Any) -> str:
        return _native.drive_devices(model._command, given, table, listener, n_devices, rounds)

    return drive


class Device(_Participant):
    """One user's device: a folder with the user's records, the device's policy, account and state, and the released model.

    `rows.csv` contains the rows for `fit`, without a user column. For `fit_items`, `vector.csv` contains the user's vector,
    numbers separated by commas, and `examples.csv` the columns `item` and `label`; the vector must come from the user's own
    data and from public or released values. `policy.json` states which rounds the device answers, and `account.json` which
    ones it answered. `state.json` contains the user's personal parameters and the last update, `sent.bin` the last message
    with examples: a device that is restarted continues with them, and sends the same again if the server asks for it again.
    """

    def agree(self, policy: Mapping[str, Any]) -> None:
        """Create the device's account, once.

        The policy has the fields of `ClientPolicy` of dp-mechanism, and `insecure_seed`, true if runs with seeded noise,
        which have no guarantee, are admitted for tests.
        """
        of_clients, _ = _policy(policy)
        _native.Record.open(self._path("account.json"), of_clients, True)
        (self.folder / "policy.json").write_text(json.dumps(dict(policy)))

    def round(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to the message of a round, or a refusal. The round is recorded before this returns.

        # Privacy
        The length of a reply does not depend on the rows or on whether the device was asked. A refusal states the reason if
        it follows from the message, the policy and the account. Any other failure is answered with one fixed text.
        """
        device = (self.number, self._path("rows.csv"))
        return self._reply(said, "state.json", lambda *of: _native.device_round((said["message"], said["asked"]), device, *of))

    def examples(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to an invitation, or a refusal. The run is recorded before this returns.

        # Privacy
        As for `round`. The length of a reply follows from the invitation: dimension, catalogue and maximum of examples. Of
        more examples, those are sent whose SHA-256 with the device's number is smallest.
        """
        device = (self.number, self._path("vector.csv"), self._path("examples.csv"))
        return self._reply(said, "sent.bin", lambda *of: _native.device_examples(said["message"], device, *of))

    def _path(self, name: str) -> str:
        return os.fspath(self.folder / name)

    def _reply(self, said: Mapping[str, Any], state: str, answer: _Answer) -> dict[str, Any]:
        """The answer to a message, from the account and a file with the device's state, which is replaced."""

        def work() -> dict[str, Any]:
            of_clients, may_be_seeded = _policy(json.loads((self.folder / "policy.json").read_text()))
            if said["insecure_seed"] and not may_be_seeded:
                return {"refused": "the noise would be seeded, which the device's policy does not admit"}
            path = self.folder / state
            kept = path.read_bytes() if path.exists() else None
            refused, body, new = answer((self._path("account.json"), of_clients), kept)
            if refused is not None:
                return {"refused": refused}
            _shares.replace(path, new)
            return {"body": body}

        return _shares.reply(work, f"device {self.number}", _FAILED)

    def parameters(self) -> Array:
        """The user's personal parameters after the last round. They do not leave the device."""
        return np.array(_native.device_parameters((self.folder / "state.json").read_bytes()))

    def personalize(self) -> PersonalLinear:
        """The user's personal model, computed from the released model and the user's rows; it does not leave the device."""
        model: Any = load(self.folder / "model")
        personal: PersonalLinear = model.personalize(self._path("rows.csv"))
        return personal

    def scores(self, items: Iterable[Any] | None = None) -> Floats:
        """Scores of items, all of the released model's if None, for the user's vector; they do not leave the device."""
        model: Any = load(self.folder / "model")
        vector = [float(x) for x in (self.folder / "vector.csv").read_text().split(",")]
        scores: Floats = model.predict(vector, items)
        return scores


def _policy(policy: Mapping[str, Any]) -> tuple[str, bool]:
    """A policy as that of every client, and whether seeded noise is admitted."""
    of_clients = dict(policy)
    may_be_seeded = of_clients.pop("insecure_seed", False) is True
    return json.dumps(of_clients), may_be_seeded
