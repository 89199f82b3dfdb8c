#!/bin/sh
# Builds the audits once with the deliberate bugs compiled in, then runs them for each bug:
# every bug must turn a test red, and no bug must leave all green.
#   scripts/mutants.sh [NAME...]          stops at the first group of audits with a red test
#   scripts/mutants.sh --all [NAME...]    runs every group, to see all tests that a bug turns red
set -eu
cd "$(dirname "$0")/.."
# cheapest first
groups="shares sampling scalars workers resume accounts nights kernel selections quantiles rounds discrete private_sgd::server private_sgd::rounds private_sgd::everybody private_sgd::samples public_features::neighbours public_features::rounds public_features::statistics public_features::gradients regressions personalized runs"
all=false
if [ "${1:-}" = --all ]; then all=true; shift; fi
# the test binary of a package whose name begins so
built() {
    prefix=$1
    shift
    RUSTC_WORKSPACE_WRAPPER="$PWD/scripts/with_mutants.sh" cargo test --no-run "$@" --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\/'"$prefix"'-[^"]*\)".*/\1/p' | tail -n 1
}
bin=$(built audits -p dp-audit --test audits)
# audits of the library that the commands are made of
personal=$(built dp_personal -p dp-personal --lib)
[ -n "$bin" ] && [ -n "$personal" ] || { echo "the audits did not build" >&2; exit 1; }
cd crates/dp-audit
if ! env -u DP_MUTANT "$bin" -q >/dev/null 2>&1 ||
    ! env -u DP_MUTANT "$personal" -q metric_release:: >/dev/null 2>&1; then
    echo "the audits are red without any bug" >&2
    exit 1
fi
# shellcheck disable=SC2046 # each word is a name
[ $# -gt 0 ] || set -- $(find ../dp-*/src -name '*.rs' -exec cat {} + | tr -d ' \n' |
    grep -oE '(active|pick)\("[a-z0-9-]+"' | sed 's/.*"\(.*\)"/\1/' | sort -u)
survivors=0
for name in "$@"; do
    red=""
    # the other audits do not contain the library that the commands are made of
    case $name in
        released-metrics-*) its_groups=metric_release tests=$personal ;;
        *) its_groups=$groups tests=$bin ;;
    esac
    for group in $its_groups; do
        found=$(DP_MUTANT="$name" "$tests" "$group::" 2>/dev/null |
            sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' | sort | tr '\n' ' ')
        red="$red$found"
        if [ -n "$red" ] && ! $all; then break; fi
    done
    if [ -n "$red" ]; then
        echo "| \`$name\` | $red|"
    else
        echo "| \`$name\` | SURVIVED |"
        survivors=$((survivors + 1))
    fi
done
echo "$# bugs, $survivors survived"
[ "$survivors" -eq 0 ]
