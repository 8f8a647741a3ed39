#!/bin/bash
# Queued jobs with the real Kueue: one ClusterQueue, a queue "nlp" of it, and jobs whose workers name
# that. Kueue's webhook gates their pods. Minutes; `make test-kueue`.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
at_exit finish
kueue=0
finish() {
    [ "$kueue" = 0 ] || { kill "$kueue"; wait "$kueue"; } 2>/dev/null
    operator_finish
}

# --- Kueue ---
port=$((20000 + RANDOM % 10000)) certs=$dir/etc/kueue/metrics/certs
kueue_config() {
    cat <<Y
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: "127.0.0.1:$((port + 1))"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: $port, certDir: $certs}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
integrations: {frameworks: [pod]}
featureGates: {VisibilityOnDemand: false}
Y
}
# Of its webhooks those for its own objects and for pods, at an address of this machine.
kueue_webhooks() {
    kubectl create --dry-run=client -o json -f "$CACHE/gomod/sigs.k8s.io/kueue@$KUEUE_VERSION/config/components/webhook/manifests.yaml" |
        jq --arg url "https://127.0.0.1:$port" --arg ca "$(base64 -w 0 "$certs/tls.crt")" '
            def wanted: .rules[0] | .apiGroups == ["kueue.x-k8s.io"] or .resources == ["pods"];
            (.items[]? // .) | .webhooks |= map(select(wanted) | .clientConfig = {url: ($url + .clientConfig.service.path), caBundle: $ca})'
}
queue() { # queue CPU [STOP-POLICY]
    kubectl apply -f - >/dev/null <<Y
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  stopPolicy: ${2:-None}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: "$1"}, {name: memory, nominalQuota: 64Gi}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: nlp, namespace: default}
spec: {clusterQueue: all}
Y
}
# It looks for a certificate of its metrics, which nobody asks for here, in a fixed folder.
start_kueue() {
    mkdir -p "$certs" && kueue_config >"$dir/kueue.yaml" && kubectl create namespace kueue-system >/dev/null &&
        add_crds "$CACHE/gomod/sigs.k8s.io/kueue@$KUEUE_VERSION/config/components/crd/bases" &&
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=kueue -addext 'subjectAltName=IP:127.0.0.1' \
            -keyout "$certs/tls.key" -out "$certs/tls.crt" 2>/dev/null || return
    unshare --map-root-user --mount sh -c "mount -t overlay overlay -o lowerdir=$dir/etc:/etc /etc && exec $BIN/kueue --config $dir/kueue.yaml --kubeconfig $KUBECONFIG" >"$dir/kueue.log" 2>&1 &
    kueue=$!
    until_true 60 curl -sf "http://127.0.0.1:$((port + 1))/readyz" && kueue_webhooks | kubectl apply -f - >/dev/null && until_true 20 queue 0
}

# --- jobs ---
# Two workers of a CPU each.
queued='  placement: {minStages: 2, maxStages: 2, rebalance: "Off"}
  worker: {labels: {kueue.x-k8s.io/queue-name: nlp}}'
state_is() { [ "$(field "$1" '{.status.state}')" = "$2" ]; }
admitted() { # admitted JOB: names and sizes of its workloads that have quota
    kubectl get workloads.kueue.x-k8s.io -o json | jq -r --arg job "$(prefix "$1")" '.items[] | select(.metadata.name | startswith($job)) |
        select(any(.status.conditions[]?; .type == "Admitted" and .status == "True")) | "\(.metadata.name):\([.spec.podSets[].count] | add)"'
}
is_admitted() { [ "$(admitted "$1")" = "$(prefix "$1")-g${2:-1}:2" ]; } # is_admitted JOB [GROUP]
nothing_left() { ! kubectl get pods,workloads.kueue.x-k8s.io -o name | has "/${1:-}"; } # nothing_left [JOB]

waits_for_quota() {
    job waits "$queued" && until_true 30 state_is waits Queued && has_event 'Queued: Pod .* waits until its scheduling gate kueue.x-k8s.io/admission is removed' waits &&
        [ -z "$(admitted waits)" ] && queue 1 && sleep 3 && state_is waits Queued && [ -z "$(admitted waits)" ] && queue 2 && completes waits && is_finished waits
}
is_finished() {
    kubectl get workloads.kueue.x-k8s.io "$(prefix "$1")-g1" -o 'jsonpath={.status.conditions[?(@.type=="Finished")].status}' | has True
}
loses_worker() { # with no quota for a third one, so the lost one cannot hand over while it has its grace period
    queue 2 && steps=2000 job loses "$queued" && trains loses && is_admitted loses && kubectl delete "$(worker_pod loses 1)" --wait=false --grace-period=7 &&
        until_true 60 revision_is loses 2 && completes loses && field loses '{.status.restarts}' | has '^0$' && is_finished loses
}
one_after_other() {
    queue 2 && steps=300 job first "$queued" && trains first && steps=60 job second "$queued" && until_true 30 state_is second Queued && state_is first Running &&
        completes first && completes second
}
preempted() {
    queue 2 && steps=700 job stopped "$queued" && trains stopped 20 && queue 2 HoldAndDrain && until_true 60 state_is stopped Queued && [ -z "$(admitted stopped)" ] &&
        queue 2 && completes stopped 120
}
suspended() { # in its queue, and while it trains
    queue 0 && claim saves ReadWriteMany && steps=700 job away "$queued
  checkpoint: {everySteps: 50, store: {persistentVolumeClaim: {claimName: saves, path: away}}}" && until_true 30 state_is away Queued &&
        suspends away && queue 2 && resumes away && trains away 20 && suspends away && steps=60 job other "$queued" && completes other &&
        resumes away && until_true 60 is_admitted away 3 && completes away
}
suspends() { kubectl patch sj "$1" --type merge -p '{"spec":{"suspend":true}}' && until_true 30 state_is "$1" Suspended && until_true 30 nothing_of "$1"; }
resumes() { kubectl patch sj "$1" --type merge -p '{"spec":{"suspend":false}}'; }
nothing_of() { [ -z "$(admitted "$1")" ] && ! kubectl get pods -l "skyjob.dev/job=$1" -o json | jq -r '.items[].metadata.finalizers[]?' | has kueue; }
deleted() {
    queue 0 && job gone "$queued" && until_true 30 state_is gone Queued && kubectl delete sj gone --wait=false && until_true 60 nothing_left gone &&
        kubectl delete sj --all --wait=false && until_true 60 nothing_left
}
deleted_without_operator() {
    queue 0 && job gone "$queued" && until_true 30 state_is gone Queued || return
    kill_operator TERM
    kubectl delete sj gone --wait=false && sleep 2 && start_operator && until_true 60 nothing_left gone
}

tap_only=("$@")
operator_set_up || exit 1
start_kueue || { tail -n 3 "$dir/kueue.log" >&2; exit 1; }
start_agent n1,1,4Gi,50 n2,1,4Gi,50 n3,1,4Gi,50 n4,1,4Gi,50 # room for two jobs
start_operator
check 'a queued job waits for quota for all of its workers' waits_for_quota
check 'a worker that is lost is replaced within the quota of its job' loses_worker
check 'two jobs with quota for one train one after the other' one_after_other
check 'a job that Kueue evicts waits in its queue, and goes on' preempted
check 'a suspended job leaves its quota to others' suspended
check 'deleting queued jobs leaves nothing behind' deleted
check 'a queued job that is deleted while no operator runs leaves nothing behind either' deleted_without_operator
tap_end
