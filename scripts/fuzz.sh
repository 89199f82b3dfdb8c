#!/bin/sh
# Runs the fuzz targets with coverage feedback on stable Rust: the compiler passes that cargo-fuzz asks
# for are there, only its address sanitizer needs nightly (and this code has no unsafe). Needs a C++
# compiler for libFuzzer. What is found is kept in fuzz/artifacts, the corpus in fuzz/corpus.
#   scripts/fuzz.sh SECONDS [certificate|ledger|questions]...
set -eu
cd "$(dirname "$0")/../fuzz"
seconds="${1:?seconds for each target}"
shift
[ $# -gt 0 ] || set -- certificate ledger questions
host=$(rustc -vV | sed -n 's/^host: //p')
target="${CARGO_TARGET_DIR:-target}"
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
RUSTFLAGS="--cfg fuzzing -Cdebug-assertions $coverage" cargo build --release --target "$host"
for name in "$@"; do
    mkdir -p "corpus/$name" "artifacts/$name"
    cp ../crates/dp-accounting/tests/fixtures/* "corpus/$name/"
    # sampled: each edit of it that is read costs seconds
    rm "corpus/$name/certificate-v2.json"
    "$target/$host/release/$name" "corpus/$name" -artifact_prefix="artifacts/$name/" \
        -max_total_time="$seconds" -timeout=60 -print_final_stats=1
done
