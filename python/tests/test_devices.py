"""Users on their own devices: what leaves a device, what it keeps, and what the server makes of it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_workers import DeviceFederation, Grid, replace_flower, without_flower  # noqa: F401

import dp_personal as dp
from dp_personal import devices
from dp_personal.errors import BadSetting, DpError

pytestmark = [pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning"), pytest.mark.usefixtures("without_flower")]
N_DEVICES, N_ROUNDS, COLUMNS = 5, 4, ["a", "b", "y"]
POLICY = {"least_noise_multiplier": 0.1, "largest_clip_norm": 1.0, "most_rounds": N_ROUNDS, "most_runs": 1}


def rows_of(device: int) -> list[tuple[float, float, float]]:
    """The rows of one user, who has a level of their own."""
    x = np.random.default_rng(device).uniform(-1, 1, size=(6, 2))
    return [(float(a), float(b), float(0.5 * a - b + 0.3 * device)) for a, b in x]


def device_in(folder: Path, number: int, rows: list[tuple[float, float, float]] | None = None, **policy: Any) -> devices.Device:
    folder.mkdir(parents=True)
    lines = (",".join(map(repr, row)) for row in (rows_of(number) if rows is None else rows))
    (folder / "rows.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    device = devices.Device(number, folder)
    device.agree(POLICY | {"insecure_seed": True} | policy)
    return device


def model(**more: Any) -> dp.PrivateFederatedRegressor:
    given: dict[str, Any] = {"ledger": dp.NO_LEDGER, "insecure_seed": 7, "target": "y", "user": "user"}
    ranges: dict[str, Any] = {"feature_range": (-1.0, 1.0), "target_range": (-3.0, 3.0)}
    rounds: dict[str, Any] = {"n_rounds": N_ROUNDS, "sampling_probability": 1.0, "n_users": 500, "no_split": True}
    return dp.PrivateFederatedRegressor(epsilon=8.0, alpha_grid=[0.5], **given | ranges | rounds | more)


class Federation(DeviceFederation):
    def __init__(self, folder: Path, **policy: Any) -> None:
        super().__init__(folder, range(N_DEVICES), device_in, devices.Device.round, **policy)

    def fit(self, fitted: dp.PrivateFederatedRegressor | None = None, **more: Any) -> dp.PrivateFederatedRegressor:
        return devices.fit(Grid(range(N_DEVICES), self.reply), fitted or model(), N_DEVICES, columns=COLUMNS, **more)

    def of(self, number: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return [(said, answer) for sender, said, answer in self.sent if sender == number]


Trained = tuple[Federation, dp.PrivateFederatedRegressor]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Devices after a run, and its model."""
    with pytest.MonkeyPatch.context() as patch:
        replace_flower(patch)
        federation = Federation(tmp_path_factory.mktemp("devices"))
        return federation, federation.fit()


@cache
def alone(numbers: range = range(N_DEVICES)) -> dp.PrivateFederatedRegressor:
    """The model of one process that has the rows of these users."""
    rows = [(f"u{number}", *row) for number in numbers for row in rows_of(number)]
    return model().fit(dict(zip(["user", *COLUMNS], map(np.array, zip(*rows, strict=True)), strict=True)))


def test_devices_make_the_model_of_one_process_bit_for_bit(trained: Trained) -> None:
    federation, fitted = trained
    assert fitted.shared_.any()
    assert np.array_equal(fitted.shared_, alone().shared_)
    fitted.verify()
    certificate = fitted.certificate_.to_json()
    for said in (
        "the server sees every update before noise",
        "a user is one device",
        "who took part in which round stays secret",
    ):
        assert said in certificate
    for number in range(N_DEVICES):
        own = federation.device(number).personalize()
        expected = fitted.personalize(federation.folder / str(number) / "rows.csv")
        assert np.array_equal(own.coef_, expected.coef_)
        assert np.isfinite(own.predict({"a": [0.5], "b": [0.1]})).all()


def test_personal_parameters_stay_on_the_device_through_restarts(trained: Trained) -> None:
    federation, _ = trained
    for number in range(N_DEVICES):
        own = federation.device(number).parameters()
        assert own.all()
        state = federation.folder / str(number) / "state.json"
        assert state.stat().st_mode & 0o077 == 0
        # one step after the other from 0, in each round from the parameters of the previous one
        x, y = np.hsplit(np.array(rows_of(number)), [2])
        theta, clip = np.zeros(len(own)), 1.0
        for said, answer in federation.of(number):
            message = json.loads(said["message"])["round"]
            gradient = gradient_of(np.array(message["shared"]) + theta, x, y[:, 0] / 3.0)
            update = json.loads(answer["body"])
            assert update.keys() == {"run", "round", "client", "integers"}
            integers = np.array(update["integers"], dtype=float)
            clipped = gradient * min(1.0, clip / np.linalg.norm(gradient))
            assert integers @ clipped == pytest.approx(np.linalg.norm(integers) * np.linalg.norm(clipped), rel=1e-4)
            theta -= message["local_rate"] * gradient
        assert theta == pytest.approx(own, rel=1e-4)
        sent = b"".join(bytes(answer["body"]) for _, answer in federation.of(number))
        assert not any(repr(float(value)).encode() in sent for value in [*own, *x.ravel(), *y.ravel()])


def gradient_of(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of half the mean squared error, with a constant feature if `w` has one."""
    x = np.hstack([x, np.ones((len(x), len(w) - x.shape[1]))])
    return np.asarray(x.T @ (x @ w - y) / len(x))


def test_a_round_that_is_asked_for_again_costs_nothing_and_sends_the_same(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    lost = [True, True]
    federation.fails = lambda number: number == 1 and bool(lost) and lost.pop()
    fitted = federation.fit()
    first = [answer for _, answer in federation.of(1)][:3]
    assert first[0] == first[1] == first[2]
    assert b"integers" in first[0]["body"]
    assert np.array_equal(fitted.shared_, alone().shared_)
    assert (tmp_path / "0" / "account.json").read_text() == (tmp_path / "1" / "account.json").read_text()

    said, answer = federation.of(1)[-1]
    account = (tmp_path / "1" / "account.json").read_bytes()
    (tmp_path / "1" / "rows.csv").write_text("a,b,y\n1,1,1\n")
    assert federation.device(1).round(said) == answer  # other rows: the change does not show
    assert (tmp_path / "1" / "account.json").read_bytes() == account
    earlier = federation.device(1).round(federation.of(1)[0][0])["body"]
    assert not earlier.strip()
    (tmp_path / "1" / "state.json").unlink()
    assert not federation.device(1).round(said)["body"].strip()  # the answer is lost, and there is no second one


def test_a_device_answers_what_its_policy_admits(trained: Trained, tmp_path: Path) -> None:
    federation, _ = trained
    said = federation.of(0)[0][0]

    def refused(name: str, **policy: Any) -> str:
        folder = tmp_path / name
        answer = device_in(folder, 0, **policy).round(said)
        assert not (folder / "state.json").exists()
        return str(answer["refused"])

    assert "noise multiplier" in refused("noise", least_noise_multiplier=50.0)
    assert "clip norm" in refused("clip", largest_clip_norm=0.01)
    assert "seeded" in refused("seed", insecure_seed=False)
    assert "round" in federation.device(0).round(edited(federation.of(0)[-1][0], round=N_ROUNDS + 1))["refused"]
    assert "other" in federation.device(0).round(edited(said, run="b"))["refused"]


def edited(said: dict[str, Any], **round_of: Any) -> dict[str, Any]:
    message = json.loads(said["message"])
    message["round"] |= round_of
    return said | {"message": json.dumps(message).encode()}


def test_what_leaves_a_device_does_not_tell_how_its_rows_failed(trained: Trained, tmp_path: Path) -> None:
    federation, _ = trained
    said = federation.of(0)[0][0]
    failed = {"refused": devices._FAILED}
    broken = device_in(tmp_path / "broken", 0)
    (broken.folder / "rows.csv").write_text("a,b,y\n1,secret,2\n")
    assert broken.round(said) == failed
    (broken.folder / "rows.csv").unlink()
    assert broken.round(said) == failed
    assert broken.round({}) == failed
    assert broken.round(said | {"message": b"{}"}) == failed

    # asked or not, with many rows or none: a reply of the same length
    many = device_in(tmp_path / "many", 0).round(said)["body"]
    none = device_in(tmp_path / "none", 0, rows=[]).round(said)["body"]
    not_asked = device_in(tmp_path / "not asked", 0).round(said | {"asked": False})["body"]
    assert len(many) == len(none) == len(not_asked)
    assert not not_asked.strip()
    assert not any(json.loads(none)["integers"])

    # a device whose own budget is spent refuses only where it is asked, which must not show
    lifetime = {"target": {"epsilon": 0.1, "delta": 1e-6}, "adjacency": "add-remove-user"}
    spent = device_in(tmp_path / "spent", 0, lifetime=lifetime)
    assert spent.round(said) == spent.round(said | {"asked": False}) == {"body": not_asked}


def test_a_round_ends_with_the_updates_that_arrived_in_time(tmp_path: Path) -> None:
    federation = Federation(tmp_path)

    class LateGrid(Grid):
        """Device 3 is never in time, and device 4 does not start."""

        def get_node_ids(self) -> list[int]:
            return super().get_node_ids()[:4]

        def pull_messages(self, ids: list[str]) -> list[Any]:
            late = {name for name, message in self.waiting.items() if message.to == 103 and message.what == "query.round"}
            return super().pull_messages([name for name in ids if name not in late])

    grid = LateGrid(range(N_DEVICES), federation.reply)
    with pytest.warns(dp.DpWarning, match=r"devices \[4\] may not have received it"):
        fitted = devices.fit(grid, model(), N_DEVICES, columns=COLUMNS, round_time=0.3)
    assert np.array_equal(fitted.shared_, alone(range(3)).shared_)
    assert [name for name, message in grid.waiting.items() if message.to == 103]


def test_hostile_replies_change_nothing_but_their_own_update(tmp_path: Path) -> None:
    federation = Federation(tmp_path)

    def reply(number: int, what: str, said: dict[str, Any]) -> dict[str, Any]:
        answer = federation.reply(number, what, said)
        if what == "query.round" and number > 2:
            other = json.loads(answer["body"]) | {"client": 0}
            too_large = json.loads(answer["body"]) | {"integers": [1 << 60] * 3}
            return [{}, {"body": json.dumps(other if number == 3 else too_large).encode()}, {"body": 5}][len(federation.sent) % 3]
        return answer

    fitted = devices.fit(Grid(range(N_DEVICES), reply), model(), N_DEVICES, columns=COLUMNS)
    assert np.array_equal(fitted.shared_, alone(range(3)).shared_)


def test_who_is_asked_is_drawn_for_each_round(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    fitted = federation.fit(model(sampling_probability=0.5, n_rounds=4))
    fitted.verify()
    asked = [said["asked"] for _, said, _ in federation.sent]
    assert len(asked) == 4 * N_DEVICES
    assert 0 < sum(asked) < len(asked)
    for _, said, answer in federation.sent:
        assert bool(answer["body"].strip()) == said["asked"]


def test_a_server_that_is_restarted_goes_on_from_its_releases(tmp_path: Path) -> None:
    ledger = dp.Ledger.create(tmp_path / "l.ledger", epsilon=16.0, delta=1e-5, kind="mixed")
    federation = Federation(tmp_path / "devices")

    def fit() -> dp.PrivateFederatedRegressor:
        return federation.fit(model(ledger=ledger, insecure_seed=None), same_data_set=True, resume=tmp_path / "run")

    def ends(number: int) -> bool:
        if len(federation.sent) == 2 * N_DEVICES + 1:
            raise KeyboardInterrupt
        return False

    federation.fails = ends
    with pytest.raises(KeyboardInterrupt):
        fit()
    federation.fails = lambda _: False
    with pytest.warns(dp.DpWarning, match="resuming the interrupted run"):
        fitted = fit()
    fitted.verify()
    rounds = [json.loads(said["message"])["round"]["round"] for said, _ in federation.of(1)]
    assert rounds[:2] == [1, 2]
    assert rounds[-1] == N_ROUNDS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sampling_probability": None}, "sampling_probability"),
        ({"n_users": None}, "n_users"),
        ({"alpha_grid": [0.5, 1.0]}, "alpha_grid"),
        ({"no_split": False}, "no_split"),
        ({"release_metrics": 0.1}, "release_metrics"),
    ],
)
def test_settings_that_need_more_than_updates_are_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    federation = Federation(tmp_path)
    with pytest.raises(DpError, match=said):
        federation.fit(model().set_params(**given))
    assert not federation.sent


def test_devices_train_linear_models_alone() -> None:
    recommender = dp.PrivateRecommender(epsilon=1.0, ledger=dp.NO_LEDGER, catalogue=["i"])
    with pytest.raises(BadSetting, match="PrivateFederatedRegressor"):
        devices.fit(None, recommender, 1, columns=[])  # type: ignore[type-var]
