#!/bin/bash
# Faults on a real cluster, with checkpoints on a volume that all nodes share, or on the nodes' own disks: a
# job that was struck ends with the very weights of one that was not. Prints TAP. Leaves the cluster up.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
ns=skyjob-e2e-faults
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh
shared=$CACHE/cluster/shared
volume='{persistentVolumeClaim: {claimName: shared}}'
steps=300
exec 3>&1 # comments, also of checks that pass

complete() { k wait --for=condition=Complete "sj/$1" --timeout="${2:-300}s"; }
worker() { k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o "jsonpath={.items[0]$3}"; } # worker JOB SLOT PATH
dump() { k get sj,pods,events -o wide; k describe sj; k logs -l skyjob.dev/job --tail=20 --prefix; } >&2

setup() {
    hack/cluster/up.sh && hack/install.sh || exit 1
    kubectl delete namespace $ns --ignore-not-found --wait
    kubectl delete pv $ns --ignore-not-found --wait
    kubectl create namespace $ns && kubectl label namespace $ns pod-security.kubernetes.io/enforce=restricted
    rm -rf "${shared:?}"/*
    k apply -f - <<Y
apiVersion: v1
kind: PersistentVolume
metadata: {name: $ns}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  hostPath: {path: /mnt/shared}
  claimRef: {namespace: $ns, name: shared}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  resources: {requests: {storage: 1Gi}}
Y
} >&2
setup

# Always the same cut, so that the files of two jobs can be compared.
job() { # job NAME [STORE]
    mkdir -m 777 "$shared/$1" && k apply -f - <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
  model: {preset: BertTiny, vocabSize: 256, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: $steps, batchSize: 64, microBatches: 8, maxSequenceLength: 64, evaluateEverySteps: 100}
  placement: {strategy: Even, minStages: 2, maxStages: 2}
  checkpoint: {everySteps: 20, store: ${2:-$volume}}
  output: {persistentVolumeClaim: {claimName: shared, path: $1}}
Y
}
# The status is up to 10 s late, which is enough for a quick machine to finish.
has_saved() {
    k logs -l "skyjob.dev/job=$1,skyjob.dev/slot=0" --tail=-1 |
        grep -Eq '"msg":"checkpoint written","stage":0,"step":([6-9][0-9]|[0-9]{3,}),'
}
started() { job "$@" && until_true 120 has_saved "$1"; }
losses() { jq -c 'del(.seconds, .tokensPerSecond, .stepMilliseconds)' "$shared/$1/history.jsonl"; }
# The same bits in all files, and the same losses and metrics on the way.
same() {
    local file n=0
    for file in "$shared/plain"/*.safetensors; do
        cmp "$file" "$shared/$1/${file##*/}" || return
        n=$((n + 1))
    done
    [ "$n" -gt 0 ] && [ "$(losses "$1" | wc -l)" -ge "$steps" ] && diff <(losses plain) <(losses "$1")
}
# How long it took until all were connected again, by the clock of the node of the first stage.
strike() {
    struck=$(date +%s)
    "$@"
}
pause() {
    k logs -l "skyjob.dev/job=$1,skyjob.dev/slot=0" --tail=-1 | jq -Rr --argjson struck "$struck" '
        fromjson? | select(.msg == "stage ready") | (.time | fromdate) - $struck | select(. >= 0)' | sort -n | head -1 |
        sed 's/^/# seconds from the fault to the next steps: /' >&3
}
# Behind a fault that was felt.
ended() { complete "$1" && pause "$1" && k get sj "$1" && [ "$(field "$1" '{.status.revision}')" -ge 2 ] && same "$1"; }

undisturbed() { job plain && complete plain && [ "$(losses plain | wc -l)" -ge "$steps" ]; }
check 'a job with checkpoints trains to Complete' undisturbed
on_node() { docker exec "$(worker "$1" "$2" .spec.nodeName)" pkill "$3" -f 'skyjob-worker stage'; } # on_node JOB SLOT SIGNAL
killed() { started killed && strike on_node killed 1 -KILL && ended killed; }
check 'a worker is killed: the same weights' killed
frozen() { started frozen && strike on_node frozen 1 -STOP && ended frozen; }
check 'a worker is frozen: the same weights' frozen
operator_too() {
    started both && kubectl -n skyjob-system delete pod --all --wait=false && strike on_node both 0 -KILL && ended both
}
check 'the leader and the operator are killed at once: the same weights' operator_too
all_deleted() { started all && strike k delete pod -l skyjob.dev/job=all --wait=false --grace-period=1 && ended all; }
check 'all pods are deleted at once: the same weights' all_deleted
node_stopped() {
    local node rc=0
    started node '{peers: {}}' && node=$(worker node 1 .spec.nodeName) && strike docker kill "$node" || return
    ended node && [ "$(field node '{.status.revisionStep}')" -ge 20 ] || rc=1
    docker start "$node" && kubectl wait --for=condition=Ready "node/$node" --timeout=120s
    return $rc
}
check 'a node is stopped for good, with the checkpoints on its disk: the same weights' node_stopped

k delete sj --all --timeout=60s >/dev/null 2>&1
kubectl delete namespace $ns --wait >/dev/null 2>&1
kubectl delete pv $ns --wait >/dev/null 2>&1
tap_end
