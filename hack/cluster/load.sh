#!/bin/bash
# Loads images of the docker engine into all nodes of the local cluster.
#
#   hack/cluster/load.sh IMAGE...
#
# An image that the nodes have already is not loaded again. Give images a tag of their own: for
# "latest" Kubernetes always asks a registry.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die "usage: $0 IMAGE..."

# A mark on the nodes' disks, which come and go with the cluster.
mark_of() { printf '/var/lib/skyjob-loaded/%s' "$(printf '%s %s' "$1" "$(docker image inspect -f '{{.Id}}' "$1")" | sha256sum | cut -c 1-16)"; }

# Unpacking is no part of the workers' work: it may use all cores for its time.
set_cpus() { # set_cpus NODE CORES
    docker update --cpus "$2" "$1" >/dev/null
}

load() { # load NODE IMAGE...
    local node=$1 nano; shift
    nano=$(docker inspect -f '{{.HostConfig.NanoCpus}}' "$node")
    [ "$nano" -eq 0 ] || set_cpus "$node" "$(nproc)"
    docker save "$@" | docker exec -i "$node" ctr --namespace k8s.io images import --all-platforms --digests - || failed=yes
    for image; do docker exec "$node" sh -c "mkdir -p /var/lib/skyjob-loaded && touch $(mark_of "$image")"; done
    [ "$nano" -eq 0 ] || set_cpus "$node" "$(awk -v n="$nano" 'BEGIN { print n / 1e9 }')"
    [ -z "${failed:-}" ]
}

mapfile -t nodes < <(docker ps --filter "label=io.x-k8s.kind.cluster=$CLUSTER_NAME" --format '{{.Names}}' | sort)
[ ${#nodes[@]} -gt 0 ] || die "There is no running cluster $CLUSTER_NAME." "Run: hack/cluster/up.sh"
for image; do
    docker image inspect "$image" >/dev/null 2>&1 || die "The docker engine has no image $image." "Build it first: make image"
done
for node in "${nodes[@]}"; do
    todo=()
    for image; do docker exec "$node" test -e "$(mark_of "$image")" || todo+=("$image"); done
    [ ${#todo[@]} -eq 0 ] || run 4 "Load ${todo[*]} into ${node#"$CLUSTER_NAME"-}" load "$node" "${todo[@]}"
done
printf '%s\n' "$@" >>"$CACHE/cluster/images"
