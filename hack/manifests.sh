#!/bin/bash
# Keeps the chart and the plain manifests equal by generating one from the other.
#
#   hack/manifests.sh           write charts/skyjob/files/, manifests/operator.yaml and tests/golden/chart/
#   hack/manifests.sh --check   fail, and show how, when they differ from what would be written
#
# The CRD's source is manifests/crd, everything else's is the chart, rendered with its defaults.
set -euo pipefail
shopt -s lastpipe # `put` at the end of a pipe sets `bad`
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
check=${1:-}
bad=0

put() { # put FILE < CONTENT
    local new; new=$(mktemp)
    cat >"$new"
    if [ "$check" != --check ]; then
        cat "$new" >"$1"
    elif ! diff -u "$1" "$new"; then
        echo "$1 is not what hack/manifests.sh makes; run it and commit the result." >&2
        bad=1
    fi
    rm -f "$new"
}

render() {
    cat <<'Y'
# The operator for all namespaces, without Helm:
#
#   kubectl apply -k manifests
#
# Made from charts/skyjob by hack/manifests.sh; change the chart, not this file.
apiVersion: v1
kind: Namespace
metadata:
  name: skyjob-system
  labels:
    app.kubernetes.io/name: skyjob
    pod-security.kubernetes.io/enforce: restricted
Y
    chart
}
chart() { # chart HELM-ARGUMENT...
    helm template skyjob charts/skyjob --namespace skyjob-system --kube-version 1.34 --skip-tests --set crds.enabled=false "$@" |
        sed -e '/helm.sh\/chart:/d' -e '/managed-by: Helm/d' -e '/^# Source:/d' -e '/^$/d'
}
# What a file of values changes, without the numbers of the lines.
changes() {
    { diff -dU2 --label defaults --label "$(basename "$1")" <(chart) <(chart --values "$1") || [ $? = 1 ]; } | sed 's/^@@.*/@@/'
}

grep -qx "appVersion: \"$(cat VERSION)\"" charts/skyjob/Chart.yaml || {
    echo "charts/skyjob/Chart.yaml: appVersion is not VERSION, $(cat VERSION)" >&2
    bad=1
}
put charts/skyjob/files/skyjob.dev_skyjobs.yaml <manifests/crd/skyjob.dev_skyjobs.yaml
render | put manifests/operator.yaml
for values in tests/golden/chart/*.yaml; do
    changes "$values" | put "${values%.yaml}.diff"
done
exit "$bad"
