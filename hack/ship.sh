# shellcheck shell=bash
# Sourced by hack/images.sh and hack/release.sh: programs of one architecture or both, built in a Debian of their own.
#
# What is shipped has the time of the commit, or of SOURCE_DATE_EPOCH.
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh

is_commit() { git rev-parse -q --verify HEAD >/dev/null 2>&1; }
: "${SOURCE_DATE_EPOCH:=$(if is_commit; then git log -1 --format=%ct; else stat -c %Y VERSION; fi)}"
: "${IMAGE_REVISION:=$(if is_commit; then git describe --always --abbrev=40 --exclude '*' --dirty; else echo unknown; fi)}"
export SOURCE_DATE_EPOCH IMAGE_REVISION

own=$(dpkg --print-architecture)

inside() { # inside 12|13 ARCHITECTURE COMMAND...: where programs for it are built
    local system=$1 architecture=$2
    shift 2
    [ "$architecture" = "$own" ] || system=$system-$architecture
    hack/debian.sh "$system" "$@"
}

build_programs() { # build_programs 12|13 ARCHITECTURE...
    local release=$1 architecture deps variant
    shift
    for architecture; do
        deps=ship variant=release
        [ "$architecture" = "$own" ] || deps=$architecture variant=$architecture
        inside "$release" "$architecture" true # a step of its own the first time
        run 30 "Packages for $architecture" inside "$release" "$architecture" hack/deps.sh "$deps"
        run 40 "Programs for $architecture" inside "$release" "$architecture" make -j"$(nproc)" VARIANT="$variant" all sample
    done
}
