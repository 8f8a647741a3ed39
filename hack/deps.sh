#!/bin/bash
# Installs the Debian or Ubuntu packages that SkyJob needs and that are not there yet.
#
#   hack/deps.sh build     compiler and libraries: make, make unit, make try
#   hack/deps.sh cluster   build, and what hack/cluster needs: make test, make demo, make e2e
#   hack/deps.sh check     all of it, and the second compiler and the linters: make check
#   hack/deps.sh browser   build, and what looks at pages: make test-browser
#   hack/deps.sh ship      build, and what packs images and archives; in a Debian of hack/debian.sh
#   hack/deps.sh arm64     the same for arm64 on another machine, and what emulates it: in a "-arm64" one
#
# Lists what it installs; does nothing when all of it is installed. Uses sudo when it is not root. In the
# lists below "a|b" means the first that the distribution has, "a?" only if it has it.
set -euo pipefail
shopt -s inherit_errexit

build='gcc make pkg-config libcurl4-openssl-dev libcjson-dev libopenblas-pthread-dev libwebsockets-dev
    libcmocka-dev libyaml-dev libutf8proc-dev libssl-dev openssl curl ca-certificates git'
cluster='mmdebstrap debian-archive-keyring iproute2 iptables jq'
browser='chromium|chromium-browser fonts-dejavu-core'
ship='jq patchelf'
arm64='gcc-aarch64-linux-gnu libgomp1:arm64 qemu-user-static|qemu-user'
engine='docker.io docker-cli?'
check='clang-14|clang clang-format-14|clang-format clang-tidy-14|clang-tidy llvm-14|llvm
    libclang-rt-14-dev|libclang-rt-dev? shellcheck glpk-utils valgrind'

die() { # die WHAT-HAPPENED WHAT-TO-DO
    printf 'error: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf '       %s\n' "$2" >&2
    exit 1
}

# Not by grep -q, which stops reading early: apt-cache would then fail on a closed pipe.
is_offered() { [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
        return
    fi
    command -v sudo >/dev/null || die "Packages are missing, and only root can install them: ${missing[*]:-$1}" \
        "Install them as root, or install sudo."
    sudo "$@"
}

# What apt prints is only of interest when it fails.
apt_get() {
    local log rc=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1 || rc=$?
    [ "$rc" -eq 0 ] || tail -n 15 "$log" | sed 's/^/    /' >&2
    rm -f "$log"
    return "$rc"
}

# Of the alternatives of an entry, one is enough. One call of dpkg-query for all entries, because
# this runs before every make. A name without an architecture means this machine's own.
declare -A is_installed
ask_dpkg() { # ask_dpkg ENTRY...
    local name architecture status names
    read -r -a names <<<"$(tr '|?' '  ' <<<"$*")"
    while read -r name architecture status; do
        [ "$status" = installed ] || continue
        is_installed[$name:$architecture]=yes
        case $architecture in "$own" | all) is_installed[$name]=yes ;; esac
    done < <(dpkg-query -W -f '${Package} ${Architecture} ${db:Status-Status}\n' "${names[@]}" 2>/dev/null)
}

one_is_installed() { # one_is_installed ENTRY
    local name
    for name in ${1//|/ }; do
        if [ -n "${is_installed[${name%\?}]:-}" ]; then return; fi
    done
    return 1
}

# find_missing ENTRY...: sets missing to the packages that apt has to install.
find_missing() {
    local entry name found
    missing=()
    for entry; do
        if one_is_installed "$entry"; then continue; fi
        found=
        for name in ${entry//|/ }; do
            if is_offered "${name%\?}"; then found=${name%\?}; break; fi
        done
        case $found,$entry in
        ,*\?) ;; # this distribution does not need it
        ,*) missing+=("${entry%%|*}") ;;
        *) missing+=("$found") ;;
        esac
    done
}

case ${1:-} in
build) wanted=$build ;;
cluster) wanted="$build $cluster" ;;
check) wanted="$build $cluster $check" ;;
browser) wanted="$build jq $browser" ;;
ship) wanted="$build $ship" ;;
arm64)
    wanted="$ship $arm64"
    for name in $build; do
        case $name in lib*-dev) wanted="$wanted $name:arm64" ;; *) wanted="$wanted $name" ;; esac
    done
    ;;
*) die "usage: $0 build|cluster|check|browser|ship|arm64" ;;
esac
if [ "$1" = cluster ] || [ "$1" = check ]; then
    # Any docker engine will do, and any go: an old one fetches the one that is needed.
    if ! command -v dockerd >/dev/null && ! docker ps -q >/dev/null 2>&1; then wanted="$wanted $engine"; fi
    command -v go >/dev/null || wanted="$wanted golang-go"
fi
command -v dpkg-query >/dev/null || die "This is neither Debian nor Ubuntu: there is no dpkg." \
    "Install what the lists at the top of $0 name by the means of your system."

own=$(dpkg --print-architecture)
if [ "$1" = arm64 ] && ! { echo "$own"; dpkg --print-foreign-architectures; } | grep -qx arm64; then
    as_root dpkg --add-architecture arm64
    apt_get update || die "apt-get update failed." "The sources in /etc/apt must offer arm64 packages, too."
fi

read -r -d '' -a entries <<<"$wanted" || true
ask_dpkg "${entries[@]}"
missing=()
for entry in "${entries[@]}"; do
    one_is_installed "$entry" || [[ $entry == *\? ]] || missing+=("$entry")
done
# Where clang's runtime for fuzzing comes from differs; that it is there can be seen.
if [ "$1" = check ] && ! compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*' >/dev/null; then
    missing+=(libclang-rt)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

started=$SECONDS
if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    echo "Fetching apt's package lists for the first time ..."
    apt_get update || die "apt-get update failed." "Check the sources in /etc/apt and the network."
fi
find_missing "${entries[@]}"
echo "Installing ${#missing[@]} packages (some minutes at most): ${missing[*]}"
if ! apt_get install -y --no-install-recommends "${missing[@]}"; then
    echo "Retrying with new package lists ..."
    apt_get update || true
    find_missing "${entries[@]}"
    apt_get install -y --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}" \
            "The lines above say which and why. On Ubuntu the section universe must be enabled."
fi
echo "Installed in $((SECONDS - started)) s."
