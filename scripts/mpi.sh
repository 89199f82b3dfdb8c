#!/usr/bin/env bash
# Builds dp-mpi and checks it against dp: 1, 2 and 4 ranks release what one process does, and a job whose rank was
# killed goes on from its list of releases and pays for nothing twice. What is compared is every trainer of the command line.
#   scripts/mpi.sh            PROFILE=dev to share what `cargo test --workspace` builds, MPI_RANKS="1 2 4" for other numbers of ranks
# Needs an MPI library with mpicc and mpirun, and libclang; installs nothing. On Debian:
#   apt-get install --no-install-recommends libopenmpi-dev openmpi-bin libclang-dev
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for tool in cargo mpicc mpirun; do command -v "$tool" >/dev/null || missing+=("$tool"); done
[ -n "${LIBCLANG_PATH:-}" ] || ldconfig -p 2>/dev/null | grep -q libclang || missing+=(libclang)
if [ ${#missing[@]} -gt 0 ]; then
  echo "missing: ${missing[*]} (Debian: libopenmpi-dev openmpi-bin libclang-dev)" >&2
  exit 1
fi

profile="${PROFILE:-release}"
folder="$profile"; [ "$profile" = dev ] && folder=debug
target="${CARGO_TARGET_DIR:-$PWD/target}"
manifest=crates/dp-mpi/Cargo.toml
cargo fmt --manifest-path "$manifest" --check
# with the features that `cargo test --workspace` has built it with
cargo build --quiet --profile "$profile" --workspace --features parquet --bin dp
cargo build --quiet --profile "$profile" --locked --manifest-path "$manifest" --target-dir "$target"
if [ -n "${LINT:-}" ]; then
  cargo clippy --quiet --manifest-path "$manifest" --target-dir "$target" --all-targets -- -D warnings
fi
dp="$target/$folder/dp"
dp_mpi="$target/$folder/dp-mpi"

ranks="${MPI_RANKS:-1 2 4}"
mpi=(mpirun)
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  mpi+=(--oversubscribe --bind-to none)
  if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
fi
export RAYON_NUM_THREADS="${RAYON_NUM_THREADS:-1}"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
"$dp" synth ratings --out data --users 2000 --items 120 >/dev/null
data=(data/ratings.csv --epsilon 4 --delta 1e-5)
# those of a comparison are few: bits do not depend on their number, and builds for tests are slow
"$dp" synth ratings --out few --users 300 --items 60 >/dev/null
"$dp" synth groups --out rows --users 150 --rows 6 --features 3 >/dev/null
awk -F, 'NR == 1 { print $0 ",genres"; next } { print $0 ",g" NR % 4 }' few/items.csv >few/described.csv

# What differs between any two runs: the ids of releases, which are random, and hashes of files that hold them. Both
# are 64 hexadecimal digits, which only text files have; all else must be the same, byte for byte.
same() { # FOLDER FOLDER
  local file
  diff <(cd "$1" && ls) <(cd "$2" && ls) || return 1
  for file in "$1"/*; do
    case "$file" in
      *.json | *.md) cmp <(sed -E 's/[0-9a-f]{64}/#/g' "$file") <(sed -E 's/[0-9a-f]{64}/#/g' "$2/${file##*/}") ;;
      *) cmp "$file" "$2/${file##*/}" ;;
    esac || return 1
  done
}

compared=0
compare() { # NAME COMMAND DATA FLAGS...
  local name="$1" n
  shift
  set -- "$@" --epsilon 4 --delta 1e-5 --no-ledger --insecure-seed 7 --quiet
  mkdir -p "$name/alone"
  "$dp" "$@" --out "$name/alone/model" >/dev/null
  for n in $ranks; do
    mkdir -p "$name/$n"
    "${mpi[@]}" -n "$n" "$dp_mpi" "$@" --out "$name/$n/model" >/dev/null
    same "$name/alone/model" "$name/$n/model" || { echo "FAILED: $name with $n ranks" >&2; exit 1; }
    compared=$((compared + 1))
    echo "same as one process: $name, $n ranks"
  done
}

ratings=few/ratings.csv
items=(--items few/items.csv)
compare pooled train "$ratings" --item-ids-are-public --method pooled
compare adadpals train "$ratings" "${items[@]}" --method adadpals --dim 4
compare biases train "$ratings" "${items[@]}" --method biases
compare likes train "$ratings" "${items[@]}" --feedback implicit
compare am-ssp train "$ratings" --items few/described.csv --method am-ssp --feature-cols genres --dim 2
compare metrics train "$ratings" "${items[@]}" --release-metrics 0.1
compare tune tune "$ratings" "${items[@]}" --try dim=2 --try dim=3

ranges=("--feature-range=-1,1" "--target-range=-2,2")
for method in residual projectors gradient alternating; do
  compare "$method" personalize rows/rows.csv --rank 2 "${ranges[@]}" --method "$method" --held-out-users 0.2 --release-metrics 0.1
done
federate=(federate rows/rows.csv "${ranges[@]}" --rounds 4)
compare federate "${federate[@]}" --alpha-grid 0.5 --held-out-users 0.2 --release-metrics 0.1
compare choice "${federate[@]}" --alpha-grid 0.2,1,inf
compare sampled "${federate[@]}" --alpha-grid 0.5 --sampling-probability 0.5
compare rated federate "$ratings" --items few/described.csv --alpha-grid 0.5 --rounds 2

# A rank is stopped in the middle of a round, so that no sum is whole and nothing is being paid, and then killed.
# The job must end, and the same command must go on from the releases that it made.
long=(train "${data[@]}" --items data/items.csv --method adadpals --dim 4 --steps 40 --no-split --ledger l.ledger
  --ledger-epsilon 4 --resume --quiet --out resumed)
n_releases=81 # counts of items, then two sums a round
list=.resumed.partial/releases.list
n_listed() { { grep -ao '"previous_hash"' "$list" 2>/dev/null || true; } | wc -l; }
"${mpi[@]}" -n 3 "$dp_mpi" "${long[@]}" >/dev/null 2>job.log &
job=$!
for _ in $(seq 6000); do
  [ "$(n_listed)" -lt 5 ] || break
  sleep 0.01
done
victim="$(pgrep -P "$job" -f dp-mpi | tail -1)"
kill -STOP "$victim"
before=-1
while [ "$(n_listed)" != "$before" ]; do before="$(n_listed)"; sleep 1; done
kill -KILL "$victim"
if wait "$job"; then echo "FAILED: the job went on without a rank" >&2; exit 1; fi
[ -d resumed ] && { echo "FAILED: the job was over before its rank was killed" >&2; exit 1; }
paid() { "$dp" ledger show l.ledger --json | sed -nE 's/.*"n_releases": *([0-9]+).*/\1/p' | head -1; }
echo "killed a rank of 3: the job ended with $before entries in its list, $(paid) releases paid"
"${mpi[@]}" -n 2 "$dp_mpi" "${long[@]}" >/dev/null
if [ "$(paid)" != "$n_releases" ]; then
  echo "FAILED: $(paid) releases were paid for, and the plan has $n_releases" >&2
  exit 1
fi
"$dp" verify resumed --ledger l.ledger >/dev/null
"$dp" verify resumed --recompute >/dev/null
echo "went on with 2 ranks: $n_releases releases, each paid for once; the model follows from its list"

# What ends one rank ends the job, with its exit code and one message.
if "${mpi[@]}" -n 2 "$dp_mpi" train missing.csv --epsilon 1 --delta 1e-5 "${items[@]}" --no-ledger >/dev/null 2>bad.log; then
  echo "FAILED: a missing file was no error" >&2
  exit 1
fi
[ "$(grep -c 'error: ' bad.log)" = 1 ] || { cat bad.log >&2; echo "FAILED: one error was to be told" >&2; exit 1; }
echo "passed: $compared comparisons"
