"""Start a SuperLink and four SuperNodes, train five models, and compare with one process.

One node starts late; another is killed in the middle of a run and comes back. The second and third model are trained with a
share server, on a fifth SuperNode, which starts late and is killed once. The other two models are trained on users' own
devices: four SuperNodes, one late and one killed, and a fifth device that never replies.

python run.py         needs: pip install flwr; `python run.py devices` trains the last two models alone
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import dp_personal as dp
from dp_personal.devices import Device, fit_items
from dp_personal.flower import ShareServer, Silo

N_SILOS, N_DEVICES, N_USERS, N_ITEMS, SEED = 4, 4, 80, 12, 7
POLICY = {
    "least_noise_multiplier": 0.5,
    "largest_clip_norm": 1.0,
    "most_rounds": 1,
    "most_runs": 3,
    "columns": {
        "ratings.csv": {"user": "user", "item": "item", "rating": "rating"},
        "rows.csv": {"user": "user", "target": "y"},
    },
    "insecure_seed": True,  # for tests only: it admits runs without any guarantee
}
OF_DEVICES = {
    "least_noise_multiplier": 0.5,
    "largest_clip_norm": 1.0,
    "most_rounds": 2,
    "most_runs": 2,
    "insecure_seed": True,
}
APP = Path(__file__).parent


def made(work: Path) -> dict[str, dict[str, np.ndarray]]:
    """Generate ratings of items and rows for linear models, and write them to the folders of silos and devices."""
    rng = np.random.default_rng(0)
    tastes, items = rng.normal(size=N_USERS), rng.normal(size=N_ITEMS)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.6)
    rating = np.clip(np.round(3 + 2 * tastes[user] * items[item]), 1, 5)
    ratings = [("user", "item", "rating"), *((f"u{u}", f"i{i}", f"{r:g}") for u, i, r in zip(user, item, rating, strict=True))]
    x = rng.uniform(-1, 1, size=(N_USERS * 8, 3))
    y = tastes.repeat(8) * x[:, 0]
    rows = [("user", "a", "b", "c", "y"), *((f"u{n // 8}", *map(repr, map(float, (*x[n], y[n])))) for n in range(len(x)))]
    (work / "catalogue.csv").write_text("item,kind\n" + "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(N_ITEMS)))
    for silo in range(N_SILOS):
        (work / f"silo{silo}").mkdir()
        Silo(silo, work / f"silo{silo}").agree(POLICY)
        for name, (header, *records) in (("ratings", ratings), ("rows", rows)):
            with (work / f"silo{silo}" / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([header, *(record for record in records if int(record[0][1:]) % N_SILOS == silo)])
    of_devices = [rows[0]]
    for number in range(N_DEVICES):
        device = Device(number, work / f"device{number}")
        device.folder.mkdir()
        device.agree(OF_DEVICES)
        (device.folder / "vector.csv").write_text(f"{tastes[number]},1")
        labels = (f"i{i},{y}\n" for i, y in enumerate(rng.uniform(-1, 1, N_ITEMS - number)))
        (device.folder / "examples.csv").write_text("item,label\n" + "".join(labels))
        own = [record for record in rows if record[0] == f"u{number}"]
        of_devices += own
        with (device.folder / "rows.csv").open("w", newline="") as file:
            csv.writer(file).writerows(record[1:] for record in (rows[0], *own))
    tables = {"recommender": ratings, "subspace": rows, "federated": rows, "devices": of_devices}
    return {
        model: dict(zip(header, map(np.array, zip(*of, strict=True)), strict=True)) for model, (header, *of) in tables.items()
    }


class Federation:
    """A SuperLink and SuperNodes on this machine."""

    def __init__(self, work: Path) -> None:
        self.work, self.home, self.started, self.begun = work, work / "flwr", [], 0.0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.home.mkdir()
        address = f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (self.home / "config.toml").write_text(address)
        # apps run in separate processes, which find this interpreter first
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = {**os.environ, "FLWR_HOME": str(self.home), "PATH": path, "RAYON_NUM_THREADS": "1"}

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a program in a new session."""
        log = (self.work / f"{name}.log").open("ab")
        program = str(Path(sys.executable).parent / command[0])
        process = subprocess.Popen(
            [program, *command[1:]], stdout=log, stderr=log, env=self.env, cwd=self.work, start_new_session=True
        )
        self.started.append(process)
        return process

    def link(self) -> None:
        """Start the SuperLink and wait until it listens."""
        more = ("--insecure", "--disable-runtime-dependency-installation", "--port", str(self.port))
        self.start("superlink", "flower-superlink", *more)
        for _ in range(600):
            with socket.socket() as to:
                if to.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise TimeoutError("the SuperLink does not listen")

    def node(self, number: int | None, kind: str = "silo") -> subprocess.Popen[bytes]:
        """Start the SuperNode of a silo or device, or of the share server."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        name = "share-server" if number is None else f"{kind}{number}"
        config = f'folder="{self.work / name}"' + ("" if number is None else f" {kind}={number}")
        to = ("--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(port), "--node-config", config)
        return self.start(name, "flower-supernode", *to)

    def run(self, model: str) -> None:
        """Submit the app."""
        self.begun = time.monotonic()
        config = f'model="{model}" catalogue="{self.work / "catalogue.csv"}" out="{self.work / model}" seed={SEED}'
        command = [str(Path(sys.executable).parent / "flwr"), "run", str(APP), "local", "-c", config]
        subprocess.run(command, env=self.env, cwd=self.work, check=True)

    def kill_after(self, n_releases: int, model: str, node: subprocess.Popen[bytes], name: str) -> None:
        """Kill a node when the run has made some releases."""
        progress = self.work / f"{model}.progress"
        wait_for("releases", lambda: progress.exists() and int(progress.read_text().split()[0]) >= n_releases)
        kill(node)
        print(f"{name} was killed after {progress.read_text().strip()} releases")

    def wait_for_model(self, name: str) -> None:
        """Wait until the app has written its model."""
        wait_for("the model", (self.work / name / "certificate.json").exists)
        print(f"{name}: {time.monotonic() - self.begun:.0f} s")

    def stop(self) -> None:
        """Stop all programs that were started."""
        for process in self.started:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Stop a program with all processes that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def wait_for(what: str, is_there: object, seconds: float = 900.0) -> None:
    """Wait until a file exists, or a function returns true."""
    end = time.monotonic() + seconds
    while not is_there():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.5)


def demand_shares(work: Path, silos: list[Silo]) -> None:
    """Create a share server; from now on, all silos give their sums in shares only."""
    server = ShareServer(work / "share-server")
    server.folder.mkdir()
    for silo in silos:
        policy = POLICY | {"share_server": server.public_key()}
        (silo.folder / "policy.json").write_text(json.dumps(policy))
    server.admit([silo.public_key() for silo in silos])


def train_on_silos(federation: Federation) -> np.ndarray:
    """Train three models; returns the predictions of the first one for one user."""
    silos = [Silo(silo, federation.work / f"silo{silo}") for silo in range(N_SILOS)]
    nodes = [federation.node(silo) for silo in range(N_SILOS - 1)]
    federation.run("recommender")
    time.sleep(10)
    nodes.append(federation.node(N_SILOS - 1))
    print("silo 3 started late")
    federation.kill_after(2, "recommender", nodes[1], "silo 1")
    time.sleep(5)
    nodes.append(federation.node(1))
    federation.wait_for_model("recommender")
    own = silos[1].personalize({"i1": 5.0, "i2": 1.0}).predict(["i3"])

    demand_shares(federation.work, silos)
    federation.run("subspace")
    time.sleep(10)
    share_server = federation.node(None)
    print("the share server started late")
    federation.wait_for_model("subspace")

    federation.run("federated")
    federation.kill_after(1, "federated", share_server, "the share server")
    time.sleep(5)
    nodes.append(federation.node(None))
    federation.wait_for_model("federated")
    assert all((silo.folder / "shares.bin").exists() for silo in silos)
    for node in nodes:
        kill(node)
    return own


def train_on_devices(federation: Federation) -> list[subprocess.Popen[bytes]]:
    """Train a model on devices, one of which is killed after a round and continues with its personal parameters."""
    nodes = [federation.node(number, "device") for number in range(N_DEVICES - 1)]
    federation.run("devices")
    time.sleep(10)
    nodes.append(federation.node(N_DEVICES - 1, "device"))
    print("device 3 started late; device 4 never replies")
    federation.kill_after(1, "devices", nodes[1], "device 1")
    before = Device(1, federation.work / "device1").parameters()
    nodes[1] = federation.node(1, "device")
    federation.wait_for_model("devices")
    device = Device(1, federation.work / "device1")
    assert before.any()
    assert not np.array_equal(device.parameters(), before)
    wait_for("the model on the device", (device.folder / "model").exists)
    prediction = device.personalize().predict({"a": [0.5], "b": [0.0], "c": [0.0]})
    assert np.isfinite(prediction).all()
    return nodes


def learn_items_from_devices(federation: Federation, nodes: list[subprocess.Popen[bytes]]) -> None:
    """Learn item vectors from devices, one of which is late and one of which is killed when it has answered."""
    kill(nodes[3])
    federation.run("items")
    sent = federation.work / "device1" / "sent.bin"
    wait_for("the message of device 1", sent.exists)
    federation.node(3, "device")
    print("device 3 started late")
    time.sleep(10)  # Flower waits for a node that is killed while it sends
    kill(nodes[1])
    before = sent.read_bytes()
    print("device 1 was killed when it had answered")
    federation.node(1, "device")
    federation.wait_for_model("items")
    assert sent.read_bytes() == before
    device = Device(3, federation.work / "device3")
    wait_for("the item vectors on the device", (device.folder / "model" / "item_vectors.safetensors").exists)
    assert device.scores().shape == (N_ITEMS,)


def same_items_as_one_process(work: Path) -> None:
    """Compare item vectors with those from the same devices in this process, whose accounts have not answered before."""
    sys.path.insert(0, str(APP))
    from silos.server import items

    again = [Device(number, work / f"again{number}") for number in range(N_DEVICES)]
    for device in again:
        device.folder.mkdir()
        device.agree(OF_DEVICES)
        for name in ("vector.csv", "examples.csv"):
            shutil.copy(work / f"device{device.number}" / name, device.folder)
    alone = items(str(work / "catalogue.csv"), epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.DpWarning)
        warnings.simplefilter("ignore", dp.PrivacyWarning)
        fit_items(again, alone, N_DEVICES + 1)
    fitted = dp.load(work / "items")
    fitted.verify()
    assert np.array_equal(fitted.item_vectors_, alone.item_vectors_), "items: not what one process makes"
    print("items: same bits as one process")


def same_as_one_process(work: Path, tables: dict[str, dict[str, np.ndarray]], own: np.ndarray | None) -> None:
    """Compare the models of these tables, and predictions for one user, with those of one process."""
    sys.path.insert(0, str(APP))
    from silos.server import MODELS

    for name, table in tables.items():
        make, _ = MODELS[name]
        alone = make(str(work / "catalogue.csv"), epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.PrivacyWarning)
            alone.fit(table)
        fitted, parameters = dp.load(work / name), "_factors" if name == "recommender" else "_linear"
        same = np.array_equal(np.asarray(getattr(fitted, parameters)), np.asarray(getattr(alone, parameters)))
        assert same, f"{name}: not what one process makes"
        if own is not None and name == "recommender":
            assert np.array_equal(own, alone.personalize({"i1": 5.0, "i2": 1.0}).predict(["i3"]))
        print(f"{name}: same bits as one process")


def main(what: list[str]) -> None:
    """Train five times, with failures, and check the results; or only the models on devices, if `what` says so."""
    work = Path(tempfile.mkdtemp(prefix="flower-"))
    tables, federation, own = made(work), Federation(work), None
    try:
        federation.link()
        if what == ["devices"]:
            tables = {"devices": tables["devices"]}
        else:
            own = train_on_silos(federation)
        learn_items_from_devices(federation, train_on_devices(federation))
    except BaseException:
        for log in sorted(work.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        federation.stop()

    same_as_one_process(work, tables, own)
    same_items_as_one_process(work)


if __name__ == "__main__":
    main(sys.argv[1:])
