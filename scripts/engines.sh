#!/usr/bin/env bash
# Trains over Spark, Ray, Dask and Flower in an environment of its own, with tasks that die and nodes that are killed, and compares with one process.
#   scripts/engines.sh        PROFILE=dev for a wheel that shares what `cargo test --workspace` builds; VENV=folder keeps the environment for the next time
# Needs Rust, Python 3.10 or newer (PYTHON says which), a package index, and for Spark a Java runtime: on Debian it is installed where
# it is missing and this runs as root. Spark's source package has 435 MB. `.ci/run` does not run this.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/wheel.sh
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
venv="${VENV:-$work/venv}"

if ! command -v java >/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "missing: java (Debian: default-jre-headless)" >&2; exit 1; }
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null
fi
make_venv
pip install maturin pyarrow "pandas<3" pytest pyspark ray "dask[distributed]" flwr
build_wheel
pip install --force-reinstall --no-deps "$wheel"
pip install "numpy>=1.23"

"$venv/bin/python" - <<'PY'
import platform
from importlib.metadata import version
names = ["pyspark", "ray", "distributed", "flwr", "pyarrow"]
print(f"Python {platform.python_version()},", ", ".join(f"{name} {version(name)}" for name in names))
PY
java -version 2>&1 | head -1

# from folders of their own, so that no task finds the sources in place of the wheel; REQUIRE makes a missing engine a failure
export RAYON_NUM_THREADS="${RAYON_NUM_THREADS:-1}" REQUIRE_ENGINES=1
(
  cd python/tests
  "$venv/bin/python" -m pytest --quiet --durations=0 --durations-min=1 --disable-warnings -c ../pyproject.toml test_engines.py
)
cd "$work"
"$venv/bin/python" "$OLDPWD/python/examples/flower/run.py"
echo "passed: Spark, Ray, Dask, Flower"
