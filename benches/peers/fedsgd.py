"""Times rounds of personalised private SGD in numpy and in ours: 1000 users, 100 features, 10 rows per user and round.

Called by fedsgd.sh. Both sides draw fresh rows in every round (`fresh`) or cycle through 20 minibatches per user that
are held in memory (`held`). numpy adds float noise and does no accounting; ours adds exact integer noise, checks every
user's bound in integers, and its seconds include plan, ledger and certificate. Processor seconds with one thread,
wall-clock seconds with several; numpy in double and in single precision.
"""

import argparse
import json
import subprocess

from clocks import deciding, threads, timed, use_threads
from record import record

parser = argparse.ArgumentParser()
parser.add_argument("--ours", required=True, help="the fedsgd_peer binary")
parser.add_argument("--rounds", type=int, default=1000)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
use_threads(args.threads)

import numpy as np  # noqa: E402

USERS, DIM, ROWS, HELD, CLIP, NOISE, STEP = 1000, 100, 10, 20, 10.0, 10.0, 0.7
rng = np.random.default_rng(1)
stddev = np.arange(1, DIM + 1) ** -0.5
truth = np.tile(10 * rng.standard_normal(DIM), (USERS, 1))
truth[:, -5:] += 0.1 * rng.standard_normal((USERS, 5))


def minibatch(dtype):
    x = rng.standard_normal((USERS, ROWS, DIM), dtype=dtype)
    x *= stddev.astype(dtype)
    noise = 0.01 * rng.standard_normal((USERS, ROWS), dtype=dtype)
    return x, np.matmul(x, truth.astype(dtype)[:, :, None])[:, :, 0] + noise


def train(batches, dtype, n_rounds):
    shared, local = np.zeros(DIM, dtype), np.zeros((USERS, DIM), dtype)
    for t in range(n_rounds):
        x, y = batches(t)
        residual = np.matmul(x, (shared + local)[:, :, None])[:, :, 0] - y
        gradient = np.matmul(residual[:, None, :], x)[:, 0, :] / ROWS
        norm = np.sqrt(np.einsum("ij,ij->i", gradient, gradient))
        clipped = gradient / np.maximum(1, norm / CLIP)[:, None]
        local -= dtype(STEP) * gradient
        noisy = clipped.sum(0) + (CLIP * NOISE * rng.standard_normal(DIM)).astype(dtype)
        shared -= dtype(STEP) * noisy / dtype(USERS)
    return shared + local


run = subprocess.run(
    [args.ours, str(args.rounds)], check=True, capture_output=True, text=True
)
ours = json.loads(run.stdout)
clock = deciding(args.threads)
print(f"numpy {np.__version__}, {threads(args.threads)}, {args.rounds} rounds, seconds: {clock}")
for dtype in (np.float64, np.float32):
    held = [minibatch(dtype) for _ in range(HELD)]
    for name, batches in [
        ("fresh", lambda _: minibatch(dtype)),
        ("held", lambda t: held[t % HELD]),
    ]:
        models, seconds = timed(lambda: train(batches, dtype, args.rounds))
        risk = np.mean(((models - truth) ** 2 * stddev**2).sum(1))
        peer, mine = seconds[clock], ours[name]["seconds"][clock]
        what = f"{args.rounds} rounds of personalised private SGD, {name} rows, {threads(args.threads)}"
        record(what, f"numpy {np.__version__}, {np.dtype(dtype).name}", peer, mine)
        print(
            f"{name} rows, numpy {np.dtype(dtype).name}: {peer:.2f} s (risk {risk:.2g}), "
            f"ours {mine:.2f} s (risk {ours[name]['risk']:.2g}), ratio {peer / mine:.1f}"
        )
