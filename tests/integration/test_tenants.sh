#!/bin/bash
# What a user who may do everything in one namespace can try against another one and the cluster. While it is
# tried, a job elsewhere trains and leaves what it always leaves; the operator stays alive and small.
#
#   OUT=build/release tests/integration/test_tenants.sh [WORD...]    only checks that name a WORD
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
at_exit operator_finish

set_up() {
    local i nodes=('n1,2,4Gi,80' 'n2,1,2Gi,40' 'n3,500m,1Gi,20')
    operator_set_up && kubectl create namespace mallory >/dev/null && # a pod's own program decides what its status says
        kubectl -n mallory create role tenant --verb='*' \
            --resource=pods,pods/status,configmaps,secrets,events,skyjobs.skyjob.dev,skyjobs.skyjob.dev/status >/dev/null &&
        kubectl -n mallory create rolebinding tenant --role=tenant --user=mallory >/dev/null || return
    for i in {1..30}; do nodes+=("m$i,64,64Gi,40"); done
    start_agent "${nodes[@]}" 'm31,64,64Gi' && until_true 20 own_nodes && start_operator
}
own_nodes() { # these are for those who ask for them; of the last one nothing is known
    kubectl taint node m{1..31} tenant=mallory:NoSchedule --overwrite && kubectl label node m{1..30} tenant=mallory
}
mallory() { kubectl --as mallory -n mallory "$@"; }
as_mallory() { ( # as_mallory COMMAND...: all that it does with kubectl
    # shellcheck disable=SC2317 # the command does
    kubectl() { command kubectl --as mallory -n mallory "$@"; }
    "$@"
); }
after_failure() { { kubectl get sj,pods -A -o wide; tail -n 25 "$dir/operator.log"; } | cut -c1-300; }
after_check() {
    kubectl delete sj -A --all --wait=false >/dev/null
    mallory delete pods --all --wait=false >/dev/null
    until_true 40 no_pods_anywhere && is_well
}
no_pods_anywhere() { [ -z "$(kubectl get pods -A -o name)" ]; }
is_well() { # the same process, with 80 MiB at most
    kill -0 "$operator" && awk '/VmHWM/ {print $2 " KiB at most"; exit $2 > 81920}' "/proc/$operator/status"
}
# unharmed [COMMAND...]: a job of another namespace, with the command run while it trains
unharmed() {
    steps=700 kept victim && trains victim && "$@" && completes victim 120 && [ "$(field victim '{.status.revision} {.status.restarts}')" = '1 0' ] &&
        as_undisturbed victim
}
as_undisturbed() { # as_undisturbed JOB: it has left what the first one did
    left_by "$1" >"$dir/left" || return
    [ -e "$dir/undisturbed" ] || cp "$dir/left" "$dir/undisturbed"
    cmp "$dir/left" "$dir/undisturbed"
}

# --- what is tried ---
has_own_rights() {
    ! mallory get nodes && ! kubectl --as mallory get pods && ! kubectl --as mallory create configmap x && mallory create configmap x && unharmed true
}
nul() { # in an object of its own
    mallory create --raw /api/v1/namespaces/mallory/pods -f - >/dev/null <<'J' || return
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nul", "annotations": {"n": "a\u0000b"}},
 "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "x", "env": [{"name": "N", "value": "\u0000"}]}]}}
J
    mallory get --raw /api/v1/namespaces/mallory/pods/nul | has -F 'a\u0000b'
}
watched_and_listed() { # watched_and_listed COMMAND...: what it makes is seen in events, and in lists
    unharmed "$@" && kill_operator TERM && start_operator && kubectl delete sj --all >/dev/null && unharmed true
}
large_pods() { # with the labels of the other's workers
    local i uid
    uid=$(field victim '{.metadata.uid}')
    head -c 1000000 /dev/zero | tr '\0' x >"$dir/text"
    for i in {1..20}; do
        mallory create -f - >/dev/null <<Y || return
apiVersion: v1
kind: Pod
metadata:
  name: large$i
  labels: {skyjob.dev/job: victim, skyjob.dev/job-uid: $uid, skyjob.dev/role: worker, skyjob.dev/slot: '1', skyjob.dev/incarnation: '$i'}
spec: {nodeName: nowhere, containers: [{name: c, image: x, env: [{name: FILLER, value: $(cat "$dir/text")}]}]}
Y
    done
}
hopeless() { # a hundred jobs of the largest models, of 200 KB each, that no nodes are enough for
    local i filler
    filler=$(head -c 200000 /dev/zero | tr '\0' x)
    for i in {1..100}; do
        cat <<Y
---
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: hopeless$i, annotations: {filler: $filler}}
spec:
  model: {preset: BertLarge, layers: 512, hiddenSize: 16384, attentionHeads: 256, feedForwardSize: 65536}
  data: {source: {sample: MNLI}}
  replicas: Auto
  worker: {tolerations: [{operator: Exists}]}
  placement: {minStages: 1, maxStages: 64}
  training: {steps: 1000, batchSize: 1024}
Y
    done >"$dir/hopeless.yaml"
    mallory create -f "$dir/hopeless.yaml" >/dev/null && until_true 60 is_hopeless
}
is_hopeless() { mallory get sj -o jsonpath='{.items[*].status.conditions[?(@.type=="Placed")].reason}' | has InsufficientNodes; }
# odd_workers IMAGE: thirty jobs on nodes of their own
odd_workers() {
    local i
    for i in {1..30}; do
        source='sample: MNLI' as_mallory job "odd$i" "  worker: {image: $1, nodeSelector: {tenant: mallory}, tolerations: [{operator: Exists}]}
  placement: {minStages: 1, maxStages: 1, probePolicy: Never}" >/dev/null || return
    done
    until_true 60 runs 30
}
runs() { [ "$(mallory get pods --field-selector status.phase=Running -o name | wc -l)" -ge "$1" ]; }
same_names() { # in a namespace of its own, and deleted again
    source='sample: MNLI' as_mallory job victim "  worker: {nodeSelector: {tenant: mallory}, tolerations: [{operator: Exists}]}
  placement: {minStages: 3, maxStages: 3, probePolicy: Never}" && until_true 60 runs 3 && mallory delete sj victim --wait=false
}
# A job that measures a node with an image of its own, which says what it likes.
lies() {
    source='sample: MNLI' as_mallory job liar "  worker: {image: missing, nodeSelector: {kubernetes.io/hostname: m31}, tolerations: [{operator: Exists}]}
  placement: {minStages: 1, maxStages: 1}" >/dev/null && until_true 30 has_probe || return
    mallory patch "$(mallory get pods -o name)" --subresource=status --type merge -p "{\"status\":$(ended Succeeded 0 '{\"gflops\":99999,\"unitMs\":0.1,\"threads\":1}')}" &&
        until_true 20 no_probe && kubectl get node m31 -o json | jq -e '.metadata | .labels + .annotations | keys | map(select(startswith("skyjob.dev"))) == []'
}
has_probe() { [ "$(mallory get pods -o name | wc -l)" = 1 ]; }
no_probe() { ! mallory get pods -o name | has probe; }
# The status that it gives its own jobs names the workers and pods of another.
forged_status() {
    local i=0 status
    as_mallory job forger '  placement: {minStages: 9, maxStages: 9}' >/dev/null && status=$(kubectl get sj victim -o json | jq -c '{status: .status}') || return
    for ((i = 0; i < 10; i++)); do mallory patch sj forger --subresource=status --type merge -p "$status" >/dev/null || return; done
}

set_up || exit 1
check 'a tenant has rights in its own namespace only' has_own_rights
check 'a NUL in a pod' watched_and_listed nul
check 'pods of a megabyte, with the labels of workers of another job' watched_and_listed large_pods
check 'a hundred jobs of the largest models that no nodes are enough for' watched_and_listed hopeless
check 'workers that accept connections and never answer' unharmed odd_workers silent
check 'workers that answer nonsense' unharmed odd_workers nonsense
check 'a job of the same name that comes and goes' unharmed same_names
check 'a probe of its own image that reports too much' unharmed lies
check 'the status of another job, given to one of its own' unharmed forged_status
tap_end
