#!/bin/bash
# Builds the operator's and the worker's image and puts them into the local cluster.
#
#   hack/images.sh            tags skyjob/operator:VERSION and skyjob/worker:VERSION
#
# The base is Docker Hub's Debian where a registry answers, else one made from packages.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(cat VERSION)
base=$(hack/cluster/base-image.sh skyjob/base:local)
for target in operator worker; do
    echo "building skyjob/$target:$version"
    DOCKER_BUILDKIT=0 docker build --quiet --network host --target "$target" \
        --build-arg BASE="$base" -t "skyjob/$target:$version" . >/dev/null
done
hack/cluster/load.sh "skyjob/operator:$version" "skyjob/worker:$version"
