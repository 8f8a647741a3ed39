#!/bin/bash
# Runs a command in a Debian of its own, on this working tree: what is shipped is built there.
#
#   hack/debian.sh 12|13|12-arm64|13-arm64 COMMAND...
#
# As root, in /src, with SOURCE_DATE_EPOCH and IMAGE_REVISION of the caller. A system "-arm64" is one of
# this machine's own architecture, too, but for arm64's libraries: not all can be installed for both.
# The system is in $CACHE/debian13: made from packages alone (half a minute, once), with nothing in it
# but what hack/deps.sh installs there. It is upgraded once a week. /src is this tree except for build/,
# which is build/debian13 here, for both architectures; so a second run compiles only what has changed.
# Mounts are the command's own and end with it.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
case ${1:-} in
12 | 12-arm64) suite=bookworm ;;
13 | 13-arm64) suite=trixie ;;
*) die "usage: $0 12|13|12-arm64|13-arm64 COMMAND..." ;;
esac
system=$1 root=$CACHE/debian$1 build=build/debian${1%-*}
shift
[ $# -gt 0 ] || die "usage: $0 $system COMMAND..."

# This machine's own mirror where it is a Debian, else the one that is near everyone.
sources() {
    local files mirror security keys=
    mapfile -t files < <(apt_sources)
    mirror=$(uri_of '/debian/?$' "${files[@]}")
    security=$(uri_of '/debian-security/?$' "${files[@]}")
    [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ] || keys='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] '
    printf "deb $keys%s %s main\n" "${mirror:-http://deb.debian.org/debian}" $suite \
        "${mirror:-http://deb.debian.org/debian}" $suite-updates \
        "${security:-http://deb.debian.org/debian-security}" $suite-security
}
uri_of() { # uri_of PATTERN FILE...: the first of the sources' addresses that ends so
    local pattern=$1; shift
    [ $# -eq 0 ] || cat "$@" | tr ' ' '\n' | grep -E '^https?://' | grep -E -m 1 "$pattern" || true
}

make_root() {
    as_root rm -rf "$root" "$root.new"
    as_root mkdir -p "$root.new"
    sources >"$work/sources.list"
    cat "$work/sources.list" >&2
    bootstrap_root $suite "$work/sources.list" | as_root tar -C "$root.new" -xp --numeric-owner
    as_root mkdir "$root.new/src"
    as_root mv "$root.new" "$root"
}

upgrade_root() {
    inside sh -c 'apt-get update -qq && apt-get upgrade -qq -y && apt-get clean'
    as_root touch "$root/src"
}

# The command keeps this shell's standard input and output, and sees no other variables of it.
inside() { # inside COMMAND...
    mkdir -p "$build"
    # shellcheck disable=SC2016 # for the shell that mounts
    as_root unshare --mount sh -c '
        set -e
        root=$1 tree=$2 build=$3
        shift 3
        mount --bind "$tree" "$root/src"
        mount --bind "$tree/$build" "$root/src/build"
        for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
        cp -L /etc/resolv.conf "$root/etc/resolv.conf"
        cp /etc/hosts "$root/etc/hosts"
        exec chroot "$root" "$@"' sh "$root" "$PWD" "$build" /usr/bin/env -i -C /src \
        HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        "${kept[@]}" "$@"
}

kept=()
for name in SOURCE_DATE_EPOCH IMAGE_REVISION http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || kept+=("$name=${!name}")
done
work=$(mktemp -d)
# what sudo has made is root's
trap 'rm -rf "$work"; [ "$(id -u)" -eq 0 ] || as_root chown -R "$(id -u):$(id -g)" "$build"' EXIT
if [ ! -d "$root" ] || [ -n "$(find "$root/src" -maxdepth 0 -mtime +7)" ]; then
    only_one "debian$system"
    if [ ! -d "$root" ]; then
        command -v mmdebstrap >/dev/null || die "mmdebstrap is missing." "Run: hack/deps.sh cluster"
        run 30 "Debian $system from packages" make_root
    elif [ -n "$(find "$root/src" -maxdepth 0 -mtime +7)" ]; then
        run 30 "Upgrade Debian $system" upgrade_root
    fi
fi
inside "$@"
