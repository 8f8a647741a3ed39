#!/bin/bash
# The whole product on a real cluster: kind with uneven nodes, helm, kubectl, real training.
# Prints TAP. Leaves the cluster up, so that a second run is quick; nothing of the test stays in it.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
ns=skyjob-e2e
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh

reason() { field "$1" "{.status.conditions[?(@.type=='$2')].reason}"; }
state_of() { field "$1" "{.status.conditions[?(@.type=='$2')].status}"; }
complete() { k wait --for=condition=Complete "sj/$1" --timeout="${2:-300}s"; }
step_of() { local s; s=$(field "$1" '{.status.progress.step}'); echo "${s:-0}"; }
has_stepped() { [ "$(step_of "$1")" -gt 0 ]; }
dump() { k get sj,pods,events -o wide; k describe sj; k logs -l skyjob.dev/job --tail=20 --prefix; } >&2

# job NAME STEPS [SOURCE]: the sample job, cut short, with a worker to lose and one to stay; with
# at most $most of them. Its units stay, whatever the nodes do: its revisions are counted.
job() {
    sed -e "s/name: mnli/name: $1/" manifests/samples/mnli.yaml |
        awk -v steps="$2" -v source="${3:-}" -v most="${most:-}" '
            /^    steps:/ { print "    steps: " steps; next }
            /^    maxStages:/ { print "    rebalance: \"Off\""; print "    minStages: 2"; if (most != "") print "    maxStages: " most; next }
            /source:/ && source != "" { sub(/source:.*/, "source: " source); print; next }
            { print }' | k apply -f -
}
leftovers() {
    [ -z "$(k get pods,configmaps,networkpolicies,secrets -l "skyjob.dev/job=$1" -o name)" ]
}

setup() {
    hack/cluster/up.sh && hack/install.sh || exit 1
    kubectl delete namespace $ns --ignore-not-found --wait
    kubectl create namespace $ns &&
        kubectl label namespace $ns pod-security.kubernetes.io/enforce=restricted
} >&2
setup

tested() {
    helm test skyjob -n skyjob-system || { kubectl -n skyjob-system logs skyjob-check; return 1; }
    ! kubectl -n skyjob-system get pods,clusterroles,clusterrolebindings -o name | has skyjob-check
}
check 'helm test finds the operator ready, and nothing of it stays' tested

# --- a job from apply to Complete ---
whole_job() { k apply -f manifests/samples/mnli.yaml && complete mnli 420; }
check 'the sample job trains to Complete in a restricted namespace' whole_job
accuracy() { awk -v a="$(field mnli '{.status.progress.metrics[?(@.name=="accuracy")].value}')" \
    'BEGIN { print a; exit !(a >= 0.85) }'; }
check 'accuracy on held-out pairs is at least 0.85' accuracy
columns() {
    local head
    head=$(k get sj | head -1)
    echo "$head"
    [ "$(awk '{print $1, $2, $3, $4, $5, $6, $7, $8}' <<<"$head")" = 'NAME STATE STAGES STEP LOSS TOKENS/S RESTARTS AGE' ]
}
check 'kubectl get sj shows state, stages, step, loss, tokens/s, restarts and age' columns
described() { k describe sj mnli | grep -E 'Normal +TrainingFinished'; }
check 'kubectl describe shows the events of the job' described
logged() { k logs -l skyjob.dev/job=mnli,skyjob.dev/slot=0 --tail=-1 | grep '"evaluated"'; }
check 'kubectl logs shows what the leader said' logged
skyjob_logged() { # of all workers, also one by one
    local text slot n
    n=$(field mnli '{.status.stages[*].stage}' | wc -w)
    text=$("${OUT:-build/release}/bin/kubectl-skyjob" logs mnli -n $ns) || return
    grep '^\[slot 0\] .*"evaluated"' <<<"$text" || return
    for ((slot = 0; slot < n; slot++)); do grep -c "^\[slot $slot\] {" <<<"$text" || return; done
    [ "$("${OUT:-build/release}/bin/kubectl-skyjob" logs mnli -n $ns --follow --tail 1 | wc -l)" = "$n" ]
}
check 'kubectl skyjob logs has the lines of all workers, with their slots' skyjob_logged
follows_speed() { # the node with most CPU has the most of the model
    local rows
    rows=$(field mnli '{range .status.stages[*]}{.node}{" "}{.predictedMicroseconds}{"\n"}{end}')
    echo "$rows"
    [ -n "$(field mnli '{.status.placement.explanation}')" ] && [ "$(wc -l <<<"$rows")" -ge 2 ]
}
check 'the placement uses several nodes and says why' follows_speed
gone() { k delete sj mnli --timeout=60s && until_true 30 leftovers mnli; }
check 'deleting the job leaves nothing' gone

# --- disturbances ---
worker() { k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o "jsonpath={.items[0]$3}"; } # worker JOB SLOT PATH
uids() { k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot" -o jsonpath='{range .items[*]}{.metadata.uid}{"\n"}{end}' | sort; }
revision() { # revision JOB NUMBER FILTER
    k get configmap -l "skyjob.dev/job=$1,skyjob.dev/revision=$2" -o json | jq -r '.items[0].data["revision.json"]' | jq -r "$3"
}
is_in_revision() { [ "$(field "$1" '{.status.revision}')" = "$2" ]; }
# replaced JOB: one pod of those in $work/before is not there any more, and one is new
replaced() {
    uids "$1" | diff "$work/before" - >"$work/diff"
    cat "$work/diff"
    [ "$(grep -c '^<' "$work/diff") $(grep -c '^>' "$work/diff")" = '1 1' ]
}
pod_deleted() {
    most=2 job lost 400 && until_true 90 has_stepped lost && uids lost >"$work/before" || return
    k delete pod "$(worker lost 1 .metadata.name)" --wait=false && complete lost && is_in_revision lost 2 && replaced lost
}
check 'a job whose worker pod is deleted gets one new pod and completes' pod_deleted
# Whatever passes the node between two workers is answered with a reset, for some seconds.
cut() {
    local port
    for port in dport sport; do
        docker exec "$1" iptables "$2" FORWARD -p tcp --$port 7071 -j REJECT --reject-with tcp-reset || return
    done
}
link_cut() {
    local node rc=0
    job sturdy 700 && until_true 90 has_stepped sturdy && uids sturdy >"$work/before" || return
    node=$(worker sturdy 1 .spec.nodeName)
    cut "$node" -I && sleep 2
    cut "$node" -D && until_true 60 is_in_revision sturdy 2 || return
    revision sturdy 2 '{step, lineage, sources}'
    [ "$(revision sturdy 2 '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker")')" = true ] || rc=1
    complete sturdy && [ "$(field sturdy '{.status.restarts}')" = 0 ] && uids sturdy | diff "$work/before" - && [ "$rc" = 0 ]
}
check 'a link that is cut costs neither a pod nor a step' link_cut
drained() {
    local node rc=0
    most=2 job moved 300 && until_true 90 has_stepped moved && uids moved >"$work/before" || return
    node=$(worker moved 1 .spec.nodeName)
    kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --timeout=90s || rc=1
    until_true 30 is_in_revision moved 2 || rc=1
    kubectl uncordon "$node"
    k get events | grep WorkerLeaving
    revision moved 2 '{step, lineage, sources, leaving}'
    [ "$(revision moved 2 '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker")')" = true ] || rc=1
    complete moved && is_in_revision moved 2 && [ "$(field moved '{.status.restarts}')" = 0 ] && replaced moved && [ "$rc" = 0 ]
}
check 'a worker whose node is drained hands its units over, and no step is lost' drained
operator_deleted() {
    job calm 400 && until_true 90 has_stepped calm || return
    kubectl -n skyjob-system delete pod --all --wait=false && complete calm &&
        is_in_revision calm 1
}
check 'a job whose operator is deleted goes on in its first revision' operator_deleted
no_old_operator() { ! kubectl -n skyjob-system get pods -o name | grep -Fx -f "$work/operators"; }
upgraded() { # other operators, the same workers
    job kept 400 && until_true 90 has_stepped kept && uids kept >"$work/before" && kubectl -n skyjob-system get pods -o name >"$work/operators" || return
    helm upgrade skyjob charts/skyjob -n skyjob-system --reuse-values --set log.level=debug --wait --timeout 120s && until_true 60 no_old_operator || return
    complete kept && is_in_revision kept 1 && uids kept | diff "$work/before" - && [ "$(field kept '{.status.restarts}')" = 0 ]
}
check 'the chart is upgraded while a job trains, and no worker starts again' upgraded
# A kubelet that has begun with the 60 s that the garbage collector gives, which are for workers that are drained,
# takes no less when the operator asks: the workers are ordered to end as well.
deleted_midway() {
    job cut 400 && until_true 90 has_stepped cut && k delete sj cut --timeout=60s && until_true 60 leftovers cut
}
check 'a job that is deleted midway leaves nothing' deleted_midway
k delete sj --all --timeout=60s >/dev/null 2>&1

# --- bad input ---
refused() { # refused WORDS < manifest
    local out
    out=$(k apply -f - 2>&1) && return 1
    echo "$out"
    grep -q "$1" <<<"$out"
}
manifest() { # manifest TRAINING
    printf 'apiVersion: skyjob.dev/v1alpha1\nkind: SkyJob\nmetadata: {name: bad}\nspec:\n  data: {task: MNLI, source: {sample: MNLI}}\n  training: %s\n' "$1"
}
odd_batch() { manifest '{batchSize: 30, microBatches: 8}' | refused 'microBatches'; }
check 'a batch that micro-batches do not divide is refused by name' odd_batch
bad_rate() { manifest '{optimizer: {learningRate: "fast"}}' | refused 'learningRate'; }
check 'a learning rate that is no number is refused by name' bad_rate
unknown() { manifest '{bacthSize: 32}' | refused 'bacthSize'; }
check 'an unknown field is refused by name' unknown
mkdir "$work/data" # a ConfigMap holds at most 1 MiB
cp build/sample/mnli/vocab.txt build/sample/mnli/dev_matched.tsv "$work/data"
head -n 3001 build/sample/mnli/train.tsv >"$work/data/train.tsv"
missing_data() {
    job waits 60 '{configMap: {name: late}}' && until_true 30 test_reason waits Placed DataNotFound || return
    k create configmap late --from-file="$work/data" && complete waits
}
test_reason() { [ "$(reason "$1" "$2")" = "$3" ]; }
check 'a job waits for a missing ConfigMap and goes on when it is there' missing_data
no_image() {
    sed -e 's/name: mnli/name: pulls/' manifests/samples/mnli.yaml |
        awk '{ print } /^spec:/ { print "  worker: {image: \"registry.invalid/none:1\"}" }' | k apply -f - &&
        until_true 90 pull_failed
}
pull_failed() { k get sj pulls -o jsonpath='{.status.conditions[*].reason}' | has ImagePullFailed; }
check 'an image that cannot be pulled is a condition' no_image
k delete sj --all --timeout=60s >/dev/null 2>&1

uninstalled() { job left 400 && until_true 90 has_stepped left && helm uninstall skyjob -n skyjob-system --wait && kubectl get crd skyjobs.skyjob.dev; }
check 'helm uninstall removes the operator and keeps the CRD' uninstalled
left() { k get sj left && k delete sj left --timeout=60s && until_true 120 leftovers left; }
check 'a job that is left can be deleted without an operator, and leaves nothing' left
kubectl delete namespace $ns --wait >/dev/null 2>&1
tap_end
