#!/usr/bin/env bash
# Reading ratings from a csv file compared with pandas' `read_csv`, on the same generated file in this one run.
#
#   benches/peers/reading.sh [--millions N] [--threads N] [--runs N]
#
# Needs cargo and python3, and 12 MB of disk space per million ratings in the system's temporary folder. The peer is
# installed into a separate virtual environment under the target folder unless $PEER_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python reading "pandas>=2")"
cargo build --quiet --profile dist -p dp-benches --bin reading_peer --bin generated_ratings
exec "$python" benches/peers/reading.py --ours "$target/dist/reading_peer" --generator "$target/dist/generated_ratings" "$@"
