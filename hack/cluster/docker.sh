#!/bin/bash
# Makes sure that a docker engine answers, and stops one that it has started.
#
#   hack/cluster/docker.sh start   quick when one answers; else starts the machine's service, or
#                                  without a service manager dockerd itself (data in $CACHE/docker)
#   hack/cluster/docker.sh stop    stops a dockerd that start began, and undoes what start and it
#                                  changed on the machine; any other engine is left alone
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
state=$CACHE/dockerd # pid, log and what to undo

answers() { "$@" ps -q >/dev/null 2>&1; }

# Where only root may use the engine, a "docker" that calls sudo goes first in PATH, for kind and
# make.
make_reachable() {
    local docker
    rm -f "$BIN/docker"
    hash -r
    docker=$(command -v docker) || die "There is no docker command." "Run: hack/deps.sh cluster"
    if answers "$docker"; then return; fi
    if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null || ! answers sudo "$docker"; then return; fi
    # shellcheck disable=SC2016 # "$@" is for the script that is written
    printf '#!/bin/sh\nexec sudo %s "$@"\n' "$docker" >"$BIN/docker"
    chmod +x "$BIN/docker"
    hash -r
}

# --- starting dockerd without a service manager -------------------------------------------------
# What start changes, stop puts back: noted once, unless the machine has started anew since.
remember_machine() {
    local name boot
    boot=$(cat /proc/sys/kernel/random/boot_id)
    [ "$(cat "$state/boot" 2>/dev/null)" != "$boot" ] || return 0
    as_root rm -rf "$state"
    mkdir -p "$state"
    for name in net/ipv4/ip_forward fs/inotify/max_user_instances fs/inotify/max_user_watches; do
        printf '%s=%s\n' "$name" "$(cat "/proc/sys/$name")"
    done >"$state/sysctl"
    as_root iptables -S FORWARD 2>/dev/null | head -n 1 >"$state/forward" || true
    printf '%s\n' "$boot" >"$state/boot"
}

# On cgroup v1 all controllers have to be there before the first container: what is missing, the
# systemd in each node would mount for itself, and then all nodes share its root and see each
# other's pods as strangers of their own.
mount_cgroups() {
    local name enabled
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || return 0
    mountpoint -q /sys/fs/cgroup || as_root mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for name in systemd $(awk '!/^#/ && $4 == 1 { print $1 }' /proc/cgroups); do
        enabled=$name
        [ "$name" != systemd ] || enabled=none,name=systemd
        grep -Eq " /sys/fs/cgroup/[^ ]* [^ ]* - cgroup .*[,=]$name(,|$)" /proc/self/mountinfo && continue
        as_root mkdir -p "/sys/fs/cgroup/$name"
        if as_root mount -t cgroup -o "$enabled" cgroup "/sys/fs/cgroup/$name"; then
            echo "/sys/fs/cgroup/$name" >>"$state/mounts"
        else
            as_root rmdir "/sys/fs/cgroup/$name"
        fi
    done
}

# Many pods watch many files. A machine that does not let itself be set may still have enough.
set_kernel_values() {
    local name value
    for name in max_user_instances=8192 max_user_watches=1048576; do
        value=${name#*=} name=/proc/sys/fs/inotify/${name%=*}
        [ "$(cat "$name")" -ge "$value" ] || as_root tee "$name" <<<"$value" >/dev/null || true
    done
}

# On a machine whose root lacks a capability (a sandbox), "docker run --privileged" fails because
# dockerd asks for all of them. There, this runtime takes the missing ones out of the request and
# hands over to runc. Prints the missing ones as a JSON list.
missing_capabilities() {
    local bounding
    bounding=$((0x$(as_root grep CapBnd /proc/self/status | cut -f 2)))
    awk '/^#define[ \t]+CAP_[A-Z_]+[ \t]+[0-9]+$/ { print $3, $2 }' /usr/include/linux/capability.h |
        while read -r number name; do
            (((bounding >> number) & 1)) || [ "$number" -gt "$(cat /proc/sys/kernel/cap_last_cap)" ] ||
                printf '%s\n' "$name"
        done | jq -Rsc 'split("\n") | map(select(. != ""))'
}

write_runtime() { # write_runtime JSON-LIST
    cat >"$state/runc-without" <<R
#!/bin/bash
# Written by hack/cluster/docker.sh: runc without the capabilities that this machine's root lacks.
missing='$1'
previous= file=
for argument; do
    case \$previous in
    --bundle | -b) file=\$argument/config.json ;; # create: the process is a part of it
    --process | -p) file=\$argument ;;            # exec: it is the process
    esac
    previous=\$argument
done
if [ -s "\$file" ]; then
    kept=\$(jq -c --argjson missing "\$missing" '
        def without: if .capabilities then .capabilities[] |= . - \$missing else . end;
        if .process then .process |= without else without end' "\$file") && printf '%s' "\$kept" >"\$file"
fi
exec $(command -v runc || echo /usr/sbin/runc) "\$@"
R
    chmod 755 "$state/runc-without"
}

start_dockerd() {
    local missing arguments=() sudo=()
    command -v dockerd >/dev/null || PATH=$PATH:/usr/sbin:/sbin
    command -v dockerd >/dev/null || die "No docker engine answers and there is no dockerd to start." "Run: hack/deps.sh cluster"
    [ "$(id -u)" -eq 0 ] || sudo -v || die "Starting dockerd needs root." "Run this as root, or start docker yourself."
    remember_machine
    mount_cgroups
    set_kernel_values
    missing=$(missing_capabilities)
    if [ "$missing" != "[]" ]; then
        write_runtime "$missing"
        arguments=(--add-runtime "bounded=$state/runc-without" --default-runtime bounded)
    fi
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    (detached "${sudo[@]}" "$(command -v dockerd)" "${arguments[@]}" --data-root "$CACHE/docker" \
        --pidfile "$state/pid") >"$state/log" 2>&1 </dev/null &
    local starter=$! end=$((SECONDS + 60))
    until answers as_root docker; do
        if [ "$SECONDS" -ge "$end" ] || ! kill -0 $starter 2>/dev/null; then
            tail -n 5 "$state/log" >&2
            die "dockerd did not start." "Its log is $state/log."
        fi
        sleep 0.2
    done
}

start() {
    only_one docker
    make_reachable
    if answers docker; then return; fi
    if [ -d /run/systemd/system ] && systemctl cat docker.service >/dev/null 2>&1; then
        say "Starting the docker service ..."
        as_root systemctl start docker
    else
        say "No docker engine answers; starting dockerd (log: $state/log) ..."
        start_dockerd
    fi
    make_reachable
    answers docker || die "The docker engine does not answer to $(id -un)." \
        "Run this as root, or join the docker group: sudo usermod -aG docker $(id -un), then log in again."
}

# --- undoing it ---------------------------------------------------------------------------------
stop() {
    local pid path name
    [ -e "$state/boot" ] || return 0
    pid=$(cat "$state/pid" 2>/dev/null || echo none)
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
        as_root kill "$pid"
        for _ in $(seq 300); do [ -d "/proc/$pid" ] || break; sleep 0.1; done
    fi
    # what dockerd leaves behind: its bridge, its firewall chains, its forwarding rules
    as_root ip link delete docker0 2>/dev/null || true
    for name in iptables ip6tables; do
        as_root "$name-save" 2>/dev/null | grep -vi docker | as_root "$name-restore" 2>/dev/null || true
    done
    # shellcheck disable=SC2046
    [ ! -s "$state/forward" ] || as_root iptables $(cat "$state/forward") || true
    if [ "$(cat "$state/boot")" = "$(cat /proc/sys/kernel/random/boot_id)" ]; then
        while IFS='=' read -r name path; do
            as_root tee "/proc/sys/$name" <<<"$path" >/dev/null || true
        done <"$state/sysctl"
    fi
    if [ -e "$state/mounts" ]; then
        while read -r path; do
            if as_root umount "$path"; then as_root rmdir "$path" || true; fi
        done <"$state/mounts"
    fi
    as_root rm -rf "$state"
    rm -f "$BIN/docker"
    say "Stopped the dockerd that was started for the cluster."
}

case ${1:-} in
start) start ;;
stop) stop ;;
*) die "usage: $0 start|stop" ;;
esac
