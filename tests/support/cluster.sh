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

# SkyJob's images have no shell. Sets shell to an image with one, which the nodes have.
load_shell() {
    shell=$(hack/cluster/base-image.sh skyjob/base:packages) || return
    docker image inspect "$shell" >/dev/null 2>&1 || docker pull -q "$shell" || return
    hack/cluster/load.sh "$shell"
}
