#!/usr/bin/env bash
# Builds the wheel of the Python package and tests it in a fresh virtual environment: tests, notebooks, types, lints, stable ABI.
# Needs Rust, Python 3.10 or newer (PYTHON says which) and a package index. Other interpreters that pyenv has, or that are on the
# path, run the tests that need numpy alone. With PROFILE=dev the wheel shares what `cargo test --workspace` builds.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/wheel.sh
venv="$(mktemp -d)"
trap 'rm -rf "$venv"' EXIT

make_venv
pip install maturin
build_wheel
ls -l "$wheel"
pip install "${wheel}[test]" abi3audit
pip install faiss-cpu || echo "faiss-cpu does not install here: what needs it is left out"
"$venv/bin/abi3audit" --strict "$wheel"

# from the tests' own folder, so that the wheel is tested and not the sources beside it
cargo build --quiet --workspace --features parquet --bin dp # as `cargo test --workspace` builds it
(
  cd python
  "$venv/bin/ruff" check .
  "$venv/bin/ruff" format --check .
  "$venv/bin/mypy"
)
cd python/tests
export DP_BINARY="$target/debug/dp"
"$venv/bin/python" -m pytest --quiet -c ../pyproject.toml .
"$venv/bin/python" ../notebooks/run.py

own="$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
for version in 3.10 3.11 3.12 3.13 3.14; do
  [ "$version" = "$own" ] && continue
  other="$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python 2>/dev/null | tail -n 1 || true)"
  [ -n "$other" ] || other="$(command -v "python$version" || true)"
  [ -n "$other" ] && "$other" -c 'import venv, ensurepip' 2>/dev/null || continue
  echo "Python $version, with numpy alone"
  "$other" -m venv "$venv/$version"
  "$venv/$version/bin/python" -m pip --disable-pip-version-check install --quiet "$wheel" pytest
  "$venv/$version/bin/python" -m pytest --quiet -c ../pyproject.toml test_accounting.py test_ledger.py test_recommender.py
done
