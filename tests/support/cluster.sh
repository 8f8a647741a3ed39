# shellcheck shell=bash
# What tests on the local cluster share: its tools, `check`, and a namespace. Sourced in the project's
# folder, after `ns` is set.
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
export KUBECONFIG=$CLUSTER_KUBECONFIG

# shellcheck disable=SC2154 # by who sources this
k() { kubectl -n "$ns" "$@"; }
field() { k get sj "$1" -o jsonpath="$2"; } # field JOB JSONPATH
