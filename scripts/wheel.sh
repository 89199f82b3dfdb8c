# shellcheck shell=bash disable=SC2034,SC2154 # $venv and $wheel belong to the script that sources this
# Sourced by the scripts that test the Python package, from the root of the checkout: builds its wheel and fills virtual environments.
# Needs Rust, Python 3.10 or newer (PYTHON says which) and a package index. With PROFILE=dev the wheel shares what `cargo test --workspace` builds.

unset PYTHONPATH # the wheel is tested, and nothing that lies elsewhere
python="${PYTHON:-python3}"
profile="${PROFILE:-dist}"
target="${CARGO_TARGET_DIR:-target}"
case "$target" in /*) ;; *) target="$(pwd)/$target" ;; esac

# Makes the environment $venv unless it is there.
make_venv() {
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
}

pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"
}

# Builds the wheel with the maturin of $venv; sets $wheel to its path.
build_wheel() {
  rm -f "$target"/wheels/dp_personal-*.whl
  "$venv/bin/maturin" build --quiet --profile "$profile" --manifest-path python/Cargo.toml --out "$target/wheels"
  wheel="$(ls "$target"/wheels/dp_personal-*.whl)"
}
