#!/bin/bash
# What the other replica does when one is slow for a while: real workers as local processes.
# Alone: a replica that lags is told by its speed.
# Prints TAP. Arguments: only the checks whose sentence has one of these words.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
tap_only=("$@")
out=${OUT:-build/release}
work=$(mktemp -d)
at_exit "rm -rf $work"

# One of two replicas with equal shares gets a fifth of its CPU time until the other's answer is seen.
lagging() { # lagging STRAGGLERS ANSWER
    local pid run rc throttle
    cat >"$work/job.yaml" <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: lagging}
spec:
  model: {preset: BertTiny, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  replicas: 2
  sync: {stragglers: $1}
  training: {steps: 2000, batchSize: 32, microBatches: 8, maxSequenceLength: 64}
Y
    timeout 240 "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli >"$work/log" 2>&1 &
    pid=$!
    until_true 60 grep -qE '^step [1-9][0-9][0-9]/' "$work/log"
    run=$(pgrep -P "$pid") # $pid is timeout's
    "$out/tests/support/throttle" "$(pgrep -P "$run" -f -- '--slot 1')" 200 &
    throttle=$!
    until_true 60 grep -qE "takes .* ms per micro-batch instead of the usual .*$2" "$work/log"
    rc=$?
    kill "$throttle"
    wait "$pid" && [ "$rc" = 0 ] && grep -q '^done: 2000 steps' "$work/log" && return
    cat "$work/log"
    return 1
}
shared='the others compute what it would hold up, in steps of [0-9]+ ms instead of [0-9]+'
check 'a replica that is slow for a while has less to do until it is quick again' lagging Elastic "$shared"
check 'replicas are asynchronous while one of them is slow' lagging Greedy 'replicas are asynchronous meanwhile'
check 'other shares are chosen for a replica that is slow for a while' lagging Auto "$shared"
tap_end
