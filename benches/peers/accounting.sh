#!/usr/bin/env bash
# Our accountant compared with dp_accounting 0.6 (PyPI, privacy loss distributions at interval 1e-4), both measured in
# this one run: processor seconds, peak memory, width of the bracket.
#
#   benches/peers/accounting.sh [--runs N] [WORKLOAD ...]
#
# Needs cargo and python3. The peer is installed into a separate virtual environment under the target folder unless
# $PEER_PYTHON names a Python that has it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python accounting "dp-accounting==0.6.*")"

cargo build --quiet --profile dist -p dp-benches --bin accounting_peer
cargo --version
exec "$python" benches/peers/accounting.py --ours "$target/dist/accounting_peer" "$@"
