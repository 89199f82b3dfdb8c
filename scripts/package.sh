#!/usr/bin/env bash
# Builds a release archive of `dp`: the binary, which reads Parquet too, manual pages, shell completions, licences, README and changelog.
#   scripts/package.sh [TARGET]     TARGET: by default the machine's own; x86_64-unknown-linux-musl gives a static binary
# The machine must be able to run the target. Needs the Rust target, and for musl a C compiler for it (Debian: musl-tools). Set DP_REVISION to name the source in certificates.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${1:-$(rustc -vV | sed -n 's/^host: //p')}"
folder="${CARGO_TARGET_DIR:-target}"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)"
name="dp-$version-$target"
out="$folder/package/$name"

cargo build --profile dist --locked -p dp-cli --target "$target" --features manual,parquet --bin dp --example manual
built="$folder/$target/dist"

rm -rf "$out"
mkdir -p "$out/man" "$out/completions"
cp "$built/dp" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$out"
"$built/examples/manual" "$out/man"
for shell in bash zsh fish elvish powershell; do
  "$out/dp" completions "$shell" >"$out/completions/dp.$shell"
done

tar -C "$folder/package" -czf "$folder/package/$name.tar.gz" "$name"
(cd "$folder/package" && { sha256sum "$name.tar.gz" || shasum -a 256 "$name.tar.gz"; } >"$name.tar.gz.sha256")
ls -l "$folder/package/$name.tar.gz"
"$out/dp" --version
