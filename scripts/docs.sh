#!/usr/bin/env bash
# Builds the documentation site into target/site and fails on a broken link or anchor. Needs Python 3.10 or newer and, the first time,
# a package index. The Rust API is included if `cargo doc --workspace --no-deps` has made it.
#   scripts/docs.sh            builds
#   scripts/docs.sh serve      builds and serves on http://127.0.0.1:8000
#   scripts/docs.sh install    only installs the tools
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/docs-venv
pinned="$(sha256sum scripts/docs-requirements.txt)"
if [ "$(cat "$venv/pinned" 2>/dev/null)" != "$pinned" ]; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" --disable-pip-version-check --quiet install --no-deps -r scripts/docs-requirements.txt
  echo "$pinned" >"$venv/pinned"
fi
[ "${1:-}" != install ] || exit 0

source=target/site-source
rm -rf "$source"
mkdir -p "$source/rustdoc"
git ls-files -z --cached --others --exclude-standard --deduplicate -- '*.md' '*.svg' 'docs/*.css' 'docs/*.json' '*.ipynb' 'LICENSE*' |
  while IFS= read -r -d '' file; do
    # a deleted file is listed until the deletion is committed
    [ ! -e "$file" ] || { mkdir -p "$source/$(dirname "$file")" && cp "$file" "$source/$file"; }
  done
# replaced by the API below, where it was made
printf '<meta http-equiv="refresh" content="0; url=dp_personal/index.html">\n<p>Rust API: <code>cargo doc --no-deps --open</code></p>\n' \
  >"$source/rustdoc/index.html"

NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --clean 2>&1 | { grep -vE '^(INFO|  - )|^$' || true; }
api="${CARGO_TARGET_DIR:-target}/doc"
[ ! -d "$api" ] || cp -R "$api/." target/site/rustdoc/
pages="$(find target/site -name index.html -not -path '*/rustdoc/*' | wc -l)"
echo "target/site: $pages pages, links and anchors checked"
[ "${1:-}" != serve ] || python3 -m http.server --directory target/site --bind 127.0.0.1 8000
