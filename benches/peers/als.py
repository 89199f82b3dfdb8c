"""Times one round of alternating least squares in `implicit` (exact solves) and in ours, on the same generated matrix.

Called by als.sh. A round solves for all users and all items, with factors of length 64, for implicit feedback on both
sides: each system contains the Gramian of the whole other side in addition to that of its own records. The peer's
seconds are processor seconds, (fit of 1 + k rounds) - (fit of 1 round), divided by k; so are ours.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

from record import record

parser = argparse.ArgumentParser()
parser.add_argument("--ours", required=True, help="the als_peer binary")
parser.add_argument("--millions", type=int, default=10)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["RAYON_NUM_THREADS"] = str(args.threads)

import implicit  # noqa: E402
import numpy as np  # noqa: E402
import scipy  # noqa: E402
import scipy.sparse as sp  # noqa: E402

ROUNDS = 2


def peer_seconds(matrix, dim):
    def fit(rounds):
        model = implicit.als.AlternatingLeastSquares(
            factors=dim,
            iterations=rounds,
            use_cg=False,
            use_gpu=False,
            num_threads=args.threads,
            dtype=np.float32,
            random_state=1,
        )
        start = time.process_time()
        model.fit(matrix, show_progress=False)
        return time.process_time() - start

    one = fit(1)
    return (fit(1 + ROUNDS) - one) / ROUNDS


with tempfile.TemporaryDirectory() as folder:
    print(f"implicit {implicit.__version__}, numpy {np.__version__}, scipy {scipy.__version__}")
    run = subprocess.run(
        [args.ours, folder, str(args.millions)], check=True, capture_output=True, text=True
    )
    ours = json.loads(run.stdout)
    read = {
        name: np.fromfile(os.path.join(folder, name), dtype)
        for name, dtype in [("indptr", "<u8"), ("indices", "<u4"), ("values", "<f4")]
    }
    matrix = sp.csr_matrix(
        (read["values"], read["indices"].astype(np.int32), read["indptr"].astype(np.int64)),
    )
    peer = peer_seconds(matrix, ours["dim"])
    what = f"a round of alternating least squares, {args.millions} million ratings, dim {ours['dim']}"
    record(what, f"implicit {implicit.__version__}, exact solves", peer, ours["seconds"])
    print(
        f"{args.millions} million ratings, {ours['threads']} thread(s), dim {ours['dim']}: "
        f"implicit {peer:.2f} processor seconds a round, ours {ours['seconds']:.2f}, ratio {peer / ours['seconds']:.1f}"
    )
