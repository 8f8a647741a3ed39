#!/bin/bash
# Units that move while a job trains, on a real cluster: the CPU quota of one worker is cut to a third in
# mid-run and given back. And a replica that lags: for a while, and for good. That a move changes no bit is checked in tests/integration/test_replan.sh.
# Prints TAP. Leaves the cluster up.
#
#   WORKERS="0.5:2 0.5:2 0.5:2 0.5:2" tests/e2e/test_rebalance.sh   four nodes or more: the replicas have two stages each
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
ns=skyjob-e2e-rebalance
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh
exec 3>&1 # comments, also of checks that pass

# units JOB [SLOT]: per stage, or those of a slot. The workers stay, so its stage has that number.
units() { field "$1" "{.status.stages[${2:-*}].unitCount}"; }
decision() { field "$1" '{.status.rebalance.decision}: {.status.rebalance.message}'; }
has_decided() { [[ $(decision "$1") = ?*:* ]]; }
after_failure() { k get sj,pods,events -o wide; k describe sj; k logs -l skyjob.dev/job --tail=20 --prefix; }
comment() { printf '# %s\n' "$*" >&3; }

setup() {
    hack/cluster/up.sh && hack/install.sh || exit 1
    kubectl delete namespace $ns --ignore-not-found --wait
    kubectl create namespace $ns && kubectl label namespace $ns pod-security.kubernetes.io/enforce=restricted
    kubectl get nodes -l '!node-role.kubernetes.io/control-plane' -o name | head -n 3 |
        while read -r node; do kubectl label --overwrite "$node" skyjob-e2e/three=; done
} >&2
setup

job() { # job NAME: on three nodes, or a fourth one would take the place of one that is slow
    k apply -f - <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
  model: {preset: BertTiny, layers: 6, vocabSize: 256, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: 100000, batchSize: 64, microBatches: 8, maxSequenceLength: 64, evaluateEverySteps: 100000}
  placement: {minStages: 3, maxStages: 3, rebalance: Auto}
  worker: {nodeSelector: {skyjob-e2e/three: ""}}
Y
}
# quota JOB SLOT TIMES: of what the pod's container has now, as far as it has one
quota() {
    local node uid
    node=$(k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o 'jsonpath={.items[0].spec.nodeName}') &&
        uid=$(k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o 'jsonpath={.items[0].metadata.uid}') &&
        docker exec "$node" sh -c '
            found=1
            for file in $(find /sys/fs/cgroup -path "*pod'"${uid//-/_}"'*/*/cpu.cfs_quota_us" -o -path "*pod'"${uid//-/_}"'*/*/cpu.max"); do
                read -r quota period <"$file"
                case $quota in max|-1) continue ;; esac
                new=$(awk -v q="$quota" -v t="'"$3"'" "BEGIN { printf \"%d\", q * t }")
                echo "$new${period:+ $period}" >"$file" && found=0
            done
            exit $found'
}
slot_with_most() { # slot_with_most JOB: units, which are worth moving
    field "$1" '{range .status.stages[*]}{.unitCount} {.stage}{"\n"}{end}' | sort -rn | awk 'NR == 1 { print $2 }'
}
has_fewer() { [ "$(units "$1" "$2")" -lt "$3" ]; } # has_fewer JOB SLOT UNITS
has_more() { [ "$(units "$1" "$2")" -gt "$3" ]; }

begins() {
    job moves && until_true 180 has_decided moves && comment "units per stage: $(units moves); $(decision moves)"
}
check 'a job trains on three nodes, and its cut is judged' begins
slowed() {
    slot=$(slot_with_most moves) && had=$(units moves "$slot") && quota moves "$slot" 0.3334 &&
        until_true 300 has_fewer moves "$slot" "$had" || return
    comment "slot $slot slowed: units per stage: $(units moves); $(decision moves)"
    k get events --field-selector "involvedObject.name=moves,reason=Rebalanced" -o 'jsonpath={.items[*].message}' | grep 'units per stage'
}
check 'a worker whose quota is cut to a third gives units away' slowed
quick_again() { # below the quota of its pod, which is an upper limit
    had=$(units moves "$slot") && quota moves "$slot" 2.99 && until_true 300 has_more moves "$slot" "$had" &&
        comment "slot $slot quick again: units per stage: $(units moves); $(decision moves)"
}
check 'with its quota back it gets units again' quick_again
# stays: the workers are those of the first revision, and the newest one goes on from a step that they hold
stays() {
    local name; name=moves-$(field moves '{.metadata.uid}' | cut -c 1-5)-r$(field moves '{.status.revision}')
    [ "$(field moves '{.status.restarts}')" = 0 ] &&
        [ "$(k get pods -l skyjob.dev/job=moves,skyjob.dev/slot -o name | sed 's/.*-w//' | sort | tr '\n' ' ')" = '0-1 1-1 2-1 ' ] &&
        k get configmap "$name" -o 'jsonpath={.data.revision\.json}' |
        jq -e '.plan.revision >= 3 and .step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker")'
}
check 'no step is repeated and no worker is started again' until_true 60 stays

# Two replicas that share a batch, until the last stage of one of them has a fifth of its CPU time.
stages=$(($(kubectl get nodes -o name | wc -l) > 4 ? 2 : 1))
last=$((2 * stages - 1))
rebalance() { k patch sj lags --type merge -p '{"spec":{"placement":{"rebalance":"'"$1"'"}}}'; }
# settles: no share moves any more, and the last move, which may be under way, is long ago: after each one what is usual is
# found anew.
settles() {
    rebalance Off || return
    local step; step=$(field lags '{.status.progress.step}')
    until_true 120 is_past $((step + 60))
}
is_past() { [ "$(field lags '{.status.progress.step}')" -gt "$1" ]; }
replicas() {
    k delete sj moves --wait >/dev/null && k apply -f - <<Y && until_true 240 has_decided lags && settles
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: lags}
spec:
  model: {preset: BertTiny, layers: 6, vocabSize: 256, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  replicas: 2
  sync: {stragglers: Auto}
  training: {steps: 100000, batchSize: 128, microBatches: 16, maxSequenceLength: 64, evaluateEverySteps: 100000}
  placement: {minStages: $stages, maxStages: $stages, rebalance: Auto}
Y
}
check 'a job of two replicas trains, and its shares are judged' replicas
told() { k get events --field-selector "involvedObject.name=lags,reason=$1" -o 'jsonpath={.items[*].message}' | grep .; }
lags_for_a_while() {
    quota lags $last 0.2 && until_true 60 told Straggler && quota lags $last 4.9 && until_true 60 told StragglerGone && comment "$(told Straggler)"
}
check 'a replica that is slow for a while is told, and has less to do meanwhile' lags_for_a_while
has_moved() { [ "$(field lags '{.status.rebalance.moves}')" -gt "$1" ]; }
lags_for_good() {
    local had; had=$(field lags '{.status.rebalance.moves}')
    quota lags $last 0.25 && rebalance Auto && until_true 240 has_moved "${had:-0}" &&
        until_true 30 told Rebalanced && comment "$(decision lags)" && [ "$(field lags '{.status.restarts}')" = 0 ]
}
check 'one that stays slow gets another share' lags_for_good

k delete sj --all >/dev/null 2>&1
k delete pod --all --grace-period=1 >/dev/null 2>&1 # they would train on, to hand their units over
kubectl delete namespace $ns --wait >/dev/null 2>&1
tap_end
