"""Times the steps of dp-personalize in numpy and in ours, on the same generated data set.

Called by personalize.sh. The numpy side exploits the structure too: it never forms a row of length d k, and computes
the d k x d k matrix as k (k + 1) / 2 weighted Gramians of the rows. It clips, adds Gaussian noise from the standard
generator, projects and solves; it has no integers, no exact noise and no accounting. Both sides use the requested
number of threads, and both compute the norms of the rows. Processor seconds with one thread, wall-clock seconds with
several; the minimum of the runs.
"""

import argparse
import json
import os
import subprocess
import tempfile

from clocks import deciding, least, threads, timed, use_threads
from record import record

parser = argparse.ArgumentParser()
parser.add_argument("--ours", required=True, help="the personalize_peer binary")
parser.add_argument("--users", type=int, default=50_000)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
use_threads(args.threads)

import numpy as np  # noqa: E402

M, D, K = 10, 50, 2
CLIP = 1e-4
rng = np.random.default_rng(1)


def norms_of(x):
    return np.sqrt(np.einsum("nmd,nmd->nm", x, x))


def own_models(x, y, basis):
    """Every user's least-squares fit in the subspace."""
    z = (x.reshape(-1, D) @ basis).reshape(len(x), M, K)
    gram = z.transpose(0, 2, 1) @ z + 1e-9 * np.eye(K)
    rhs = (z.transpose(0, 2, 1) @ y[..., None])[..., 0]
    return np.linalg.solve(gram, rhs[..., None])[..., 0], z


def symmetric_noise(n, scale):
    upper = np.triu(rng.normal(scale=scale, size=(n, n)))
    return upper + np.triu(upper, 1).T


def psd_solve(a, b, ridge):
    values, vectors = np.linalg.eigh(a)
    return vectors @ ((vectors.T @ b).T / (np.maximum(values, 0) + ridge)).T


def algorithm_2(x, y, basis, noise):
    norms = norms_of(x)
    v, _ = own_models(x, y, basis)
    factor = np.minimum(1, CLIP / (norms * np.linalg.norm(v, axis=1)[:, None]))
    rows = x.reshape(-1, D)
    a = np.empty((D, K, D, K))
    squares = factor * factor
    for p in range(K):
        for q in range(p, K):
            weight = (squares * (v[:, p] * v[:, q])[:, None]).reshape(-1, 1)
            a[:, p, :, q] = a[:, q, :, p] = rows.T @ (rows * weight)
    pull = np.clip(y, -CLIP, CLIP) * factor
    b = rows.T @ (pull[..., None] * v[:, None, :]).reshape(-1, K)
    unit = M * CLIP**2
    a = a.reshape(D * K, D * K) + symmetric_noise(D * K, noise * unit)
    b = b.reshape(-1) + rng.normal(scale=noise * unit, size=D * K)
    z = psd_solve(a, b, noise * unit * np.sqrt(D * K))
    return np.linalg.qr(z.reshape(D, K))[0]


def whitening(x, norms, noise):
    n = len(x)
    unit = x / norms[..., None]
    small = unit @ unit.transpose(0, 2, 1)  # same Frobenius norm as the moments
    factor = np.minimum(1, 0.5 / (np.sqrt((small**2).sum((1, 2))) / M)) / M
    rows = unit.reshape(-1, D)
    c = rows.T @ (rows * np.repeat(factor, M)[:, None]) + symmetric_noise(D, noise * 0.5)
    trace = np.trace(c)
    values, vectors = np.linalg.eigh(c)
    lift = 0.25 * np.sqrt(2 * D) * noise * 0.5 / trace
    return (vectors / np.sqrt(D * (np.maximum(values / trace, 0) + lift))) @ vectors.T


def first_subspace(x, y, noise):
    small = x @ x.transpose(0, 2, 1) + 1e-9 * D * np.eye(M)
    dual = np.linalg.solve(small, y[..., None])
    theta = (x.transpose(0, 2, 1) @ dual)[..., 0]
    theta /= np.linalg.norm(theta, axis=1)[:, None]
    p = theta.T @ theta + symmetric_noise(D, noise)
    return np.linalg.eigh(p)[1][:, -K:]


def residual_step(x, y, energy, basis, clip, noise, first):
    v, z = own_models(x, y, basis)
    length = np.linalg.norm(v, axis=1)
    w = v / length[:, None]
    r = y - (z @ v[..., None])[..., 0]
    pulled = (x.transpose(0, 2, 1) @ r[..., None])[..., 0]
    pulled *= (M / (M - K) * D / (length * energy))[:, None]
    size = np.linalg.norm(pulled, axis=1)
    if not first:
        total = np.minimum(size / clip, 1).sum() + 3 * rng.normal(scale=noise)
        clip = min(clip, clip * (total + 3 * noise) / len(x))
    weight = np.minimum(1, clip / size)
    step = (pulled * (weight / clip)[:, None]).T @ w + rng.normal(scale=noise, size=(D, K))
    moments = 0.25 * (w * weight[:, None]).T @ w + symmetric_noise(K, noise)
    change = psd_solve(moments, step.T, noise * 2).T * clip * 0.25
    return np.linalg.qr(basis + change)[0], clip


def best_plan(x, y, noise):
    white = x.reshape(-1, D) @ whitening(x, norms_of(x), noise)
    white = white.reshape(x.shape)
    basis = first_subspace(white, y, noise)
    energy = np.einsum("nmd,nmd->n", white, white)
    clip = 1.0
    for step in range(4):
        basis, clip = residual_step(white, y, energy, basis, clip, noise, step == 0)
    return basis


WHAT = {"step": "Algorithm 2's step of a shared subspace", "best": "residual refinement of a shared subspace"}

with tempfile.TemporaryDirectory() as folder:
    command = [args.ours, folder, str(args.users), str(args.runs)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    ours = json.loads(run.stdout)
    x = np.fromfile(os.path.join(folder, "x"), "<f4").astype(np.float64)
    x = x.reshape(args.users, M, D)
    y = np.fromfile(os.path.join(folder, "y"), "<f4").astype(np.float64).reshape(args.users, M)
    start = np.fromfile(os.path.join(folder, "start"), "<f8").reshape(D, K)
    print(f"numpy {np.__version__}, {args.users} users, {threads(args.threads)}")
    for name, peer in [
        ("step", lambda: algorithm_2(x, y, start, 10.0)),
        ("best", lambda: best_plan(x, y, 10.0)),
    ]:
        peers = least(timed(peer)[1] for _ in range(args.runs))
        clock = deciding(args.threads)
        seconds, mine = peers[clock], ours[name][clock]
        what = f"{WHAT[name]}, {args.users} users, {threads(args.threads)}"
        record(what, f"numpy {np.__version__}", seconds, mine)
        print(f"{name}: numpy {seconds:.3f} s ({clock}), ours {mine:.3f}, ratio {seconds / mine:.1f}")
