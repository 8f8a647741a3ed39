#!/bin/bash
# Builds the images, loads them into the local cluster and installs the chart with helm.
# Used by `make demo` and `make e2e`; the cluster must be up (hack/cluster/up.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
export KUBECONFIG=$CLUSTER_KUBECONFIG
version=$(cat VERSION)
hack/images.sh "$(dpkg --print-architecture)"
load_images() {
    local name
    for name in operator worker; do docker load -q -i "build/debian13/images/skyjob-$name.tar" || return; done
}
run 5 'Images to the docker engine' load_images
hack/cluster/load.sh "skyjob/operator:$version" "skyjob/worker:$version"
# The operator goes to the control plane, so that the workers' cores are all for training.
run 10 'Installing the chart' helm upgrade --install skyjob charts/skyjob \
    --namespace skyjob-system --create-namespace \
    --set image.repository=skyjob/operator --set "image.tag=$version" \
    --set workerImage.repository=skyjob/worker --set "workerImage.tag=$version" \
    --set-json 'tolerations=[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]' \
    --set-json 'nodeSelector={"node-role.kubernetes.io/control-plane":""}' \
    --wait --timeout 120s
# The tag is the same for every build, so a running operator has to be restarted.
kubectl -n skyjob-system rollout restart deployment >/dev/null
kubectl -n skyjob-system rollout status deployment --timeout=120s >/dev/null
