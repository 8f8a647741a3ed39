# shellcheck shell=bash
# Sourced by the scripts of this folder and by those that use the cluster: paths, progress lines,
# and the few commands that all of them need. Prints to stderr; stdout belongs to the caller.
#
#   CACHE   everything that is kept between runs ($SKYJOB_CACHE, else ~/.cache/skyjob)
#   BIN     kind, kubectl, helm and the rest where the machine has none; first in PATH
set -euo pipefail
shopt -s inherit_errexit

CLUSTER_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=versions.env
. "$CLUSTER_DIR/versions.env"
CACHE=${SKYJOB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/skyjob}
BIN=$CACHE/bin
# shellcheck disable=SC2034 # for those who source this
CLUSTER_KUBECONFIG=$CACHE/kubeconfig
export PATH=$BIN:$PATH
mkdir -p "$BIN" "$CACHE/log"

say() { printf '%s\n' "$*" >&2; }

die() { # die WHAT-HAPPENED WHAT-TO-DO
    printf 'error: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf '       %s\n' "$2" >&2
    exit 1
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# run SECONDS LABEL COMMAND...: one step of which SECONDS is how long it usually takes.
#
# Shows the label, the time it has taken and the time it should still take; the command's output
# goes to a log, whose end is shown when the command fails. STEP_PROGRESS may name a function that
# prints how far the step is ("312 of 1480 packages"); it gets the log's name.
run() {
    local expect=$1 label=$2 t0=$SECONDS rc=0 pid log spent next=15 text shown=; shift 2
    log=$CACHE/log/$(tr -cs 'a-z0-9' - <<<"${label,,}" | sed 's/-*$//').log
    set -m # a process group of its own, so that Ctrl-C can end all of it
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    # shellcheck disable=SC2064
    trap "kill -- -$pid 2>/dev/null; printf '\n' >&2; exit 130" INT TERM
    [ -t 2 ] || say "$label ... (about $(clock "$expect"))"
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.1
        spent=$((SECONDS - t0))
        if [ -t 2 ] && [ "$spent" != "$shown" ]; then
            printf '\r\033[K%s' "$(step_text "$label" "$spent" "$expect" "$log")" >&2
            shown=$spent
        elif [ ! -t 2 ] && [ "$spent" -ge "$next" ]; then
            text=$(step_text "$label" "$spent" "$expect" "$log")
            say "$text"
            next=$((spent + 15))
        fi
    done
    wait "$pid" || rc=$?
    trap - INT TERM
    [ ! -t 2 ] || printf '\r\033[K' >&2
    if [ "$rc" -ne 0 ]; then
        tail -n 20 "$log" | sed 's/^/    /' >&2
        die "$label failed after $(clock $((SECONDS - t0)))." "The whole output is in $log."
    fi
    say "$(printf '%-46s %5s' "$label" "$(clock $((SECONDS - t0)))")"
}

step_text() { # step_text LABEL SPENT EXPECT LOG
    local left=$(($3 - $2)) more=
    [ -z "${STEP_PROGRESS:-}" ] || more=", $("$STEP_PROGRESS" "$4")"
    if [ "$left" -gt 0 ]; then left="about $(clock "$left") left"; else left="soon done"; fi
    printf '%-46s %5s, %s%s' "$1" "$(clock "$2")" "$left" "$more"
}

# only_one NAME: waits until no other process of this user holds NAME, and holds it until exit.
only_one() {
    local fd
    exec {fd}>"$CACHE/$1.lock"
    flock -n "$fd" && return
    say "Waiting for another run that holds $CACHE/$1.lock ..."
    flock "$fd"
}

# detached PROGRAM ARGUMENT...: becomes a program that outlives the caller and keeps nothing of it
# open, such as a lock or make's pipes. Called as: (detached ...) >LOG 2>&1 </dev/null &
detached() {
    local fd
    for fd in /proc/"$BASHPID"/fd/*; do
        fd=${fd##*/}
        [ "$fd" -le 2 ] || eval "exec $fd>&-"
    done
    exec setsid "$@"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
        return
    fi
    command -v sudo >/dev/null || die "$1 needs root and there is no sudo." "Run this as root."
    sudo "$@"
}

# at_least HAVE WANT: compares versions such as v1.34.4 and 1.24.
at_least() { [ "$(printf '%s\n' "${2#v}" "${1#v}" | sort -V | head -n 1)" = "${2#v}" ]; }

# The machine's own kind, kubectl and helm serve when they are recent; else build.sh makes ours.
tool_is_good() { # tool_is_good kind|kubectl|helm
    local path version
    path=$(PATH=${PATH#"$BIN:"} command -v "$1") || return
    case $1 in
    kind) version=$("$path" version -q 2>/dev/null) && at_least "$version" "$KIND_VERSION" ;;
    kubectl) # one minor version to either side is what Kubernetes supports
        version=$("$path" version --client 2>/dev/null | sed -n 's/^Client Version: v1\.\([0-9]*\).*/\1/p')
        local minor=${K8S_VERSION#v1.}
        minor=${minor%%.*}
        [ -n "$version" ] && [ "$version" -ge $((minor - 1)) ] && [ "$version" -le $((minor + 1)) ]
        ;;
    helm)
        version=$("$path" version --template '{{.Version}}' 2>/dev/null) &&
            at_least "$version" v3.14 && ! at_least "$version" v4
        ;;
    esac
}

# A build by the engine's own builder where the newer one (buildx) is not installed. The network
# is the host's, so that a proxy or name server on the loopback address works in RUN lines too.
docker_build() {
    local args=(--network host) v
    for v in http_proxy https_proxy no_proxy; do
        [ -z "${!v:-}" ] || args+=(--build-arg "$v=${!v}")
    done
    if docker buildx version >/dev/null 2>&1; then
        DOCKER_BUILDKIT=1 docker build --progress plain "${args[@]}" "$@"
    else
        DOCKER_BUILDKIT=0 docker build "${args[@]}" "$@"
    fi
}

# Asked once a run and at most five seconds.
registry_answers() {
    if [ -z "${REGISTRY_ANSWERS:-}" ]; then
        case $(curl -s -o /dev/null -m 5 -w '%{http_code}' https://registry-1.docker.io/v2/ || true) in
        200 | 401) REGISTRY_ANSWERS=yes ;;
        *) REGISTRY_ANSWERS=no ;;
        esac
        export REGISTRY_ANSWERS
    fi
    [ "$REGISTRY_ANSWERS" = yes ]
}

# --- systems made from packages ------------------------------------------------------------------
apt_sources() { # the distribution's own files, not those added later
    local file
    for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
        if grep -qsE '^(URIs:|deb )' "$file"; then echo "$file"; fi
    done
}

# Settings that say how packages are reached, in the form that apt reads.
apt_settings() { apt-config dump | grep -E '^Acquire::(http|https|ftp|Check|Retries|ForceIPv)[^ ]* "[^"]+";' || true; }

# A minimal system as a tar file on stdout, in which apt reaches its sources as this machine's does.
bootstrap_root() { # bootstrap_root SUITE FILE-OF-SOURCES...
    local suite=$1 packages=apt settings hooks=(); shift
    settings=$(mktemp)
    # as in the images of Docker Hub: no translated descriptions
    { apt_settings; echo 'Acquire::Languages "none";'; } >"$settings"
    hooks+=(--customize-hook="upload $settings /etc/apt/apt.conf.d/90host")
    if grep -q https: "$@"; then
        packages=ca-certificates
        hooks+=(--customize-hook='upload /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt')
    fi
    as_root mmdebstrap --quiet --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        "${hooks[@]}" "$suite" - "$@"
    rm -f "$settings"
}
