# shellcheck shell=bash
# The operator, a real API server and tests/support/agent.c, which runs every pod as a process of the
# real worker, on this machine; and small jobs for them. Sourced in the project's folder.
#
#   operator_set_up                 API server, CRD, the operator's account, and data for jobs
#   start_agent NODE... ; start_operator
#   operator_finish                 end all of it and remove $dir, where everything is written; KEEP=1 leaves it
#
# chart_options are values of the chart for the operator's rights, as --set has them; empty: manifests/operator.yaml.
# The network is slow (slow_send.c): whatever workers send waits pause_us, 0 where speeds are measured.
# OUT is the build, OPERATOR another build of the operator.
OUT=${OUT:-build/release}
dir=$(mktemp -d)
export KUBECONFIG=$dir/api/kubeconfig
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
operator=0 agent=0 operator_options=() pause_us=250 chart_options=

run_operator() {
    exec "${OPERATOR:-$OUT/bin/skyjob-operator}" --kubeconfig "$dir/operator.kubeconfig" --worker-image worker:test \
        --operator-pods skyjob-system/app.kubernetes.io/component=operator --health-address none --probe-priority-class skyjob-probe "${operator_options[@]}" >>"$dir/operator.log" 2>&1
}
start_operator() {
    run_operator &
    operator=$!
}
admin_token() { sed -n 's/.*{token: \(.*\)}/\1/p' "$KUBECONFIG"; }
metrics_at() { curl -sk -H "Authorization: Bearer $(admin_token)" "https://127.0.0.1:$1/metrics"; } # metrics_at PORT: the operator's --metrics-address
kill_operator() { # kill_operator SIGNAL: again and again, as one is lost that comes before bash has become the operator
    while kill "-$1" "$operator" 2>/dev/null; do sleep 0.1; done
    wait "$operator" 2>/dev/null
}
operator_finish() {
    [ "$agent" = 0 ] || { kill "$agent"; wait "$agent"; } 2>/dev/null
    [ "$operator" = 0 ] || kill_operator TERM
    hack/cluster/envtest.sh stop "$dir/api" 2>/dev/null
    if [ -n "${KEEP:-}" ]; then echo "# $dir"; else rm -rf "$dir"; fi
}

# --- what runs ---
start_agent() { # start_agent NODE...
    local node arguments=()
    [ "$agent" = 0 ] || { kill "$agent"; wait "$agent"; }
    for node; do arguments+=(--node "$node"); done
    SEND_PAUSE_US=$pause_us LD_PRELOAD=$PWD/$OUT/tests/support/cut_link.so:$PWD/$OUT/tests/support/slow_send.so "$OUT/tests/support/agent" --kubeconfig "$KUBECONFIG" --worker "$PWD/$OUT/bin/skyjob-worker" \
        --folder "$dir/agent" --sample "$dir/data" "${arguments[@]}" >>"$dir/agent.log" 2>&1 &
    agent=$!
}

operator_manifest() {
    [ "$chart_options" ] || { cat manifests/operator.yaml; return; }
    printf '%s\n' 'apiVersion: v1' 'kind: Namespace' 'metadata: {name: skyjob-system}'
    helm template skyjob charts/skyjob --namespace skyjob-system --kube-version 1.34 --set "crds.enabled=false,$chart_options"
}
install_operator() { # from standard input, but for its pods
    kubectl apply -f - >/dev/null && kubectl -n skyjob-system scale deployment --all --replicas=0 >/dev/null
}
# The operator gets the rights that its manifest gives it, and no more.
make_account() {
    local token
    operator_manifest | install_operator &&
        token=$(kubectl -n skyjob-system create token skyjob-operator --duration=4h) &&
        sed "s/{token: .*}/{token: $token}/" "$KUBECONFIG" >"$dir/operator.kubeconfig"
}
add_crds() { # add_crds FOLDER: of another project
    kubectl apply --server-side -f "$1" >/dev/null && until_true 30 kubectl wait --for=condition=Established crd --all
}
# With less, workers keep no checkpoints on their nodes' disks (SPARE_DISK_PERCENT in control/manifest.c).
has_room() {
    local size free
    read -r size free < <(df --output=size,avail "$dir" | tail -n 1)
    [ $((100 * free / size)) -gt 15 ] || { echo "$((100 * free / size))% of the disk with $dir is free, and 16% must be: remove something, or set TMPDIR"; return 1; }
}
operator_set_up() {
    local sample=${SAMPLE:-build/sample/mnli}
    has_room && CRDS=manifests/crd hack/cluster/envtest.sh start "$dir/api" && until_true 20 kubectl get sj && make_account || return
    mkdir "$dir/data"
    head -n 600 "$sample/train.tsv" >"$dir/data/train.tsv"
    head -n 150 "$sample/dev_matched.tsv" >"$dir/data/dev_matched.tsv"
    cp "$sample/vocab.txt" "$dir/data/"
    kubectl create configmap nli --from-file="$dir/data" >/dev/null
}

# --- jobs ---
claim() { # claim NAME MODE: bound to a volume of its own (nobody here does that)
    kubectl apply -f - >/dev/null <<Y || return
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec: {capacity: {storage: 1Gi}, accessModes: [$2], hostPath: {path: /nowhere}, storageClassName: none}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec: {accessModes: [$2], resources: {requests: {storage: 1Gi}}, storageClassName: none, volumeName: $1}
Y
    kubectl patch pvc "$1" --subresource=status --type merge -p '{"status":{"phase":"Bound"}}' >/dev/null
    mkdir -p "$dir/agent/claims/$1/nli" && cp "$dir"/data/* "$dir/agent/claims/$1/nli/"
}
# job NAME [EXTRA-SPEC]: EXTRA replaces parts of it. Its model is so small that workers wait for the network, and hardly
# compute; it is $measurable where speeds are measured.
small='hiddenSize: 32, attentionHeads: 2, feedForwardSize: 64,'
# shellcheck disable=SC2034 # for those who source this
measurable='layers: 6,'
job() {
    kubectl apply -f - <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
$(printf '%s\n' "${2:-}")
  model: {${model:-$small} preset: BertTiny, vocabSize: ${vocab:-3000}, maxPositions: 64}
  data: {source: {${source:-configMap: {name: nli\}}}}
  training: {steps: ${steps:-60}, batchSize: ${batch:-8}, microBatches: 4, maxSequenceLength: 48, nonFinitePolicy: ${skip:-Fail},${train:-}
    optimizer: {weightDecay: "${decay:-0.01}", learningRate: "${rate:-5e-4}"}}
Y
}
# Revisions are counted: units move only where that is looked at.
stages3='  placement: {minStages: 3, maxStages: 3, rebalance: "Off"}'
# shellcheck disable=SC2034 # for those who source this
stages2='  placement: {minStages: 2, maxStages: 2, rebalance: "Off"}'
field() { kubectl get sj "$1" -o "jsonpath=$2"; }
condition() { field "$1" "{.status.conditions[?(@.type=='$2')]['status','reason']}"; } # "True PlanMade"
is() { [ "$(condition "$1" "$2")" = "$3" ]; }
completes() { kubectl wait --for=condition=Complete "sj/$1" --timeout="${2:-90}s"; }
trains() { until_true 60 step_above "$1" "${2:-0}"; }
step_above() { [ "$(field "$1" '{.status.progress.step}')" -gt "$2" ] 2>/dev/null; }
# has_event TEXT [JOB]: of any job, or of this one
has_event() { kubectl get events ${2:+--field-selector "involvedObject.name=$2"} -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}' | grep "^$1"; }
revision_is() { [ "$(field "$1" '{.status.revision}')" = "$2" ]; }
prefix() { echo "$1-$(field "$1" '{.metadata.uid}' | cut -c 1-5)"; } # of the names of a job's pods
worker_pod() { kubectl get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o name; } # worker_pod JOB SLOT
workers_of() { # workers_of JOB: slot and incarnation of each, "w0-1 w1-2 "
    kubectl get pods -l "skyjob.dev/job=$1,skyjob.dev/slot" -o name | sed "s|^pod/$(prefix "$1")-||" | sort | tr '\n' ' '
}
uids_of() { kubectl get pods -l "skyjob.dev/job=$1,skyjob.dev/slot in ($2)" -o 'jsonpath={.items[*].metadata.uid}'; } # uids_of JOB SLOTS
kept() { # kept JOB [FIELDS]: with an output volume
    claim out ReadWriteMany && rm -rf "$dir/agent/claims/out/model" && steps=${steps:-700} job "$1" "${stages:-$stages3}
${2:-}
  output: {persistentVolumeClaim: {claimName: out, path: model}}"
}
left_by() { judged "$1" && weights_of "$dir/agent/claims/out/model"; } # left_by JOB: metrics and weights
judged() { field "$1" '{.status.progress.metrics}'; }
no_pods() { [ -z "$(kubectl get pods -o name 2>/dev/null)" ]; }
worker_pid() { pgrep -f -- "--control $(kubectl get "$(worker_pod "$1" "$2")" -o 'jsonpath={.status.podIP}'):7070"; } # worker_pid JOB SLOT
ended() { # ended PHASE CODE MESSAGE: the status of a pod that has
    echo "{\"phase\":\"$1\",\"containerStatuses\":[{\"name\":\"worker\",\"image\":\"w\",\"imageID\":\"\",\"restartCount\":0,\"ready\":false,\"state\":{\"terminated\":{\"exitCode\":$2,\"message\":\"$3\"}}}]}"
}
