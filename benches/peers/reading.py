"""Times our reading of ratings and pandas' `read_csv`, alternately, each read in a process of its own.

Called by reading.sh. Seconds are those of the read alone, by each side's own clock. `read_csv` uses one thread; ours
also numbers users and items, groups the records by user, and sorts and merges them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from clocks import deciding, threads
from record import record

PEER = """
import json, sys
from clocks import timed
import pandas as pd
table, seconds = timed(lambda: pd.read_csv(sys.argv[1]))
print(json.dumps(seconds | {"records": len(table), "version": pd.__version__}))
"""

parser = argparse.ArgumentParser()
parser.add_argument("--ours", required=True)
parser.add_argument("--generator", required=True)
parser.add_argument("--millions", type=int, default=10)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=3)
args = parser.parse_args()
here = os.path.dirname(os.path.abspath(__file__))
environment = os.environ | {"PYTHONPATH": here, "RAYON_NUM_THREADS": str(args.threads)}


def measured(*command):
    run = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    return json.loads(run.stdout)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "ratings.csv")
    sizes = map(str, (6_988 * args.millions, 10_677, args.millions * 1_000_000))
    with open(path, "wb") as file:
        subprocess.run([args.generator, *sizes], check=True, stdout=file)
    runs = [(measured(args.ours, path), measured(sys.executable, "-c", PEER, path)) for _ in range(args.runs)]
version = runs[0][1]["version"]
medians = [{clock: statistics.median(run[side][clock] for run in runs) for clock in ("processor", "elapsed")} for side in (0, 1)]
for clock, name in [("processor", "processor"), ("elapsed", "wall-clock")]:
    own, other = (side[clock] for side in medians)
    spread = [f"{min(run[side][clock] for run in runs):.2f} to {max(run[side][clock] for run in runs):.2f}" for side in (0, 1)]
    print(
        f"{args.millions} million ratings, {threads(args.threads)}, {name} seconds: "
        f"pandas {other:.2f} ({spread[1]}), ours {own:.2f} ({spread[0]}), ratio {other / own:.2f}"
    )
clock = deciding(args.threads)
what = f"reading {args.millions} million ratings, {threads(args.threads)}"
record(what, f"pandas {version}, read_csv", medians[1][clock], medians[0][clock])
