#!/bin/sh
# Every library crate compiles with no features, with each feature alone, and with all of them.
#   scripts/features.sh [+TOOLCHAIN] [CRATE ...]
# With +1.89 it checks the oldest Rust that the crates promise. Checks only: nothing is run.
set -eu
cd "$(dirname "$0")/.."

toolchain=
case "${1:-}" in +*) toolchain="$1"; shift ;; esac

# name and features of every library crate of the workspace, a line each
crates() {
  cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    is_library = any("lib" in target["kind"] for target in package["targets"])
    if is_library and package["publish"] is None:
        features = sorted(name for name in package["features"] if name != "default")
        print(package["name"], *features)
' | sort
}

check() { # NAME FLAGS...
  name="$1"; shift
  printf '%-16s %s\n' "$name" "$*"
  # shellcheck disable=SC2086
  cargo $toolchain check --quiet -p "$name" --lib "$@"
}

crates | while read -r name features; do
  [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
  check "$name" --no-default-features
  for feature in $features; do check "$name" --no-default-features --features "$feature"; done
  check "$name" --all-features
done
echo "every crate compiles with every feature alone"
