"""Ten million ratings: from an Arrow table to a model, compared with `dp train` on the same ratings in a cached file.

    DP_BINARY=target/dist/dp python python/benches/arrow.py [--pairs N] [--ratings N]

The two alternate, each in a separate process; the times of Python are those of `fit`, without creating the table.
Results are medians, of wall-clock time and of processor time of all threads, and the peak of resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import dp_personal as dp

FLAGS = ["--no-ledger", "--epsilon=1", "--delta=1e-6", "--item-ids-are-public", "--no-split", "--dim=8", "--steps=3"]
Figures = dict[str, float]


def made_up(n_ratings: int) -> pa.Table:
    """Generate ratings of 69,878 users and 10,677 items, the shape of MovieLens-10M."""
    rng = np.random.default_rng(1)
    item = (10_677 * rng.random(n_ratings) ** 3).astype(np.int64)
    stars = rng.integers(1, 11, n_ratings) / 2
    return pa.table({"user": rng.integers(0, 69_878, n_ratings), "item": item, "rating": stars})


def measured(action: Callable[[], object], who: int) -> Figures:
    """Seconds of wall-clock and of processor time, and the peak memory in GB."""
    before, began = resource.getrusage(who), time.perf_counter()
    action()
    wall, after = time.perf_counter() - began, resource.getrusage(who)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "processor": spent, "memory": after.ru_maxrss / 2**20}


def in_python(parquet: str) -> None:
    """Create the table, then measure the fit; runs in a separate process."""
    table = pa.parquet.read_table(parquet)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    model = dp.PrivateRecommender(
        epsilon=1.0, delta=1e-6, ledger=dp.NO_LEDGER, item_ids_are_public=True, no_split=True, dim=8, n_rounds=3
    )
    print(json.dumps({**measured(lambda: model.fit(table), resource.RUSAGE_SELF), "before": held}))


def run(command: list[str]) -> str:
    """The output of a process."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Run pairs of measurements, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--ratings", type=int, default=10_000_000)
    parser.add_argument("--in-python", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_python:
        return in_python(given.in_python)
    binary = os.environ["DP_BINARY"]
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: str(Path(folder) / f"ratings.{kind}") for kind in ("csv", "parquet")}
        table = made_up(given.ratings)
        pa.csv.write_csv(table, files["csv"])
        pa.parquet.write_table(table, files["parquet"])
        del table
        found: dict[str, list[Figures]] = {"Arrow": [], "csv": [], "parquet": []}
        for at in range(given.pairs):
            out = run([sys.executable, __file__, "--in-python", files["parquet"]])
            found["Arrow"].append(json.loads(out))
            for kind, file in files.items():
                command = [binary, "train", file, "--out", str(Path(folder) / f"{kind}-{at}"), *FLAGS]
                found[kind].append(measured(lambda command=command: run(command), resource.RUSAGE_CHILDREN))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, medians of {given.pairs}")
    median = {
        name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]} for name, runs in found.items()
    }
    for name, figures in median.items():
        text = "  ".join(f"{figure} {value:.2f}" for figure, value in figures.items() if name == "Arrow" or figure != "memory")
        print(f"{name:<8} {text}")
    for kind in ("csv", "parquet"):
        pairs = list(zip(found["Arrow"], found[kind], strict=True))
        for figure in ("wall", "processor"):
            ratios = sorted(arrow[figure] / of[figure] for arrow, of in pairs)
            print(f"Arrow over {kind}, {figure}: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    return None


if __name__ == "__main__":
    main()
