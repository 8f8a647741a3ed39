#!/bin/bash
# Loads images of the docker engine into all nodes of the local cluster.
#
#   hack/cluster/load.sh IMAGE...
#
# An image that a node has already is not loaded again. Give images a tag of their own: for
# "latest" Kubernetes always contacts a registry.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die "usage: $0 IMAGE..."

# What a node has is noted on its own disk, which comes and goes with the cluster.
note=/var/lib/skyjob-loaded
entry_of() { printf '%s@%s\n' "$1" "$(docker image inspect -f '{{.Id}}' "$1")"; }

# load_into NODE: unpacking is no part of a worker's work, so it may use all cores for its time.
load_into() {
    local nano rc=0
    nano=$(docker inspect -f '{{.HostConfig.NanoCpus}}' "$1")
    [ "$nano" -eq 0 ] || docker update --cpus "$(nproc)" "$1"
    docker exec -i "$1" ctr --namespace k8s.io images import --all-platforms --digests - <"$work/images.tar" || rc=$?
    [ "$nano" -eq 0 ] || docker update --cpus "$(awk -v n="$nano" 'BEGIN { print n / 1e9 }')" "$1"
    [ "$rc" -eq 0 ] || return "$rc"
    docker exec -i "$1" sh -c "cat >>$note" <"$work/entries"
}

load() { # load IMAGE...
    local node pids=() pid
    docker save -o "$work/images.tar" "$@"
    for image; do entry_of "$image"; done >"$work/entries"
    for node in "${nodes[@]}"; do
        load_into "$node" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

mapfile -t nodes < <(docker ps --filter "label=io.x-k8s.kind.cluster=$CLUSTER_NAME" --format '{{.Names}}' | sort)
[ ${#nodes[@]} -gt 0 ] || die "There is no running cluster $CLUSTER_NAME." "Run: hack/cluster/up.sh"
todo=()
for image; do
    docker image inspect "$image" >/dev/null 2>&1 || die "The docker engine has no image $image." "Build it first: hack/images.sh"
    entry=$(entry_of "$image")
    for node in "${nodes[@]}"; do
        if ! docker exec "$node" grep -sqxF "$entry" $note; then
            todo+=("$image")
            break
        fi
    done
done
printf '%s\n' "$@" >>"$CACHE/cluster/images"
[ ${#todo[@]} -gt 0 ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run 8 "Load ${todo[*]} into ${#nodes[@]} nodes" load "${todo[@]}"
