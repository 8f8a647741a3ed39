#!/bin/bash
# What talks to an API server, on the last three minors of Kubernetes: API server, controller manager and kubectl of
# each are built first (a quarter of an hour). All other tests run on the one of hack/cluster/versions.env, as do
# test_replan.sh and test_storm.sh: they measure speeds and training, and call nothing that the others do not.
#
#   tests/integration/minors.sh [VERSION...]     v1.MINOR.PATCH; without one: $K8S_MINORS
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck disable=SC2086 # as words
[ $# -gt 0 ] || set -- $K8S_MINORS
cache=$CACHE rc=0
for version; do
    export K8S_VERSION=$version SKYJOB_CACHE=$cache/${version%.*}
    mkdir -p "$SKYJOB_CACHE"
    for part in gomod gocache; do ln -sfn "$cache/$part" "$SKYJOB_CACHE/$part"; done
    hack/cluster/build.sh envtest || exit
    echo "== Kubernetes $version"
    TEST_TIMEOUT=2700 hack/run-tests.sh tests/integration/test_{chart,token,tenants,tls,metrics,operator,recovery,outage,probes}.sh || rc=1
done
exit "$rc"
