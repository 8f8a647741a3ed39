#!/bin/bash
# Runs cmocka test programs, and scripts (*.sh) that print TAP, and closes with one line:
# "N passed, N failed", and the number of those skipped because this machine cannot run them.
#
#   hack/run-tests.sh PROGRAM...        TEST_TIMEOUT=120 seconds for each program; RUN_UNDER=... an
#                                       emulator for programs of another architecture
#
# A program that crashes, hangs or prints no result counts as one failure, whatever it printed
# before. Of a program only what failed is shown, a script's output as it comes. Exits non-zero when
# anything failed or nothing ran.
set -u
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for program; do
    case $program in
    *.sh) # takes minutes: show its progress
        echo "--- $program"
        : >"$out" # what the program before has printed is not this one's
        timeout "${TEST_TIMEOUT:-120}" "$program" >"$out" 2>&1 </dev/null &
        # Not a pipe: that would stay open as long as any daemon the script has started.
        tail --quiet --lines=+1 --follow --pid=$! "$out"
        wait $!
        rc=$?
        ;;
    *)
        CMOCKA_MESSAGE_OUTPUT=TAP timeout "${TEST_TIMEOUT:-120}" ${RUN_UNDER:+"$RUN_UNDER"} "$program" >"$out" 2>&1 </dev/null
        rc=$?
        ;;
    esac
    ok=$(grep -c '^ok ' "$out")
    skip=$(grep -c '^not ok .* # SKIP ' "$out") # as cmocka puts it
    bad=$(($(grep -c '^not ok ' "$out") - skip))
    if [ "$bad" -eq 0 ] && { [ "$rc" -ne 0 ] || [ $((ok + skip)) -eq 0 ]; }; then
        bad=1
        echo "not ok - $program ended with status $rc after $ok passed tests"
    fi
    case $program in
    *.sh) ;;
    *) [ "$bad" -eq 0 ] || { echo "--- $program"; cat "$out"; } ;;
    esac
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
