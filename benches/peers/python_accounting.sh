#!/usr/bin/env bash
# The Python package compared with dp_accounting 0.6 (PyPI) on the examples of the peer's documentation and tests: both
# answers, both brackets, processor seconds.
#
#   benches/peers/python_accounting.sh [--runs N] [EXAMPLE ...]
#
# Needs cargo, maturin and python3. Both packages are installed into a virtual environment under the target folder, the
# one of accounting.sh, unless $PEER_PYTHON names a Python that has them.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
. benches/peers/python.sh
python="$(peer_python accounting "dp-accounting==0.6.*")"

if [ -z "${PEER_PYTHON:-}" ]; then
  wheels="$target/peers-wheels"
  rm -rf "$wheels"
  maturin build --quiet --profile dist --manifest-path python/Cargo.toml --out "$wheels"
  "$python" -m pip install --quiet --force-reinstall --no-deps "$wheels"/dp_personal-*.whl
fi
exec "$python" benches/peers/python_accounting.py "$@"
