#!/bin/bash
# Jobs whose operator or API server is away, dies at any moment or comes back with an older state.
#
#   FAULTS=after, FAULTS='after 2 POST pods'   of 'the operator may die ...' and 'events may come twice': at every call or event, or only there
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/three_nodes.sh
. tests/support/three_nodes.sh

loses_revision() { # it is made again with the same bytes, and nothing else happens
    local map
    steps=700 job planless "$stages3" && trains planless && map=$(prefix planless)-r1 && document "$map" >"$dir/document" &&
        kubectl delete configmap "$map" >/dev/null && until_true 10 has_event RevisionRestored && document "$map" | cmp - "$dir/document" &&
        completes planless && [ "$(field planless '{.status.revision}')" = 1 ] && [ "$(workers_of planless)" = 'w0-1 w1-1 w2-1 ' ]
}
forgets_revision() { # the operator too: the next one follows from the reports of the workers
    local uids
    steps=700 job forgets "$stages3" && trains forgets && uids=$(uids_of forgets 0,1,2) || return
    kill_operator KILL
    kubectl delete configmap "$(prefix forgets)-r1" >/dev/null
    start_operator
    until_true 20 has_event RevisionLost && until_true 30 revision_is forgets 2 && completes forgets &&
        [ "$(field forgets '{.status.revision} {.status.restarts}')" = '2 0' ] && [ "$(uids_of forgets 0,1,2)" = "$uids" ] &&
        [ "$(field forgets '{.status.revisionStep}')" -gt 0 ]
}
loses_operator() {
    local delay
    steps=700 job steady "$stages3"
    for delay in 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.12 0.4 0.17; do # at many moments of its start, too
        sleep "$delay"
        kill_operator KILL
        start_operator
    done
    trains steady || return
    kill_operator KILL
    start_operator
    completes steady && [ "$(field steady '{.status.revision} {.status.restarts}')" = '1 0' ] &&
        [ "$(workers_of steady)" = 'w0-1 w1-1 w2-1 ' ]
}
start_later_operator() { local operator_options=(--worker-image missing:1) && start_operator; }
operator_away() { # a pod is lost, and the job ends, while nobody looks
    steps=700 job alone "$stages3" && trains alone || return
    kill_operator TERM
    kubectl delete "$(worker_pod alone 0)" --grace-period=1 >/dev/null
    start_later_operator
    until_true 30 revision_is alone 2 && until_true 30 is alone Running 'True Training' || return
    kill_operator KILL
    until_true 60 grep -q '"msg":"evaluated","step":700,' "$dir"/agent/logs/alone-* || return
    start_operator
    completes alone && [ "$(field alone '{.status.revision}')" = 2 ]
}
# --- the API server is away ---
pause() { hack/cluster/envtest.sh pause "$dir/api"; }
resume() { hack/cluster/envtest.sh resume "$dir/api"; }
hang() { kill -STOP "$(cat "$dir/api/kube-apiserver.pid")"; }
go_on() { kill -CONT "$(cat "$dir/api/kube-apiserver.pid")"; }
evaluations() { cat "$dir"/agent/logs/"$1"-* | awk '/"msg":"evaluated"/ { n++ } END { print n + 0 }'; }
evaluates_on() { [ "$(evaluations "$1")" -ge "$2" ]; }
away_for() { # away_for AWAY BACK: for some time, in which steps are done
    local n rc=0
    "$1"
    n=$(evaluations alone)
    until_true 60 evaluates_on alone $((n + 3)) && sleep "${AWAY_S:-5}" || rc=1
    "$2" && return "$rc"
}
long_one() { train='evaluateEverySteps: 100,' calm=undisturbed-long steps=2000 "$@"; }
without_api() {
    long_one kept alone && trains alone && away_for hang go_on && away_for pause resume || return
    completes alone 120 && [ "$(field alone '{.status.revision} {.status.restarts}')" = '1 0' ] && long_one as_undisturbed alone
}
# What cannot be written is an error after a while.
no_store() { # once the operator has listed all
    pause && API_OPTIONS='--request-timeout 2s' resume && trains alone "$(field alone '{.status.progress.step}')" &&
        kill -STOP "$(cat "$dir/api/etcd.pid")"
}
store_again() { # once the operator has seen it
    local rc=0
    was_refused '\(5..\)' || rc=1
    kill -CONT "$(cat "$dir/api/etcd.pid")" && until_true 30 kubectl get --raw /readyz && return "$rc"
}
was_refused() { until_true 60 grep -qE "\"patch [^\"]*($1)" "$dir/operator.log"; } # was_refused PATTERN: a write, with an error like this
refuses_writes() {
    long_one kept alone && trains alone && no_store && store_again && completes alone 120 &&
        [ "$(field alone '{.status.revision} {.status.restarts}')" = '1 0' ] && long_one as_undisturbed alone
}
version() { kubectl get --raw '/api/v1/namespaces?limit=1' | jq .metadata.resourceVersion -r; }
write_until() { # write_until VERSION
    local n=0
    while [ "$(version)" -le "$1" ]; do
        seq $((n + 1)) $((n += 200)) | jq '{apiVersion: "v1", kind: "ConfigMap", metadata: {name: "filler-\(.)"}}' | kubectl create -f - >/dev/null
    done
}
restore() { # the operator sees the server only once that has passed the version of what was lost
    local lost rc=0
    lost=$(version) && kill -STOP "$operator" || return
    pause && rm -rf "$dir/api/etcd" && mv "$dir/snapshot" "$dir/api/etcd" && resume && write_until "$lost" || rc=1
    kill -CONT "$operator" && return "$rc"
}
# In the older state the job has not lost the worker that it has lost since, and another job is not there yet.
# As if it had crashed then. A job may be done before the API server has been stopped and started again.
snapshot() {
    local etcd rc=0
    etcd=$(cat "$dir/api/etcd.pid") && rm -rf "$dir/snapshot" && kill -STOP "$etcd" || return
    cp -a "$dir/api/etcd" "$dir/snapshot" || rc=1
    kill -CONT "$etcd" && return "$rc"
}
restored() {
    stages=$stages2 long_one kept old && trains old && snapshot &&
        steps=1000000 job young '  placement: {minStages: 1, maxStages: 1, rebalance: "Off"}' && trains young && kubectl delete "$(worker_pod old 1)" --wait=false &&
        until_true 30 revision_is old 2 && trains old 200 && restore &&
        until_true 60 no_workers_of young && completes old 180 && long_one as_undisturbed old
}
no_workers_of() { ! pgrep -f -- "skyjob-worker stage .*$dir/agent/[^ ]*$1"; }
# --- the operator dies at any call, and its watches are disturbed ---
run_noted() { # run_noted FILE: its calls are noted in the file
    export LD_PRELOAD=$PWD/$OUT/tests/support/fault_at.so FAULT_LOG=$1 FAULT_AT CLOCK_OFF_S
    run_operator
}
# What dies is started again, as its Deployment would do.
keep_operator() { # keep_operator POSITION: see tests/support/fault_at.c
    local at=$1 rc child
    trap 'kill "$child"; wait "$child"; exit' TERM
    while :; do
        FAULT_AT=$at run_noted "$dir/calls" &
        child=$!
        wait "$child"
        rc=$?
        [ "$rc" = 137 ] || exit "$rc"
        case $at in *' each') ;; *) at= ;; esac
    done
}
# life POSITION: a job of three workers that loses one. Prints what is there in the end, without what
# is the job's own in its names.
life() {
    local rc=0
    rm -f "$dir/calls" "$dir/calls.events"
    kill_operator TERM
    keep_operator "$1" 2>/dev/null &
    operator=$!
    { steps=300 job life "$stages3" && until_true 60 grep -q '"msg":"stage ready"' "$dir/agent/logs/$(prefix life)-w0-1.log" &&
        kubectl delete "$(worker_pod life 1)" --wait=false && completes life; } >&2 || rc=1
    until_true 20 settled life >&2 || rc=1
    end_of life
    kubectl delete sj life --wait=false >&2
    until_true 20 no_pods >&2 || rc=1
    kill_operator TERM
    start_operator
    return "$rc"
}
# --- two operators ---
holder() { kubectl -n skyjob-system get lease skyjob-operator -o 'jsonpath={.spec.holderIdentity}' 2>/dev/null; }
leads_other() { [ -n "$(holder)" ] && [ "$(holder)" != "$1" ]; } # leads_other THAN
two_operators() { # the first leads
    kill_operator TERM
    operator_options=(--leader-election skyjob-system/skyjob-operator)
    rm -f "$dir/calls" "$dir/spare-calls"
    CLOCK_OFF_S=${first_off_s:-0} run_noted "$dir/calls" &
    operator=$!
    until_true 15 leads_other '' || return
    CLOCK_OFF_S=${second_off_s:-0} run_noted "$dir/spare-calls" &
    spare=$!
}
one_operator() {
    kill "$spare" "$operator" 2>/dev/null
    wait "$spare" "$operator" 2>/dev/null
    operator_options=()
    start_operator
}
# takes_over SIGNAL SECONDS: the leader gets the signal in mid-run, and the other one leads within that time.
takes_over() {
    local first
    two_operators && steps=1200 job led "$stages3" && trains led && first=$(holder) && [ ! -e "$dir/spare-calls" ] && kill "-$1" "$operator" &&
        until_true "$2" leads_other "$first" && completes led && field led '{.status.revision} {.status.restarts}' | has '^1 0$' &&
        kubectl -n skyjob-system get events | has "$(holder) became leader"
}
checks_cluster() { # without a leader, by an account that may hardly read anything, and with a leader
    local rc=0 cli=$OUT/bin/kubectl-skyjob
    ! "$cli" check >"$dir/text" || rc=1
    cat "$dir/text"
    grep -x 'ok       crd        SkyJobs of v1alpha1 are served, with every field' "$dir/text" && grep '^problem  leader     no operator leads, ' "$dir/text" &&
        grep '^warning  operator   0 of 0 pods are ready' "$dir/text" && grep -x 'ok       create     you may create SkyJobs in the namespace default' "$dir/text" &&
        grep '^ok       capacity   3 of 3 nodes can have workers' "$dir/text" && grep '^ok       network ' "$dir/text" && grep '^ok       admission  4 ' "$dir/text" || rc=1
    ! "$cli" check --kubeconfig "$dir/operator.kubeconfig" >"$dir/text" || rc=1
    cat "$dir/text"
    grep '^unknown  crd        its schema may not be read, but ' "$dir/text" && grep '^unknown  leader ' "$dir/text" && grep '^unknown  operator ' "$dir/text" &&
        grep '^problem  create     you may not create SkyJobs in the namespace default' "$dir/text" && grep '^ok       nodes ' "$dir/text" &&
        grep '^unknown  admission ' "$dir/text" || rc=1
    two_operators && "$cli" check >"$dir/text" || rc=1
    cat "$dir/text"
    grep '^ok       leader     .* leads, by the Lease skyjob-system/skyjob-operator$' "$dir/text" || rc=1
    one_operator
    return "$rc"
}
killed_leader() { # neither clock is that of the API server, the workers and this script
    local rc=0
    first_off_s=3600 second_off_s=-3540 takes_over KILL 22 || rc=1
    one_operator
    return "$rc"
}
ended_leader() {
    local rc=0
    takes_over TERM 8 || rc=1
    one_operator
    return "$rc"
}
# It goes on without having noticed that it was stopped, while there is something to do.
stopped_leader() {
    local rc=0 calls
    takes_over STOP 22 || rc=1
    steps=4000 job busy "$stages3" && trains busy || rc=1
    calls=$(grep -cv leases "$dir/calls")
    kill -CONT "$operator"
    wait "$operator"
    [ $? = 1 ] || { echo 'the first operator did not fail'; rc=1; }
    [ "$(grep -cv leases "$dir/calls")" = "$calls" ] || { tail -n "+$calls" "$dir/calls"; rc=1; }
    one_operator
    return "$rc"
}
settled() { [ "$(kubectl get pods -l "skyjob.dev/job=$1" --field-selector status.phase=Running -o name | wc -l)" = 0 ]; }
end_of() {
    field "$1" '{.status.state} {.status.revision} {.status.restarts} {.status.progress.step} {.status.progress.loss} {.status.progress.metrics[*].value}{"\n"}'
    kubectl get pods,configmaps,secrets,networkpolicies -l "skyjob.dev/job=$1" -o name | sed -E "s/$1-[0-9a-f]{5}-/$1-/"
}
positions() { # positions LOG FAULT: every single call or event of the undisturbed life
    sort "$1" | uniq -c | while read -r n kind; do
        for ((i = 1; i <= (n > 40 ? 40 : n); i++)); do echo "$2 $i $kind"; done
    done
}
tell() { # also to who waits for all positions
    echo "$*"
    [ -z "${FAULTS:-}" ] || echo "$*" >>"$OUT/faults.log"
}
# only_usual LOG: leaves in it what two more undisturbed lives have as well. How often workers are asked for their
# status, say, differs from life to life.
only_usual() {
    local n
    for n in 2 3; do
        life '' >"$dir/disturbed" && cmp "$dir/unharmed" "$dir/disturbed" || return
        comm -12 <(sort "$1") <(sort "$dir/${1##*/unharmed-}") >"$dir/usual" && mv "$dir/usual" "$1" || return
    done
}
# ends_alike LOG FAULT...: the job ends alike, whichever call or event has the fault. One may still end before a late
# position comes.
ends_alike() {
    local at n wrong=0 early=0
    if [ ! -s "$dir/unharmed" ]; then
        life '' >"$dir/unharmed" || { cat "$dir/unharmed"; return 1; }
        mv "$dir/calls" "$dir/unharmed-calls" && mv "$dir/calls.events" "$dir/unharmed-calls.events"
    fi
    cat "$dir/unharmed"
    case ${FAULTS:-} in
    '') printf '%s each\n' "${@:2}" ;;
    *' '*) echo "$FAULTS" ;;
    *)
        only_usual "$1" >&2 || return
        echo "$FAULTS each"
        positions "$1" "$FAULTS"
        ;;
    esac >"$dir/positions"
    while read -r at; do
        if life "$at" >"$dir/disturbed" && cmp "$dir/unharmed" "$dir/disturbed"; then
            n=$(grep -cE "^${at%% *} " "$dir/calls")
            tell "$at: as undisturbed, $n faults"
            case "$at $n" in
            *' each 0' | *' each 1') wrong=$((wrong + 1)) ;;
            *' 0') early=$((early + 1)) ;;
            esac
        else
            wrong=$((wrong + 1))
            tell "$at: NOT as undisturbed"
            cat "$dir/calls" "$dir/disturbed"
        fi
    done <"$dir/positions"
    tell "$(wc -l <"$dir/positions") lives, $wrong of them wrong, $early without the fault"
    [ "$wrong" = 0 ] && [ $((early * 10)) -lt "$(wc -l <"$dir/positions")" ]
}
dies_anywhere() { ends_alike "$dir/unharmed-calls" before after; }
sees_badly() { ends_alike "$dir/unharmed-calls.events" repeat hold lose; }

[ -z "${FAULTS:-}" ] || nodes[0]=n1,1,4Gi,80 # threads of several runs side by side would keep each other waiting
start_three_nodes || exit 1
check 'a revision that is deleted is restored byte for byte, and training goes on' loses_revision
check 'workers go on from where they are when their revision is lost' forgets_revision
check 'the operator may be killed at any moment' loses_operator
check 'the operator may die before and after each kind of call' dies_anywhere
check 'events may come twice, late or not at all' sees_badly
check 'what happens while the operator is away is seen afterwards, and workers keep their image' operator_away
check 'a cluster is checked for what SkyJob needs' checks_cluster
check 'a leader that is killed is followed by the other operator, though their clocks are two hours apart' killed_leader
check 'a leader that ends is followed at once' ended_leader
check 'a leader that was stopped for a while ends, and calls nobody' stopped_leader
check 'workers train on while the API server hangs, and while it is away' without_api
check 'a job goes on while the API server can store nothing' refuses_writes
check 'a job goes on when the API server is restored to an older state, and one that it does not have ends' restored
tap_end
