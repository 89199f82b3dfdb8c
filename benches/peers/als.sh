#!/usr/bin/env bash
# Alternating least squares without privacy compared with `implicit` (PyPI) with exact solves, one round of each on the
# same generated matrix in this one run.
#
#   benches/peers/als.sh [--millions N] [--threads N]
#
# Needs cargo and python3. The peer is installed into a separate virtual environment under the target folder unless
# $PEER_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python als "implicit==0.7.*")"
cargo build --quiet --profile dist -p dp-benches --bin als_peer
exec "$python" benches/peers/als.py --ours "$target/dist/als_peer" "$@"
