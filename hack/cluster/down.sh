#!/bin/bash
# Removes the local cluster and all that was made for it.
#
#   hack/cluster/down.sh           the cluster, its network, the images that were loaded into it, and
#                                  the dockerd that was started for it; what was built is kept
#   hack/cluster/down.sh --cache   what was built too: the whole folder $CACHE
#
# With a docker engine that was there before, the images made for the cluster go as well. What is
# kept below $CACHE (binaries, modules, and with our own dockerd its images) makes the next start
# quick.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
case ${1:-} in '' | --cache) ;; *) die "usage: $0 [--cache]" ;; esac

remove_containers() {
    local ids
    mapfile -t ids < <(docker ps -aq --filter "label=io.x-k8s.kind.cluster=$CLUSTER_NAME")
    [ ${#ids[@]} -eq 0 ] || docker rm -f -v "${ids[@]}"
    # kind's network stays when another cluster uses it
    docker network rm kind 2>/dev/null || true
}

remove_images() {
    local names
    mapfile -t names < <(sort -u "$CACHE/cluster/images" 2>/dev/null || true)
    [ ${#names[@]} -eq 0 ] || docker rmi -f "${names[@]}" || true
    [ ! -e "$CACHE/dockerd/boot" ] || return 0
    mapfile -t names < <(docker images --format '{{.Repository}}:{{.Tag}}' | grep -E '^(local/kind-node|skyjob/base):' || true)
    [ ${#names[@]} -eq 0 ] || docker rmi -f "${names[@]}" || true
}

only_one cluster
if docker ps -q >/dev/null 2>&1; then
    run 8 "Remove the cluster $CLUSTER_NAME" remove_containers
    run 2 "Remove the images" remove_images
fi
rm -rf "$CACHE/cluster" "$CLUSTER_KUBECONFIG" "$CLUSTER_KUBECONFIG.lock"
"$CLUSTER_DIR/docker.sh" stop
if [ "${1:-}" = --cache ]; then
    chmod -R u+w "$CACHE/gomod" 2>/dev/null || true # go makes its modules read-only
    as_root rm -rf "$CACHE"
    say "Removed $CACHE."
else
    say "Kept: $CACHE ($(as_root du -sh "$CACHE" | cut -f 1)), from which the next start is quick. To remove it too: $0 --cache"
fi
