#!/usr/bin/env bash
# The published peers from PyPI (dp-accounting, implicit) and the published algorithms written in numpy beside ours, on this
# machine in this one run; writes the table at the top of docs/performance.md.
#
#   benches/compare.sh [--quick]
#
# Needs bash, cargo, a python3 with its venv module (python3-venv on Debian; tried with 3.11) and pip's access to PyPI or a mirror of
# it. Each peer, numpy included, is installed into a virtual environment of its own under the target folder; no Python package
# has to be there. On two idle cores it takes about ten minutes behind the release build (--quick: two, smaller inputs, and the table
# is printed, not written). $PEER_PYTHON, if set, is a Python that has dp-accounting, implicit and numpy, and nothing is installed.
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
