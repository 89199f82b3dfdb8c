"""Training on users' own devices with Flower: each SuperNode is one user, who trusts the server with a clipped update.

A device holds the rows of its user, computes a clipped gradient in each round in which it is asked, and keeps the user's
personal parameters. The server (`fit`, in a ServerApp) holds ledger and noise: it sees single updates before it adds them,
and they are stored in the files of the SuperLink. `examples/flower` is an app with both sides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native, _shares, tables
from ._load import load
from ._numpy import Array, np
from .errors import BadSetting
from .flower import _deliver, _Nodes, _Participant

if TYPE_CHECKING:
    from ._estimator import Progress
    from .linear import PersonalLinear, _Federated

__all__ = ["Device", "fit"]

_E = TypeVar("_E", bound="_Federated")
_USER = "user"
"""The column of users in the server's empty table; devices have none."""
_FAILED = "the device failed; its own log says why"
"""The one answer to a failure, which may follow from the user's rows."""


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
    nodes = _Nodes(grid, round_time, "device")
    is_seeded = model.insecure_seed is not None

    def rounds(message: bytes, asked: list[int]) -> list[tuple[int, bytes]]:
        are_asked = set(asked)

        def said(device: int) -> dict[str, Any]:
            return {"message": message, "asked": device in are_asked, "insecure_seed": is_seeded}

        replies = nodes.answers_in_time("round", said, range(n_devices))
        return [(device, body) for device, reply in replies if isinstance(body := reply.get("body"), bytes)]

    def drive(given: list[tuple[str, str]], table: Any, listener: Any) -> str:
        return _native.drive_devices(given, table, listener, n_devices, rounds)

    user = model.user or _USER
    empty = tables.of_columns({name: [] for name in (user, *columns)}, "rows")
    more = {"data": "rows", "user": user, "same_data_set": same_data_set}
    model._run(drive, empty, progress=progress, resume=resume, **more)
    _deliver(nodes, model, n_devices)
    return model


class Device(_Participant):
    """One user's device: a folder with the user's rows, the device's policy, account and state, and the released model.

    `rows.csv` contains the rows, without a user column. `policy.json` states which rounds the device answers, and
    `account.json` which ones it answered. `state.json` contains the user's personal parameters and the last update: a
    device that is restarted continues with them, and sends the same update again if the server asks for it again.
    """

    def agree(self, policy: Mapping[str, Any]) -> None:
        """Create the device's account, once.

        The policy has the fields of `ClientPolicy` of dp-mechanism, and `insecure_seed`, true if runs with seeded noise,
        which have no guarantee, are admitted for tests.
        """
        of_clients, _ = _policy(policy)
        _native.Record.open(os.fspath(self.folder / "account.json"), of_clients, True)
        (self.folder / "policy.json").write_text(json.dumps(dict(policy)))

    def round(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to the message of a round, or a refusal. The round is recorded before this returns.

        # Privacy
        The length of a reply does not depend on the rows or on whether the device was asked. A refusal states the reason if
        it follows from the message, the policy and the account. Any other failure is answered with one fixed text.
        """
        return _shares.reply(lambda: self._round(said), f"device {self.number}", _FAILED)

    def _round(self, said: Mapping[str, Any]) -> dict[str, Any]:
        of_clients, may_be_seeded = _policy(json.loads((self.folder / "policy.json").read_text()))
        if said["insecure_seed"] and not may_be_seeded:
            return {"refused": "the noise would be seeded, which the device's policy does not admit"}
        path = self.folder / "state.json"
        refused, body, state = _native.device_round(
            (said["message"], said["asked"]),
            (self.number, os.fspath(self.folder / "rows.csv")),
            (os.fspath(self.folder / "account.json"), of_clients),
            path.read_bytes() if path.exists() else None,
        )
        if refused is not None:
            return {"refused": refused}
        _shares.replace(path, state)
        return {"body": body}

    def parameters(self) -> Array:
        """The user's personal parameters after the last round. They do not leave the device."""
        return np.array(_native.device_parameters((self.folder / "state.json").read_bytes()))

    def personalize(self) -> PersonalLinear:
        """The user's personal model, computed from the released model and the user's rows; it does not leave the device."""
        model: Any = load(self.folder / "model")
        personal: PersonalLinear = model.personalize(os.fspath(self.folder / "rows.csv"))
        return personal


def _policy(policy: Mapping[str, Any]) -> tuple[str, bool]:
    """A policy as that of every client, and whether seeded noise is admitted."""
    of_clients = dict(policy)
    may_be_seeded = of_clients.pop("insecure_seed", False) is True
    return json.dumps(of_clients), may_be_seeded
