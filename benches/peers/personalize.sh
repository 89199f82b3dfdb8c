#!/usr/bin/env bash
# Shared subspaces with privacy compared with the same steps written in numpy (PyPI), on the same generated data set
# (50,000 users, 10 rows of 50 features, rank 2) in this one run.
#
#   benches/peers/personalize.sh [--users N] [--runs N] [--threads N]
#
# Needs cargo and python3. The peer is installed into a separate virtual environment under the target folder unless
# $PEER_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python personalize "numpy==2.*")"
cargo build --quiet --profile dist -p dp-benches --bin personalize_peer
exec "$python" benches/peers/personalize.py --ours "$target/dist/personalize_peer" "$@"
