#!/bin/bash
# Runs libFuzzer targets, two at a time, and closes with one line: "N passed, N failed".
#
#   hack/fuzz.sh PROGRAM...            FUZZ_SECONDS=60 seconds for each program
#   hack/fuzz.sh --short PROGRAM...    as many inputs as tests/fuzz/short.txt lists, with one seed
#
# A target fuzz_NOUN starts from tests/fuzz/seeds/NOUN and from what earlier runs have found, which
# is kept in build/fuzz/corpus/NOUN; tests/fuzz/dict/NOUN.dict names words that it should try. A
# short run takes about ten seconds and starts from the seeds only, so that it tries the same inputs
# every time: it cannot fail because of what chance finds in code that did not change. A
# finding is a broken promise, a sanitizer's report, an input that takes longer than 10 s or more
# than 1 GiB: then the input's path and a command to reproduce it are printed, and the script fails.
set -u
seconds=${FUZZ_SECONDS:-60}
is_short='' fixed=()
if [ "${1:-}" = --short ]; then
    shift
    is_short=yes seconds=120 # for a slow machine: what counts is the number of inputs
    # Where things are in memory decides what is tried, too.
    ! setarch -R true 2>/dev/null || fixed=(setarch -R)
fi
root=build/fuzz
mkdir -p "$root/corpus" "$root/findings" "$root/logs"

# fuzz_one PROGRAM: one line of TAP, and the details of a finding.
fuzz_one() {
    local program=$1 noun=${1##*/fuzz_} rc log finding
    local dict=tests/fuzz/dict/$noun.dict seeds=tests/fuzz/seeds/$noun
    local corpus=$root/corpus/$noun runs
    local -a more=()
    log=$root/logs/$noun.txt
    if [ -n "$is_short" ]; then
        runs=$(awk -v noun="$noun" '$1 == noun { print $2 }' tests/fuzz/short.txt)
        [ -n "$runs" ] || { echo "not ok - fuzz_$noun has no line in tests/fuzz/short.txt"; return; }
        corpus=$scratch/$noun
        more+=(-seed=1 "-runs=$runs")
    fi
    mkdir -p "$corpus"
    [ ! -f "$dict" ] || more+=("-dict=$dict")
    more+=("$corpus")
    [ ! -d "$seeds" ] || more+=("$seeds")
    # The outer limit is for a target that no longer looks at the clock.
    # The quarantine of freed memory is the sanitizer's own and would be half of the limit.
    ASAN_OPTIONS=quarantine_size_mb=64 timeout -k 10 $((seconds + 120)) "${fixed[@]}" "$program" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -malloc_limit_mb=256 -max_len=4096 -reload=0 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix="$root/findings/$noun-" "${more[@]}" >"$log" 2>&1 </dev/null
    rc=$?
    if [ "$rc" -eq 0 ] && [ -n "$(stat_of number_of_executed_units "$log")" ]; then
        echo "ok - fuzz_$noun: $(stat_of number_of_executed_units "$log") inputs," \
            "$(stat_of average_exec_per_sec "$log") per second, $(covered "$log") edges"
        return
    fi
    grep -v '^#[0-9]' "$log" | tail -n 40 | sed 's/^/    /'
    finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    echo "not ok - fuzz_$noun ended with status $rc; the whole report: $log"
    [ -z "$finding" ] || echo "    reproduce with: $program $finding"
}

stat_of() { # stat_of NAME LOG
    sed -n "s/^stat::$1: *//p" "$2"
}

covered() { # covered LOG
    sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$1" | tail -n 1
}

scratch=$(mktemp -d) || exit 1
results=$scratch/results
trap 'rm -rf "$scratch"' EXIT
for program; do
    # Two cores is what CI has.
    while [ "$(jobs -pr | wc -l)" -ge 2 ]; do wait -n; done
    fuzz_one "$program" | tee -a "$results" &
done
wait
passed=$(grep -c '^ok ' "$results")
failed=$((${#} - passed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
