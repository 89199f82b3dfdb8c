#!/usr/bin/env bash
# A thousand rounds of personalised private SGD on the synthetic set-up of Bietti et al. 2022 compared with the same in
# numpy, in this one run.
#
#   benches/peers/fedsgd.sh [--rounds N] [--threads N]
#
# Needs cargo and python3. The peer is installed into a separate virtual environment under the target folder unless
# $PEER_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python fedsgd "numpy==2.*")"
cargo build --quiet --profile dist -p dp-benches --bin fedsgd_peer
exec "$python" benches/peers/fedsgd.py --ours "$target/dist/fedsgd_peer" "$@"
