#!/bin/bash
# What re-placement is worth: a job on two nodes that are alike, one of whose workers is given a third of its time
# in mid-run, and all of it again later. The step's time before and after units have moved, each time.
#
#   OUT=build/release tests/bench/replace.sh    prints rows as hack/bench.sh reads them; five minutes
#
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
throttle=0
finish() {
    release
    operator_finish
}
release() {
    [ "$throttle" = 0 ] || { kill "$throttle"; wait "$throttle"; } 2>/dev/null
    throttle=0
}
slow_down() { # slow_down PID
    "$OUT/tests/support/throttle" "$1" 333 &
    throttle=$!
}
step_ms() { # when the median is of nothing else
    sleep 45
    field long '{.status.progress.stepMilliseconds}'
}
move() { # move REVISION: ask until units have moved
    until_true 60 asked "$1" && until_true 60 is long Running 'True Training'
}
asked() {
    revision_is long "$1" || { "$OUT/bin/kubectl-skyjob" replan long && sleep 5 && revision_is long "$1"; }
}
trap finish EXIT
trap 'exit 130' INT TERM

{
    pause_us=0
    operator_set_up && start_agent 'n1,1,2Gi,100' 'n2,1,2Gi,100' && start_operator &&
        model='layers: 12,' batch=128 steps=1000000 job long '  placement: {minStages: 2, maxStages: 2, rebalance: "Off"}' && trains long || exit 1
    alike=$(step_ms)
    slow_down "$(worker_pid long 1)"
    slowed=$(step_ms)
    move 2 || exit 1
    moved=$(step_ms)
    release
    stayed=$(step_ms)
    move 3 || exit 1
    back=$(step_ms)
    say "replace: step $alike ms, slowed $slowed, moved $moved, given back $stayed, moved back $back"
} >&2
row() { # row NAME VALUE OF AGAINST
    awk -v name="$1" -v a="$2" -v b="$3" -v against="$4" -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" 'BEGIN {
        printf "{\"name\":\"replace.%s\",\"value\":%.3f,\"unit\":\"x\",\"against\":\"%s\",\"cpu\":\"%s\"}\n", name, a / b, against, cpu }'
}
row slowed.without "$slowed" "$alike" 'step before, one of two workers has a third of its time'
row slowed.with "$moved" "$alike" 'the same, after units have moved'
row returned.without "$stayed" "$alike" 'the same, the worker has all of its time again'
row returned.with "$back" "$alike" 'the same, after units have moved back'
