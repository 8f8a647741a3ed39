#!/bin/bash
# Prints the name of a base image for `docker build --build-arg BASE=...`, and makes it if need be.
#
#   hack/cluster/base-image.sh NAME
#
# Where Docker Hub answers (asked for at most 5 s) that is its Debian image. Else NAME is made from
# the packages of this machine's own distribution. `apt-get` works in it, also inside docker build:
# the image carries the machine's package sources with the keys they name, the settings of its apt
# that concern the network (proxy, time-outs, checks), and its certificate authorities when a
# source needs https. Add `--network host` to docker build, so that a proxy or a name server on the
# machine's loopback address is reached too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || die "usage: $0 NAME"
name=$1

# shellcheck source=/dev/null
distribution() { (. /etc/os-release && echo "$ID $VERSION_CODENAME"); }

make_image() {
    local id suite
    read -r id suite <<<"$(distribution)"
    bootstrap_root "$suite" "${files[@]}" >"$work/root.tar"
    docker import --change 'CMD ["/bin/bash"]' --change "LABEL dev.skyjob.base=$id-$suite" "$work/root.tar" "$name"
}

"$CLUSTER_DIR/docker.sh" start
if docker image inspect "$name" >/dev/null 2>&1; then
    echo "$name"
    exit
fi
if registry_answers; then
    say "Docker Hub answers: the base image is $BASE_IMAGE."
    echo "$BASE_IMAGE"
    exit
fi
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing." "Run: hack/deps.sh cluster"
mapfile -t files < <(apt_sources)
[ ${#files[@]} -gt 0 ] || die "No package source of Debian or Ubuntu in /etc/apt." "Put one into /etc/apt/sources.list."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run 40 "Base image $name from packages" make_image
echo "$name"
