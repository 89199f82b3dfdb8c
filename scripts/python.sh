#!/usr/bin/env bash
# Builds the wheel of the Python package and tests it in a fresh virtual environment: tests, types, lints, stable ABI.
# Needs Rust, Python 3.10 or newer (PYTHON says which) and a package index. Other interpreters that pyenv has, or that are on the
# path, run the tests that need numpy alone. With PROFILE=dev the wheel is built without optimisation.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${PYTHON:-python3}"
profile="${PROFILE:-release}"
target="${CARGO_TARGET_DIR:-target}"
case "$target" in /*) ;; *) target="$(pwd)/$target" ;; esac
venv="$(mktemp -d)"
trap 'rm -rf "$venv"' EXIT

"$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet maturin

rm -f "$target"/wheels/dp_personal-*.whl
"$venv/bin/maturin" build --quiet --profile "$profile" --manifest-path python/Cargo.toml --out "$target/wheels"
wheel=("$target"/wheels/dp_personal-*.whl)
ls -l "${wheel[0]}"
pip install --quiet "${wheel[0]}[test]" abi3audit
"$venv/bin/abi3audit" --strict "${wheel[0]}"

# from the tests' own folder, so that the wheel is tested and not the sources beside it
cargo build --quiet -p dp-cli
(
  cd python
  "$venv/bin/ruff" check .
  "$venv/bin/ruff" format --check .
  "$venv/bin/mypy"
)
cd python/tests
export DP_BINARY="$target/debug/dp"
"$venv/bin/python" -m pytest --quiet -c ../pyproject.toml .

own="$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
for version in 3.10 3.11 3.12 3.13 3.14; do
  [ "$version" = "$own" ] && continue
  other="$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python 2>/dev/null | tail -n 1 || true)"
  [ -n "$other" ] || other="$(command -v "python$version" || true)"
  [ -n "$other" ] && "$other" -c 'import venv, ensurepip' 2>/dev/null || continue
  echo "Python $version, with numpy alone"
  "$other" -m venv "$venv/$version"
  "$venv/$version/bin/python" -m pip --disable-pip-version-check install --quiet "${wheel[0]}" pytest
  "$venv/$version/bin/python" -m pytest --quiet -c ../pyproject.toml test_accounting.py test_ledger.py test_recommender.py
done
