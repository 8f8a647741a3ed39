#!/bin/bash
# Runs benchmark programs, prints a table and writes build/bench.json.
#
#   hack/bench.sh PROGRAM...
#
# A program prints one JSON object a line: name, value, unit, against, cpu.
set -euo pipefail
cd "$(dirname "$0")/.."
# Kernels that somebody chose for the whole machine are not the worker's choice, which is what is
# measured. A program that is run by hand heeds them and says so in its rows.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
rows=build/bench.rows
: >"$rows"
for program; do
    echo "... ${program##*/}" >&2
    "$program" >>"$rows"
done
jq -s . "$rows" >build/bench.json
jq -r '.[] | [.name, (.value * 100 | round / 100), .unit, .against] | @tsv' build/bench.json |
    awk -F'\t' '{printf "%-32s %12s %-10s %s\n", $1, $2, $3, $4}'
jq -r '.[0].cpu | "CPU: " + .' build/bench.json
