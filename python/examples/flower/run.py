"""Start a SuperLink and four SuperNodes, train three models, and compare with one process.

One node starts late; another is killed in the middle of a run and comes back. The second and third model are trained with a
share server, on a fifth SuperNode, which starts late and is killed once.

python run.py         needs: pip install flwr
"""

from __future__ import annotations

import csv
import json
import os
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
from dp_personal.flower import ShareServer, Silo

N_SILOS, N_USERS, N_ITEMS, SEED = 4, 80, 12, 7
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
APP = Path(__file__).parent


def made(work: Path) -> dict[str, dict[str, np.ndarray]]:
    """Generate ratings of items and rows for linear models, and write them to the folders of the silos."""
    rng = np.random.default_rng(0)
    tastes, items = rng.normal(size=N_USERS), rng.normal(size=N_ITEMS)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.6)
    rating = np.clip(np.round(3 + 2 * tastes[user] * items[item]), 1, 5)
    ratings = [("user", "item", "rating"), *((f"u{u}", f"i{i}", f"{r:g}") for u, i, r in zip(user, item, rating, strict=True))]
    x = rng.uniform(-1, 1, size=(N_USERS * 8, 3))
    y = tastes.repeat(8) * x[:, 0]
    rows = [("user", "a", "b", "c", "y"), *((f"u{n // 8}", *map(repr, map(float, (*x[n], y[n])))) for n in range(len(x)))]
    (work / "catalogue.csv").write_text("item\n" + "".join(f"i{i}\n" for i in range(N_ITEMS)))
    for silo in range(N_SILOS):
        (work / f"silo{silo}").mkdir()
        Silo(silo, work / f"silo{silo}").agree(POLICY)
        for name, (header, *records) in (("ratings", ratings), ("rows", rows)):
            with (work / f"silo{silo}" / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([header, *(record for record in records if int(record[0][1:]) % N_SILOS == silo)])
    tables = {"recommender": ratings, "subspace": rows, "federated": rows}
    return {
        model: dict(zip(header, map(np.array, zip(*of, strict=True)), strict=True)) for model, (header, *of) in tables.items()
    }


class Federation:
    """A SuperLink and SuperNodes on this machine."""

    def __init__(self, work: Path) -> None:
        self.work, self.home, self.started = work, work / "flwr", []
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

    def node(self, silo: int | None) -> subprocess.Popen[bytes]:
        """Start the SuperNode of a silo, or of the share server."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        name = "share-server" if silo is None else f"silo{silo}"
        config = f'folder="{self.work / name}"' + ("" if silo is None else f" silo={silo}")
        to = ("--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(port), "--node-config", config)
        return self.start(name, "flower-supernode", *to)

    def run(self, model: str) -> None:
        """Submit the app."""
        config = f'model="{model}" catalogue="{self.work / "catalogue.csv"}" out="{self.work / model}" seed={SEED}'
        command = [str(Path(sys.executable).parent / "flwr"), "run", str(APP), "local", "-c", config]
        subprocess.run(command, env=self.env, cwd=self.work, check=True)

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


def same_as_one_process(work: Path, tables: dict[str, dict[str, np.ndarray]], own: np.ndarray) -> None:
    """Compare the models, and predictions for one user, with those of one process."""
    sys.path.insert(0, str(APP))
    from silos.server import MODELS

    for name, (make, _) in MODELS.items():
        alone = make(str(work / "catalogue.csv"), epsilon=4.0, ledger=dp.NO_LEDGER, insecure_seed=SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.PrivacyWarning)
            alone.fit(tables[name])
        fitted, parameters = dp.load(work / name), "_factors" if name == "recommender" else "_linear"
        same = np.array_equal(np.asarray(getattr(fitted, parameters)), np.asarray(getattr(alone, parameters)))
        assert same, f"{name}: not what one process makes"
        if name == "recommender":
            assert np.array_equal(own, alone.personalize({"i1": 5.0, "i2": 1.0}).predict(["i3"]))
        print(f"{name}: same bits as one process")


def main() -> None:
    """Train three times, the first time with failures, and check the results."""
    work = Path(tempfile.mkdtemp(prefix="flower-"))
    tables, federation = made(work), Federation(work)
    silos = [Silo(silo, work / f"silo{silo}") for silo in range(N_SILOS)]

    def wait_for_model(name: str) -> None:
        wait_for("the model", (work / name / "certificate.json").exists)
        print(f"{name}: {time.monotonic() - begun:.0f} s")

    def kill_after(n_releases: int, model: str, node: subprocess.Popen[bytes], name: str) -> None:
        progress = work / f"{model}.progress"
        wait_for("releases", lambda: progress.exists() and int(progress.read_text().split()[0]) >= n_releases)
        kill(node)
        print(f"{name} was killed after {progress.read_text().strip()} releases")

    try:
        federation.link()
        nodes, begun = [federation.node(silo) for silo in range(N_SILOS - 1)], time.monotonic()
        federation.run("recommender")
        time.sleep(10)
        nodes.append(federation.node(N_SILOS - 1))
        print("silo 3 started late")
        kill_after(2, "recommender", nodes[1], "silo 1")
        time.sleep(5)
        federation.node(1)
        wait_for_model("recommender")
        own = silos[1].personalize({"i1": 5.0, "i2": 1.0}).predict(["i3"])

        demand_shares(work, silos)
        begun = time.monotonic()
        federation.run("subspace")
        time.sleep(10)
        share_server = federation.node(None)
        print("the share server started late")
        wait_for_model("subspace")

        begun = time.monotonic()
        federation.run("federated")
        kill_after(1, "federated", share_server, "the share server")
        time.sleep(5)
        federation.node(None)
        wait_for_model("federated")
        assert all((silo.folder / "shares.bin").exists() for silo in silos)
    except BaseException:
        for log in sorted(work.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        federation.stop()

    same_as_one_process(work, tables, own)


if __name__ == "__main__":
    main()
