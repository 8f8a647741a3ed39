#!/bin/bash
# Builds the operator's and the worker's image: build/debian13/images/skyjob-{operator,worker}.tar.
#
#   hack/images.sh [ARCHITECTURE...]     of amd64 and arm64; both when none is named
#
# Everything is compiled in a Debian 13 root, made from packages (hack/debian.sh): no image registry and no
# docker is needed, and for arm64 a cross compiler. The same packages give the same images, to the
# bit. Pushing one, for example:
#   skopeo copy --all oci-archive:build/debian13/images/skyjob-worker.tar docker://REGISTRY/skyjob/worker:VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/ship.sh
. hack/ship.sh
[ $# -gt 0 ] || set -- amd64 arm64
out=build/debian13/images

# join NAME ARCHITECTURE...: one file of what pack-image.sh has written for each. docker load reads manifest.json, which knows
# one architecture only: this machine's.
join() {
    local name=$1 layout=$out/skyjob-$1 sum version architecture
    version=$(cat VERSION)
    shift
    for architecture; do cat "$layout/$architecture.json"; done |
        jq -cs '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: .}' >"$layout/index"
    sum=$(sha256sum "$layout/index" | cut -d ' ' -f 1)
    jq -cn --arg sum "$sum" --argjson size "$(stat -c %s "$layout/index")" --arg version "$version" --arg tag "docker.io/skyjob/$name:$version" '
        {schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.index.v1+json", digest: "sha256:\($sum)", $size,
            annotations: {"org.opencontainers.image.ref.name": $version, "io.containerd.image.name": $tag}}]}' >"$layout/index.json"
    mv "$layout/index" "$layout/blobs/sha256/$sum"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    [ ! -e "$layout/$own.json" ] || set -- "$own"
    jq -c --arg tag "skyjob/$name:$version" 'def path: .digest | sub(":"; "/") | "blobs/" + .;
        [{Config: (.config | path), RepoTags: [$tag], Layers: (.layers | map(path))}]' \
        "$layout/blobs/$(jq -r '.digest | sub(":"; "/")' "$layout/$1.json")" >"$layout/manifest.json"
    tar -C "$layout" -cf "$layout.tar" --owner=0 --group=0 oci-layout index.json manifest.json blobs
    rm -rf "$layout"
}

build_programs 13 "$@"
for name in operator worker; do
    rm -rf "$out/skyjob-$name"
    for architecture; do
        run 10 "Image of the $name for $architecture" inside 13 "$architecture" hack/pack-image.sh $name "$architecture"
    done
    join $name "$@"
done
