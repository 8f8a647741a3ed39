#!/bin/bash
# The plan that fits the nodes against the even one, on the local cluster: two jobs one after the
# other, alike but for spec.placement.strategy. Brings the cluster up when it is not.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
export KUBECONFIG=$CLUSTER_KUBECONFIG
hack/cluster/up.sh >&2
hack/install.sh >&2
speed() { # speed STRATEGY: tokens a second
    local name=bench-${1,,}
    kubectl delete sj "$name" --ignore-not-found >&2
    kubectl apply -f - >&2 <<E2
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $name}
spec:
  model: {preset: BertMini, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: 60, batchSize: 64, microBatches: 8, maxSequenceLength: 64}
  placement: {strategy: $1, minStages: 3, maxStages: 3, rebalance: "Off"}
E2
    kubectl wait --for=condition=Complete "sj/$name" --timeout=300s >&2
    kubectl get sj "$name" -o jsonpath='{.status.progress.tokensPerSecond}'
    kubectl delete sj "$name" >&2
}
optimal=$(speed Optimal)
even=$(speed Even)
say "bench_cluster: Optimal $optimal Even $even tokens/s"
awk -v a="$optimal" -v b="$even" -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" 'BEGIN {
    printf "{\"name\":\"uneven.cluster\",\"value\":%.3f,\"unit\":\"x\",", a / b
    printf "\"against\":\"Even on the same cluster, nodes of 1, 0.5 and 0.25 cores\",\"cpu\":\"%s\"}\n", cpu }'
