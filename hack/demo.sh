#!/bin/bash
# From nothing to a trained model on a cluster of unequal nodes; `make demo` calls it.
#
# Brings up the local cluster, builds and loads the images, installs the chart with helm, applies
# the sample job with plain kubectl and follows it to its end. Run it again at any time: what is
# there already is used. `make demo-down` removes everything.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
export KUBECONFIG=$CLUSTER_KUBECONFIG
started=$SECONDS
step() { printf '\n== %s (%d s)\n' "$1" $((SECONDS - started)); }

step 'A cluster of unequal nodes'
hack/cluster/up.sh

step 'Building SkyJob and installing its operator with helm'
make --no-print-directory -j2 all sample
hack/install.sh
kubectl -n skyjob-system get deployment

step 'kubectl apply -f manifests/samples/mnli.yaml'
kubectl delete sj mnli --ignore-not-found
kubectl apply -f manifests/samples/mnli.yaml
build/release/bin/kubectl-skyjob status mnli --follow

step 'Result'
kubectl get sj
echo
kubectl get sj mnli -o jsonpath='{.status.placement.explanation}{"\n"}'
kubectl get sj mnli -o jsonpath='{range .status.stages[*]}  stage {.stage}: {.units} on {.node}, predicted {.predictedMicroseconds} us, measured {.measuredMicroseconds} us{"\n"}{end}'
accuracy=$(kubectl get sj mnli -o jsonpath='{.status.progress.metrics[?(@.name=="accuracy")].value}')
echo "Accuracy on held-out sentence pairs: $accuracy (chance is 0.33)"
cat <<EOF

To go on:
  export KUBECONFIG=$KUBECONFIG PATH=$BIN:\$PATH
  kubectl describe sj mnli          # conditions, events, the placement in words
  kubectl logs -l skyjob.dev/job=mnli,skyjob.dev/slot=0   # the log of the leader
  kubectl explain sj.spec           # every field of a job
  kubectl delete sj mnli            # removes its pods, revisions and keys too
  make demo-down                    # remove the cluster
EOF
awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.85) }' || {
    echo "error: the accuracy is below 0.85" >&2
    exit 1
}
