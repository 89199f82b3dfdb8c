#!/usr/bin/env bash
# A complete private training, from the file to the saved model, compared with `implicit` without privacy: pandas'
# `read_csv`, exact alternating least squares with the same dimension and number of rounds, and `save`, on the same
# generated file in this one run.
#
#   benches/peers/end_to_end.sh [--shape 10m|20m]... [--dim N] [--rounds N] [--threads N] [--runs N]
#
# Needs cargo and python3, and 1 GB of disk space in the system's temporary folder. The peers are installed into a
# separate virtual environment under the target folder unless $PEER_PYTHON names a Python that has them.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python end-to-end "implicit==0.7.*" "pandas>=2")"
cargo build --quiet --profile dist -p dp-cli --bin dp
cargo build --quiet --profile dist -p dp-benches --bin generated_ratings
exec "$python" benches/peers/end_to_end.py --dp "$target/dist/dp" --generator "$target/dist/generated_ratings" "$@"
