#!/bin/bash
# Runs libFuzzer targets, two at a time, and closes with one line: "N passed, N failed".
#
#   hack/fuzz.sh PROGRAM...        FUZZ_SECONDS=60 seconds for each program
#
# A target fuzz_NOUN starts from tests/fuzz/seeds/NOUN and from what earlier runs have found, which
# is kept in build/fuzz/corpus/NOUN; tests/fuzz/dict/NOUN.dict names words that it should try. A
# finding is a broken promise, a sanitizer's report, an input that takes longer than 10 s or more
# than 1 GiB: then the input's path and the way to see it again are printed, and the script fails.
set -u
seconds=${FUZZ_SECONDS:-60}
root=build/fuzz
mkdir -p "$root/corpus" "$root/findings" "$root/logs"

# fuzz_one PROGRAM: one line of TAP, and what there is to know about a finding.
fuzz_one() {
    local program=$1 noun=${1##*/fuzz_} rc log finding
    local dict=tests/fuzz/dict/$noun.dict seeds=tests/fuzz/seeds/$noun
    local -a more=()
    log=$root/logs/$noun.txt
    mkdir -p "$root/corpus/$noun"
    [ ! -f "$dict" ] || more+=("-dict=$dict")
    more+=("$root/corpus/$noun")
    [ ! -d "$seeds" ] || more+=("$seeds")
    # The outer limit is for a target that no longer looks at the clock.
    # The quarantine of freed memory is the sanitizer's own and would be half of the limit.
    ASAN_OPTIONS=quarantine_size_mb=64 timeout -k 10 $((seconds + 120)) "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -malloc_limit_mb=256 -max_len=4096 -reload=0 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix="$root/findings/$noun-" "${more[@]}" >"$log" 2>&1 </dev/null
    rc=$?
    if [ "$rc" -eq 0 ] && [ -n "$(stat_of number_of_executed_units "$log")" ]; then
        echo "ok - fuzz_$noun: $(stat_of number_of_executed_units "$log") inputs," \
            "$(stat_of average_exec_per_sec "$log") a second, $(covered "$log") edges"
        return
    fi
    grep -v '^#[0-9]' "$log" | tail -n 40 | sed 's/^/    /'
    finding=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    echo "not ok - fuzz_$noun ended with status $rc; the whole report: $log"
    [ -z "$finding" ] || echo "    see it again with: $program $finding"
}

stat_of() { # stat_of NAME LOG
    sed -n "s/^stat::$1: *//p" "$2"
}

covered() { # covered LOG
    sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$1" | tail -n 1
}

results=$(mktemp) || exit 1
trap 'rm -f "$results"' EXIT
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
