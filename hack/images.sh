#!/bin/bash
# Builds the operator's and the worker's image and puts them into the local cluster.
#
#   hack/images.sh            tags skyjob/operator:VERSION and skyjob/worker:VERSION
#
# The base is Docker Hub's Debian where a registry answers, else one made from packages.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
version=$(cat VERSION)
base=$(hack/cluster/base-image.sh skyjob/base:packages)
for target in operator worker; do
    run 90 "Building the $target image" docker_build --target "$target" \
        --build-arg BASE="$base" -t "skyjob/$target:$version" .
done
hack/cluster/load.sh "skyjob/operator:$version" "skyjob/worker:$version"
