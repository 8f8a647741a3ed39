# shellcheck shell=bash
# For scripts whose checks are of jobs on three uneven nodes: each begins with nothing but these, and leaves nothing to
# the next. Sourced in the project's folder.
#
#   start_three_nodes    the API server, the agent with $nodes, and the operator (operator.sh)
#
# The script's arguments are WORDs: only checks that name one of them. OPERATOR=build/asan/bin/skyjob-operator is another
# build of the operator. KEEP=1 leaves the logs.
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
nodes=('n1,2,4Gi,80' 'n2,1,2Gi,40' 'n3,500m,1Gi,20')

at_exit operator_finish
after_failure() { { kubectl get sj,pods -A -o wide; tail -n 25 "$dir/operator.log"; } | cut -c1-400; }
after_check() {
    kubectl delete sj --all --wait=false >/dev/null
    until_true 20 no_pods
}
start_three_nodes() {
    operator_set_up && start_agent "${nodes[@]}" && start_operator && sleep 1 || return
    kill -0 "$operator" || { cat "$dir/operator.log"; return 1; }
}

as_undisturbed() { # as_undisturbed JOB: it has left what one leaves that nothing happens to
    left_by "$1" >"$dir/left" || return
    [ -s "$dir/${calm:-undisturbed}" ] || { kept quiet && completes quiet && left_by quiet >"$dir/${calm:-undisturbed}"; } || return
    cmp "$dir/left" "$dir/${calm:-undisturbed}"
}
# twins NAME [SYNC]: a job of two replicas, the faster of which has three of four micro-batches
twins() {
    stages='  replicas: 2
  sync: {'${2:-protocol: BSP}'}
  placement: {minStages: 1, maxStages: 1, rebalance: "Off"}' kept "$1" '  checkpoint: {everySteps: 20, store: {persistentVolumeClaim: {claimName: out, path: twins}}}'
}
document() { kubectl get configmap "$1" -o 'jsonpath={.data.revision\.json}'; }
has_document() { [ -n "$(document "$1" 2>/dev/null)" ]; }
none_run() { [ -z "$(kubectl get pods --field-selector status.phase=Running -o name)" ]; }
suspend() { kubectl patch sj "$1" --type merge -p "{\"spec\":{\"suspend\":$2}}" >/dev/null; } # suspend JOB true|false
# fake JOB NAME LABELS STATUS: a pod that claims to be a part of the job, and has ended
fake() {
    local on_node='nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}'
    kubectl create -f - >/dev/null <<Y || return
apiVersion: v1
kind: Pod
metadata:
  name: $2
  labels: {skyjob.dev/job: $1, skyjob.dev/job-uid: $(field "$1" '{.metadata.uid}'), $3}
  ownerReferences: [{apiVersion: skyjob.dev/v1alpha1, kind: SkyJob, name: $1, uid: $(field "$1" '{.metadata.uid}'), controller: true}]
  annotations: {skyjob.dev/probed-node: n1}
spec: {restartPolicy: Never, affinity: {$on_node}, containers: [{name: worker, image: worker:test, resources: {limits: {cpu: 1m, memory: 1Mi}}}]}
Y
    kubectl patch pod "$2" --subresource=status --type merge -p "{\"status\":$4}" >/dev/null
}
