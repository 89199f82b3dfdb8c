"""Times `dp train` and `implicit`, from a csv file to a saved model, alternately.

Called by end_to_end.sh. Wall-clock seconds by each side's own clock, and processor seconds for the whole (all threads
together, which other programs disturb less), as medians over the runs. Reading is `read_csv` for the peer, and for us
the time from the open file to the table that is trained on; the peer's fitting time begins with building the matrix
from the table's columns. These parts exclude process start and imports; our total is that of the whole process, the
peer's is the sum of its parts.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from record import record

SHAPES = {"10m": (69_878, 10_677, 10_000_054), "20m": (138_493, 26_744, 20_000_263), "1m": (6_040, 3_706, 1_000_209)}

# the peer alone, in a separate process
PEER = """
import json, sys, time
import pandas as pd, numpy as np, scipy.sparse as sp, implicit
path, out, dim, rounds, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
clock, begun = [time.perf_counter()], time.process_time()
lap = lambda: clock.append(time.perf_counter())
ratings = pd.read_csv(path)
lap()
users, items = (pd.factorize(ratings[name])[0] for name in ("user", "item"))
matrix = sp.csr_matrix((ratings["rating"].to_numpy(np.float32), (users, items)))
model = implicit.als.AlternatingLeastSquares(
    factors=dim, iterations=rounds, use_cg=False, use_gpu=False, num_threads=threads, dtype=np.float32, random_state=1
)
model.fit(matrix, show_progress=False)
lap()
model.save(out)
lap()
read, fit, save = np.diff(clock)
print(json.dumps({"read": read, "fit": fit, "total": clock[-1] - clock[0], "processor": time.process_time() - begun, "versions": [implicit.__version__, pd.__version__]}))
"""

parser = argparse.ArgumentParser()
parser.add_argument("--dp", required=True)
parser.add_argument("--generator", required=True)
parser.add_argument("--shape", action="append", choices=SHAPES)
parser.add_argument("--dim", type=int, default=32)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--runs", type=int, default=3)
args = parser.parse_args()

# numpy settings of this machine would slow the peer, which also warns about the number of BLAS threads
environment = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
environment |= {"OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": str(args.threads)}


def ours(path, folder):
    out = os.path.join(folder, "model")
    flags = ["--epsilon", "1", "--delta", "1e-6", "--item-ids-are-public", "--no-split", "--no-ledger", "--force", "--quiet"]
    flags += ["--dim", str(args.dim), "--steps", str(args.rounds), "--out", out]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([args.dp, "train", path, *flags], check=True, env=environment, stdout=subprocess.DEVNULL)
    total, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with open(os.path.join(folder, "model-internal", "internal.json"), encoding="utf-8") as file:
        seconds = json.load(file)["seconds"]
    return {"read": seconds["load"], "fit": seconds["train"], "total": total, "processor": processor}


def peer(path, folder):
    sizes = map(str, (args.dim, args.rounds, args.threads))
    command = [sys.executable, "-c", PEER, path, os.path.join(folder, "peer"), *sizes]
    run = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


for shape in args.shape or ["10m", "20m"]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ratings.csv")
        with open(path, "wb") as file:
            subprocess.run([args.generator, *map(str, SHAPES[shape])], check=True, stdout=file)
        runs = [(ours(path, folder), peer(path, folder)) for _ in range(args.runs)]
    versions = runs[0][1]["versions"]
    for part in ("read", "fit", "total", "processor"):
        own, other = (statistics.median(run[side][part] for run in runs) for side in (0, 1))
        spread = [f"{min(run[side][part] for run in runs):.2f} to {max(run[side][part] for run in runs):.2f}" for side in (0, 1)]
        print(f"MovieLens-{shape.upper()} shape, {part}: peer {other:.2f} s ({spread[1]}), ours {own:.2f} s ({spread[0]}), ratio {other / own:.2f}", flush=True)
        what = f"{part} of a training, MovieLens-{shape.upper()} shape, dim {args.dim}, {args.rounds} rounds, {args.threads} threads"
        record(what, f"implicit {versions[0]} and pandas {versions[1]}, not private", other, own)
