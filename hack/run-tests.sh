#!/bin/bash
# Runs cmocka test programs, and scripts (*.sh) that print TAP, and closes with one line:
# "N passed, N failed", and the number of those skipped because this machine cannot run them.
#
#   hack/run-tests.sh PROGRAM...        TEST_TIMEOUT=120 seconds for each program; AT_ONCE=2 of them, otherwise one
#                                       for each processor; RUN_UNDER=... an emulator for programs of another architecture
#
# Programs run side by side, as many wait more than they compute; scripts with a line '# Alone: WHY' after all others,
# one by one. A program that crashes, hangs or prints no result counts as one failure, whatever it printed before. Of
# a program only what failed is shown, a script's output as it comes, behind its name. Exits non-zero when anything
# failed or nothing ran.
set -u
export OPENBLAS_NUM_THREADS=1 # our programs use no more, and those that it starts at first would spin
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
counts=$dir/counts # "PASSED FAILED SKIPPED", a line for each
: >"$counts"

count() { # count PROGRAM STATUS OUTPUT: fails if anything has failed
    local program=$1 rc=$2 out=$3 ok skip bad
    ok=$(grep -c '^ok ' "$out")
    skip=$(grep -c '^not ok .* # SKIP ' "$out") # as cmocka puts it
    bad=$(($(grep -c '^not ok ' "$out") - skip))
    if [ "$bad" -eq 0 ] && { [ "$rc" -ne 0 ] || [ $((ok + skip)) -eq 0 ]; }; then
        bad=1
        echo "not ok - $program ended with status $rc after $ok passed tests"
    fi
    echo "$ok $bad $skip" >>"$counts"
    [ "$bad" -eq 0 ]
}
run_program() {
    local out said
    out=$(mktemp -p "$dir")
    CMOCKA_MESSAGE_OUTPUT=TAP timeout "${TEST_TIMEOUT:-120}" ${RUN_UNDER:+"$RUN_UNDER"} "$1" >"$out" 2>&1 </dev/null
    said=$(count "$1" $? "$out") || printf '%s\n' ${said:+"$said"} "--- $1" "$(<"$out")"
}
run_script() { # takes minutes, so its progress is shown
    local out pid name=${1##*/}
    out=$(mktemp -p "$dir")
    timeout "${TEST_TIMEOUT:-120}" "$1" >"$out" 2>&1 </dev/null &
    pid=$!
    # The script writes to no pipe: that would stay open as long as any daemon it has started.
    tail --quiet --lines=+1 --follow --pid=$pid "$out" | sed -u "s/^/${name%.sh}: /"
    wait $pid
    count "$1" $? "$out"
}
is_alone() { [[ $1 == *.sh ]] && grep -q '^# Alone: ' "$1"; }

running=0
run() { # run PROGRAM AT_ONCE
    if [ "$running" -ge "$2" ]; then
        wait -n
        running=$((running - 1))
    fi
    case $1 in
    *.sh) run_script "$1" & ;;
    *) run_program "$1" & ;;
    esac
    running=$((running + 1))
}
for program; do is_alone "$program" || run "$program" "${AT_ONCE:-$(nproc)}"; done
wait
running=0
for program; do ! is_alone "$program" || run "$program" 1; done
wait
awk '{ passed += $1; failed += $2; skipped += $3 }
    END {
        printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
        exit failed > 0 || passed == 0
    }' "$counts"
