#!/bin/bash
# Runs benchmark programs, prints a table and writes build/bench.json.
#
#   hack/bench.sh PROGRAM...
#
# A program prints one JSON object per line: name, value, unit, against, cpu; it exits with 77 if this
# machine cannot run it. With BENCH_SMOKE=1 each runs for a few seconds at most, the values mean
# nothing, and it is only checked that every program works and prints rows with finite values.
set -euo pipefail
cd "$(dirname "$0")/.."
# Kernels chosen for the whole machine would replace the worker's choice, which is what is measured.
# A program that is run by hand uses them and reports so in its rows.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rows=build/bench.rows table=build/bench.json
if [ -n "${BENCH_SMOKE:-}" ]; then
    rows=build/bench-smoke.rows table=build/bench-smoke.json
fi
: >"$rows"
for program; do
    echo "... ${program##*/}" >&2
    before=$(wc -l <"$rows") rc=0 start=$SECONDS
    "$program" >>"$rows" || rc=$?
    case $rc in
    0) ;;
    77) continue ;;
    *) echo "error: $program ended with status $rc" >&2; exit 1 ;;
    esac
    if ! tail -n +$((before + 1)) "$rows" | jq -es 'length > 0 and all(.value | isnormal or . == 0)' >/dev/null; then
        echo "error: $program printed no rows, or values that are not finite:" >&2
        tail -n +$((before + 1)) "$rows" >&2
        exit 1
    fi
    [ -z "${BENCH_SMOKE:-}" ] || echo "ok - ${program##*/}: $(($(wc -l <"$rows") - before)) rows # $((SECONDS - start)) s"
done
jq -s . "$rows" >"$table"
[ -z "${BENCH_SMOKE:-}" ] || exit 0
jq -r '.[] | [.name, (.value * 100 | round / 100), .unit, .against] | @tsv' "$table" |
    awk -F'\t' '{printf "%-32s %12s %-10s %s\n", $1, $2, $3, $4}'
jq -r '.[0].cpu | "CPU: " + .' "$table"
