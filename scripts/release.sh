#!/bin/sh
# Checks that a version can be released, and says how; it publishes nothing and tags nothing.
#   scripts/release.sh VERSION
# Needs a clean tree whose Cargo.toml and CHANGELOG.md name the version. Runs everything that must hold
# (.ci/run, about 20 minutes) and builds every crate from its own package.
set -eu
cd "$(dirname "$0")/.."
version="${1:?usage: scripts/release.sh VERSION}"

fail() { echo "error: $*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || fail "the tree has changes that are not committed"
grep -q "^version = \"$version\"$" Cargo.toml || fail "Cargo.toml: the workspace's version is not $version"
grep -q "^## $version\b" CHANGELOG.md || fail "CHANGELOG.md: no heading '## $version'"
if git rev-parse -q --verify "refs/tags/v$version" >/dev/null; then fail "v$version is tagged already"; fi

bash .ci/run
cargo publish --workspace --dry-run

cat <<END
$version can be released:
  git tag -a v$version -m v$version
  cargo publish --workspace
END
