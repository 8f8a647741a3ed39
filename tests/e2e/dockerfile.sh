#!/bin/bash
# What `docker build` makes of the Dockerfile: the images that hack/images.sh ships, file by file. Starts a docker engine where
# none runs. Minutes; `make test-dockerfile`.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
tap_only=("$@")
work=$(mktemp -d)
# shellcheck disable=SC2016 # for later
at_exit 'rm -rf "$work"; hack/cluster/docker.sh stop'
export SOURCE_DATE_EPOCH=1700000000 IMAGE_REVISION=

# Debian's own image where a registry has it; else the system in which the images of hack/images.sh are built.
base() {
    if registry_answers; then echo debian:13-slim; return; fi
    as_root tar -C "$CACHE/debian13" --one-file-system -c . | docker import - skyjob/debian:13 >/dev/null && echo skyjob/debian:13
}
# files_of IMAGE FILE: names, modes, owners and contents of its files. docker puts in some more of its own.
files_of() {
    local container
    container=$(docker create "$1" /) && docker export "$container" >"$work/files.tar" && docker rm "$container" >/dev/null &&
        mkdir "$work/files" && tar -C "$work/files" -xf "$work/files.tar" &&
        (cd "$work/files" && tar --numeric-owner -tvf ../files.tar | awk '{ print $1, $2, $6, $7, $8 }' && find . -type f -exec sha256sum {} +) | sort >"$2"
    rm -rf "$work/files"
}
same() { # same NAME
    docker load -qi "build/debian13/images/skyjob-$1.tar" &&
        docker_build -q --build-arg "BASE=$base" --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --target "$1" -t "skyjob/$1:dockerfile" . &&
        files_of "skyjob/$1:$(cat VERSION)" "$work/shipped" && files_of "skyjob/$1:dockerfile" "$work/built" && has "usr/local/bin/skyjob-$1" <"$work/built" &&
        diff "$work/shipped" "$work/built" && [ "$(started_as "$(cat VERSION)" "$1")" = "$(started_as dockerfile "$1")" ]
}
started_as() { docker inspect -f '{{.Config.User}} {{.Config.Entrypoint}}' "skyjob/$2:$1"; } # started_as TAG NAME

hack/cluster/docker.sh start && hack/images.sh "$(dpkg --print-architecture)" && base=$(base) || exit 1
check 'docker build makes the image of the operator that is shipped' same operator
check 'docker build makes the image of the worker that is shipped' same worker
tap_end
