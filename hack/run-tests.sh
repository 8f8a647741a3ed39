#!/bin/bash
# Runs cmocka test programs and closes with one line: "N passed, N failed".
#
#   hack/run-tests.sh PROGRAM...        TEST_TIMEOUT=120 seconds for each program
#
# A program that crashes, hangs or prints no result counts as one failure, whatever it printed
# before. Only what failed is shown in full. Exits non-zero when anything failed or nothing ran.
set -u
passed=0 failed=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
for program; do
    CMOCKA_MESSAGE_OUTPUT=TAP timeout "${TEST_TIMEOUT:-120}" "$program" >"$out" 2>&1 </dev/null
    rc=$?
    ok=$(grep -c '^ok ' "$out")
    bad=$(grep -c '^not ok ' "$out")
    if [ "$bad" -eq 0 ] && { [ $rc -ne 0 ] || [ "$ok" -eq 0 ]; }; then
        bad=1
        echo "not ok - $program ended with status $rc after $ok passed tests"
    fi
    [ "$bad" -eq 0 ] || { echo "--- $program"; cat "$out"; }
    passed=$((passed + ok)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
