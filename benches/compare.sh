#!/usr/bin/env bash
# Compares our programs with published packages from PyPI (dp-accounting, implicit) and with the published algorithms
# written in numpy, on this machine in a single run; writes the table at the top of docs/performance.md.
#
#   benches/compare.sh [--quick]
#
# Needs bash, cargo, a python3 with its venv module (python3-venv on Debian; tested with 3.11) and access for pip to
# PyPI or a mirror of it. Each peer, numpy included, is installed into a separate virtual environment under the target
# folder; no Python packages need to be installed beforehand. On two idle cores it takes about ten minutes after the
# release build (with --quick two minutes, on smaller inputs, and the table is printed instead of written). If
# $PEER_PYTHON is set, it must be a Python that has dp-accounting, implicit and numpy, and nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=3 millions=3 rounds=200 users=50000
workloads=(sgm-10k sgm-sigma gaussians-40 sgm-1m)
if [ "${1:-}" = --quick ]; then
  runs=1 millions=1 rounds=20 users=5000
  workloads=(sgm-10k gaussians-40)
elif [ $# -gt 0 ]; then
  echo "usage: benches/compare.sh [--quick]" >&2
  exit 2
fi

DP_COMPARISONS="$(mktemp)"
export DP_COMPARISONS
trap 'rm -f "$DP_COMPARISONS" "$DP_COMPARISONS.md"' EXIT

benches/peers/accounting.sh --runs "$runs" "${workloads[@]}"
benches/peers/als.sh --millions "$millions"
for threads in $(printf '1\n%s\n' "$(nproc)" | sort -un); do
  benches/peers/personalize.sh --users "$users" --runs "$runs" --threads "$threads"
  benches/peers/fedsgd.sh --rounds "$rounds" --threads "$threads"
done

if [ "${1:-}" = --quick ]; then
  printf '<!-- compare.sh: begin -->\n<!-- compare.sh: end -->\n' > "$DP_COMPARISONS.md"
  python3 benches/peers/table.py "$DP_COMPARISONS" "$DP_COMPARISONS.md"
  cat "$DP_COMPARISONS.md"
else
  python3 benches/peers/table.py "$DP_COMPARISONS" docs/performance.md
fi
