#!/usr/bin/env bash
# A thousand rounds of personalised private SGD on the synthetic set-up of Bietti et al. 2022 against the same in
# numpy, in this one run.
#
#   benches/peers/fedsgd.sh [--rounds N] [--threads N]
#
# Needs cargo, and python3 with numpy ($PEER_PYTHON names another Python).
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
cargo build --quiet --release -p dp-benches --example fedsgd_peer
exec "${PEER_PYTHON:-python3}" benches/peers/fedsgd.py --ours "$target/release/examples/fedsgd_peer" "$@"
