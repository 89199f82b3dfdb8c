"""Item vectors from users on devices: what leaves a device, what it repeats, and what the server makes of it."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_workers import DeviceFederation, Grid, replace_flower, without_flower  # noqa: F401

import dp_personal as dp
from dp_personal import devices
from dp_personal.errors import CertificateError, DpError

pytestmark = [pytest.mark.filterwarnings("ignore::dp_personal.PrivacyWarning"), pytest.mark.usefixtures("without_flower")]
N_DEVICES, ITEMS, DIM = 6, [f"i{item}" for item in range(5)], 2
POLICY = {"least_noise_multiplier": 0.01, "largest_clip_norm": 2.0, "most_rounds": 1, "most_runs": 1, "insecure_seed": True}


def vector_of(number: int) -> list[float]:
    """A user's vector; that of the last user is longer than the bound."""
    return [float(x) for x in np.random.default_rng(number).uniform(-0.5, 0.5, DIM) * (9 if number == N_DEVICES - 1 else 1)]


def examples_of(number: int) -> dict[str, float]:
    rng = np.random.default_rng([number, 1])
    return {item: float(rng.uniform(-1, 1)) for item in ITEMS if rng.random() < 0.7}


def device_in(folder: Path, number: int, examples: dict[str, float] | None = None, **policy: Any) -> devices.Device:
    folder.mkdir(parents=True)
    lines = (f"{item},{label!r}\n" for item, label in (examples_of(number) if examples is None else examples).items())
    (folder / "examples.csv").write_text("item,label\n" + "".join(lines))
    (folder / "vector.csv").write_text(",".join(map(repr, vector_of(number))) + "\n")
    device = devices.Device(number, folder)
    device.agree(POLICY | policy)
    return device


def model(**more: Any) -> devices.PrivateItemRegressor:
    catalogue = {"item": ITEMS, "kind": ["a", "a", "b", "b", "a"]}
    given: dict[str, Any] = {
        "ledger": dp.NO_LEDGER,
        "insecure_seed": 7,
        "catalogue": catalogue,
        "max_examples": 4,
        "epsilon": 20.0,
    }
    return devices.PrivateItemRegressor(dim=DIM, label_bound=0.5, **given | more)


class Federation(DeviceFederation):
    def __init__(self, folder: Path, numbers: range = range(N_DEVICES), **policy: Any) -> None:
        super().__init__(folder, numbers, device_in, devices.Device.examples, **policy)

    def fit(self, fitted: Any = None, reply: Any = None, **more: Any) -> devices.PrivateItemRegressor:
        grid = Grid(self.numbers, reply or self.reply)
        return devices.fit_items(grid, fitted or model(), N_DEVICES, **{"round_time": 0.5} | more)

    def account(self, number: int) -> Any:
        return json.loads((self.folder / str(number) / "account.json").read_text())


Trained = tuple[Federation, devices.PrivateItemRegressor]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Devices after a run, and its model."""
    with pytest.MonkeyPatch.context() as patch:
        replace_flower(patch)
        federation = Federation(tmp_path_factory.mktemp("devices"))
        return federation, federation.fit()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> devices.PrivateItemRegressor:
    """The model of a run in which only the first three devices are there."""
    with pytest.MonkeyPatch.context() as patch:
        replace_flower(patch)
        federation = Federation(tmp_path_factory.mktemp("few"), range(3))
        with pytest.warns(dp.DpWarning, match=r"devices \[3, 4, 5\] may not have received it"):
            return federation.fit()


def test_devices_in_this_process_make_the_same_model(few: devices.PrivateItemRegressor, tmp_path: Path) -> None:
    here = Federation(tmp_path, range(3))
    with pytest.warns(dp.DpWarning, match="may not have received it"):
        fitted = devices.fit_items([here.device(number) for number in range(3)], model(), N_DEVICES)
    assert np.array_equal(fitted.item_vectors_, few.item_vectors_)
    assert here.device(0).scores().shape == (len(ITEMS),)


def test_the_released_statistics_are_sums_over_devices_with_noise(
    trained: Trained, few: devices.PrivateItemRegressor, tmp_path: Path
) -> None:
    federation, fitted = trained
    A, b = np.zeros((len(ITEMS), DIM, DIM)), np.zeros((len(ITEMS), DIM))
    for number, _, answer in federation.sent:
        u = np.array(vector_of(number))
        u /= max(1.0, float(np.linalg.norm(u)))
        kept = json.loads(answer["body"])["items"]
        assert len(kept) == min(4, len(examples_of(number)))
        for item in kept if number > 2 else []:
            w, y = len(kept) ** -0.5, np.clip(examples_of(number)[ITEMS[item]], -0.5, 0.5)
            A[item] += w * np.outer(u, u)
            b[item] += w * y * u
    # the seeded noise is the same in both runs
    assert fitted.matrices_ - few.matrices_ == pytest.approx(A, abs=1e-4)
    assert fitted.right_hand_sides_ - few.right_hand_sides_ == pytest.approx(b, abs=1e-4)
    assert np.abs(b).max() > 0.1
    plan = fitted.plan().releases
    assert [release["noise_multiplier"] for release in plan] == pytest.approx(
        [fitted.noise_stddevs_[0], 2 * fitted.noise_stddevs_[1]]
    )

    assert fitted.standard_errors_.shape == fitted.item_vectors_.shape
    assert (fitted.standard_errors_ > 0).all()

    certificate = fitted.certificate_.to_json()
    for said in ("aggregator sees every client", "a user is one device", "closed at a time fixed in advance", "columns kind"):
        assert said in certificate
    fitted.save(tmp_path / "saved")
    again: Any = dp.load(tmp_path / "saved")
    again.verify()
    assert again.items_ == ITEMS
    assert np.array_equal(again.item_vectors_, fitted.item_vectors_)
    assert "SSP-c" in fitted.report().html
    for name in ("item_vectors.safetensors", "items.csv"):
        again._files[name] += b" "
        for check in (again.verify, again.report):
            with pytest.raises(CertificateError):
                check()
        again._files[name] = fitted._files[name]


def test_a_device_scores_items_with_its_own_vector(trained: Trained) -> None:
    federation, fitted = trained
    for number in range(N_DEVICES):
        u = np.array(vector_of(number))
        scores = fitted.item_vectors_ @ (u / max(1.0, float(np.linalg.norm(u))))
        assert federation.device(number).scores() == pytest.approx(scores)
        assert federation.device(number).scores(["i3"]) == pytest.approx(scores[3:4])
    assert np.isnan(fitted.predict([0.0, 0.0], ["unknown"])).all()


def test_an_invitation_that_is_repeated_costs_nothing_and_is_answered_with_the_same(trained: Trained, tmp_path: Path) -> None:
    federation, lost = Federation(tmp_path), [True, True]
    federation.fails = lambda number: number == 1 and bool(lost) and lost.pop()
    fitted = federation.fit()
    first = [answer for number, _, answer in federation.sent if number == 1]
    assert first[0] == first[1] == first[2]
    assert np.array_equal(fitted.item_vectors_, trained[1].item_vectors_)
    assert federation.account(0)["spent"] == federation.account(1)["spent"]

    said, device = federation.sent[0][1], federation.device(1)
    sent = device.folder / "sent.bin"
    assert sent.stat().st_mode & 0o077 == 0
    (device.folder / "examples.csv").write_text("item,label\ni0,0.1\n")
    assert device.examples(said) == first[0]  # other records: the change does not show
    sent.unlink()
    assert "before" in device.examples(said)["refused"]  # the answer is lost, and there is no second one


def test_a_device_answers_what_its_policy_admits(trained: Trained, tmp_path: Path) -> None:
    federation, _ = trained
    said = federation.sent[0][1]

    def refused(name: str, *, said: dict[str, Any] = said, **policy: Any) -> str:
        device = device_in(tmp_path / name, 0, **policy)
        (device.folder / "examples.csv").write_text("broken")  # which must not decide the answer
        answer = device.examples(said)
        assert not (device.folder / "sent.bin").exists()
        assert not json.loads((device.folder / "account.json").read_text())["spent"]
        return str(answer["refused"])

    assert "noise multiplier" in refused("noise", least_noise_multiplier=50.0)
    assert "clip norm" in refused("clip", largest_clip_norm=0.9)
    assert "seeded" in refused("seed", insecure_seed=False)
    assert "no part in this run" in refused("run", allowed_runs=["another"])
    other = json.loads(said["message"])
    other["invitation"]["run"] = "another"
    assert "other" in federation.device(0).examples(said | {"message": json.dumps(other).encode()})["refused"]
    lifetime = {"target": {"epsilon": 0.1, "delta": 1e-6}, "adjacency": "add-remove-user"}
    assert "budget" in device_in(tmp_path / "spent", 0, lifetime=lifetime).examples(said)["refused"]


def test_what_leaves_a_device_does_not_tell_how_its_records_are(trained: Trained, tmp_path: Path) -> None:
    said = trained[0].sent[0][1]
    assert len({len(answer["body"]) for _, _, answer in trained[0].sent}) == 1
    failed = {"refused": devices._FAILED}
    broken = device_in(tmp_path / "broken", 0)
    for file, content in [("vector.csv", "1"), ("vector.csv", "secret,1"), ("examples.csv", "item,label\ni0,secret\n")]:
        (broken.folder / file).write_text(content)
        assert broken.examples(said) == failed
    (broken.folder / "examples.csv").unlink()
    assert broken.examples(said) == failed
    assert broken.examples({}) == failed
    assert broken.examples(said | {"message": b"{}"}) == failed

    many = device_in(tmp_path / "many", 0, dict.fromkeys(ITEMS, 0.123456789)).examples(said)["body"]
    none = device_in(tmp_path / "none", 0, {}).examples(said)["body"]
    unknown = device_in(tmp_path / "unknown", 0, {"of no catalogue": 1.0}).examples(said)["body"]
    assert len(many) == len(none) == len(unknown)
    assert json.loads(none)["items"] == json.loads(unknown)["items"] == []


def test_the_round_is_closed_with_the_messages_that_count(
    tmp_path: Path, few: devices.PrivateItemRegressor, caplog: pytest.LogCaptureFixture
) -> None:
    """Device 3 is late, device 4 sends what breaks a rule, device 5 refuses."""
    federation = Federation(tmp_path / "all")
    federation.device(5).folder.joinpath("policy.json").write_text(json.dumps(POLICY | {"largest_clip_norm": 0.1}))

    class LateGrid(Grid):
        def pull_messages(self, ids: list[str]) -> list[Any]:
            late = {name for name, message in self.waiting.items() if message.to == 103 and message.what == "query.examples"}
            return super().pull_messages([name for name in ids if name not in late])

    for edit in ({"client": 5}, {"vector": [1 << 20] * DIM}, {"items": [0, 0], "labels": [0, 0]}, None):

        def reply(number: int, what: str, said: dict[str, Any], edit: Any = edit) -> dict[str, Any]:
            answer = federation.reply(number, what, said)
            if what == "query.examples" and number == 4:
                return {"body": json.dumps(json.loads(answer["body"]) | edit).encode() if edit else b"{"}
            return answer

        for number in federation.numbers:
            (tmp_path / "all" / str(number) / "account.json").unlink()
            federation.device(number).agree(json.loads((tmp_path / "all" / str(number) / "policy.json").read_text()))
        caplog.clear()
        grid = LateGrid(range(N_DEVICES), reply)
        with caplog.at_level(logging.INFO, "dp_personal"):
            fitted = devices.fit_items(grid, model(), N_DEVICES, round_time=0.3)
        assert np.array_equal(fitted.item_vectors_, few.item_vectors_)
        [rejected] = [message for message in caplog.messages if "not counted" in message]
        assert "4" in rejected
        assert "clip norm" in caplog.text


def test_a_pull_that_waits_for_one_device_loses_no_other(trained: Trained, tmp_path: Path) -> None:
    federation = Federation(tmp_path)

    class StalledGrid(Grid):
        """Like Flower, which waits for the rest of a reply of a node that died while it sent."""

        is_stalled = False

        def pull_messages(self, ids: list[str]) -> list[Any]:
            examples = [name for name in ids if name in self.waiting and self.waiting[name].what == "query.examples"]
            if not examples or self.is_stalled:
                return super().pull_messages(ids)
            self.is_stalled = True
            time.sleep(0.5)
            return super().pull_messages(examples[:1])

    fitted = devices.fit_items(StalledGrid(range(N_DEVICES), federation.reply), model(), N_DEVICES, round_time=0.4)
    assert np.array_equal(fitted.item_vectors_, trained[1].item_vectors_)


def test_a_server_that_is_restarted_pays_once_and_devices_do_too(tmp_path: Path) -> None:
    ledger = dp.Ledger.create(tmp_path / "l.ledger", epsilon=20.0, delta=2e-5)
    federation = Federation(tmp_path / "devices", most_runs=3)
    with pytest.raises(DpError, match="same_data_set"):
        federation.fit(model(ledger=ledger, insecure_seed=None))
    # with a ledger that has paid for nothing yet, names are random
    federation.fit(model(ledger=ledger, insecure_seed=None, epsilon=4.0), same_data_set=True, run="a")
    federation.sent.clear()

    def fit(**more: Any) -> devices.PrivateItemRegressor:
        return federation.fit(
            model(ledger=ledger, insecure_seed=None, epsilon=4.0), same_data_set=True, resume=tmp_path / "run", **more
        )

    def ends(number: int) -> bool:
        if len(federation.sent) == 3:
            raise KeyboardInterrupt
        return False

    federation.fails = ends
    with pytest.raises(KeyboardInterrupt):
        fit(run="a")
    assert ledger.as_dict()["n_releases"] == 2
    federation.fails = lambda _: False

    def stops(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(run="a", progress=stops)
    assert federation.sent[0][2] == federation.sent[3][2]
    assert ledger.as_dict()["n_releases"] == 4
    n_sent = len(federation.sent)
    with pytest.warns(dp.DpWarning, match="resuming the interrupted run"):
        fitted = fit()
    fitted.verify()
    assert len(federation.sent) == n_sent
    assert ledger.as_dict()["n_releases"] == 4
    assert all(len(federation.account(number)["runs"]) == 2 for number in range(N_DEVICES))
    assert "compared with it" in fitted.certificate_.to_json()

    # the name is not used for a second release
    federation.fit(model(ledger=ledger, insecure_seed=None, epsilon=4.0), same_data_set=True, run="a")
    assert all(len(federation.account(number)["runs"]) == 3 for number in range(N_DEVICES))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_examples": None}, "max_examples"),
        ({"dim": 0}, "dim"),
        ({"label_bound": None}, "label_bound"),
        ({"own_share": 1.0}, "own_share"),
    ],
)
def test_settings_are_checked_before_a_device_is_asked(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    federation = Federation(tmp_path)
    with pytest.raises(DpError, match=said):
        federation.fit(model().set_params(**given))
    assert not federation.sent
