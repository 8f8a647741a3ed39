#!/bin/bash
# A Kubernetes API for tests: etcd, the API server and the controllers, as plain processes on the
# loopback address. No containers, no root.
#
#   hack/cluster/envtest.sh start DIR   ready in about 3 s; then use DIR/kubeconfig
#   hack/cluster/envtest.sh stop DIR    ends them and removes DIR
#   hack/cluster/envtest.sh pause DIR   ends them, and leaves what they know in DIR/etcd ...
#   hack/cluster/envtest.sh resume DIR  ... from which they go on at the same address
#
# The API server gets the options in API_OPTIONS as well. CRDs in the folder $CRDS are there before the
# controllers, so that the garbage collector knows owners of their kinds; of later ones it hears within 30 s.
#
# Any number may run at once, each in its own DIR and on ports of its own. There is no scheduler
# and no kubelet: a pod stays Pending until the test writes its status. Owned objects are collected
# and deleted namespaces emptied, as in a cluster. Pods need no service account. The first start
# builds what is missing (hack/cluster/build.sh envtest). Logs are DIR/*.log.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -eq 2 ] || die "usage: $0 start|stop|pause|resume DIR"
command=$1
dir=$(realpath -m "$2") crds=${CRDS:+$(realpath "$CRDS")}
etcd=unix://etcd:1 # a socket in DIR: etcd wants the form of host:port, and takes it as a file name
programs=(kube-controller-manager kube-apiserver etcd) # in the order of stopping

is_running() { # is_running PROGRAM: ours, and not another process that has got the number since
    local pid
    pid=$(cat "$dir/$1.pid" 2>/dev/null) || return
    [ "$({ tr '\0' '\n' <"/proc/$pid/cmdline" | head -n 1; } 2>/dev/null)" = "$BIN/$1" ]
}

launch() { # launch PROGRAM ARGUMENT...
    local program=$1; shift
    cd "$dir"
    (detached "$BIN/$program" "$@") >"$dir/$program.log" 2>&1 </dev/null &
    echo $! >"$dir/$program.pid"
}

# Below the range from which the kernel gives ports to outgoing connections. Another process
# may take the port before the server does: then the server ends and start tries another.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# wait_for SECONDS COMMAND...: until it succeeds; fails when time is up or a program has ended.
wait_for() {
    local end=$((SECONDS + $1)) program; shift
    until "$@" >/dev/null 2>&1; do
        for program in "${programs[@]}"; do
            [ ! -e "$dir/$program.pid" ] || kill -0 "$(cat "$dir/$program.pid")" 2>/dev/null || return
        done
        [ "$SECONDS" -lt "$end" ] || return
        sleep 0.05
    done
}

ask() { curl -sf -m 5 --cacert "$dir/certs/apiserver.crt" -H "Authorization: Bearer $token" "https://127.0.0.1:$port$1"; }

write_kubeconfig() {
    cat >"$dir/kubeconfig" <<Y
apiVersion: v1
kind: Config
current-context: envtest
clusters:
- name: envtest
  cluster:
    server: https://127.0.0.1:$port
    certificate-authority-data: $(base64 -w 0 "$dir/certs/apiserver.crt")
users:
- name: admin
  user: {token: $token}
contexts:
- name: envtest
  context: {cluster: envtest, user: admin}
Y
}

start_etcd() {
    # Nothing here outlives the machine, so nothing has to reach the disk.
    launch etcd --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
        --listen-peer-urls unix://peer:1
}

start_api() { # at $port
    # The server makes its own certificate, whose file also holds the authority that signed it.
    # shellcheck disable=SC2086 # several options
    launch kube-apiserver --etcd-servers "$etcd" \
        --bind-address 127.0.0.1 --secure-port "$port" --cert-dir "$dir/certs" \
        --token-auth-file "$dir/tokens.csv" --authorization-mode RBAC \
        --service-cluster-ip-range 10.0.0.0/24 \
        --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$dir/certs/account.key" \
        --service-account-signing-key-file "$dir/certs/account.key" \
        --disable-admission-plugins ServiceAccount --enable-priority-and-fairness=false ${API_OPTIONS:-}
    wait_for 60 ask /readyz
}

add_crds() {
    kubectl --kubeconfig "$dir/kubeconfig" apply -f "$crds" >/dev/null &&
        # `wait` fails for a CRD that is so new that it has no conditions
        wait_for 30 kubectl --kubeconfig "$dir/kubeconfig" wait --for=condition=Established crd --all --timeout=10s
}

start() {
    local try
    [ ! -e "$dir" ] || stop
    "$CLUSTER_DIR/build.sh" envtest
    mkdir -p "$dir/certs"
    chmod 700 "$dir"
    token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    echo "$token,admin,admin,system:masters" >"$dir/tokens.csv"
    openssl genrsa -out "$dir/certs/account.key" 2048 2>/dev/null
    start_etcd
    for try in 1 2 3; do
        port=$(free_port)
        if start_api; then break; fi
        grep -q 'address already in use' "$dir/kube-apiserver.log" || try=3
        [ "$try" -lt 3 ] || give_up "the API server"
        rm "$dir/kube-apiserver.pid"
    done
    write_kubeconfig
    [ -z "$crds" ] || add_crds || give_up "the API server, with the CRDs of $crds,"
    start_controllers
}

start_controllers() {
    local controllers=garbage-collector,namespace,serviceaccount,deployment,replicaset,statefulset,job
    launch kube-controller-manager --kubeconfig "$dir/kubeconfig" --leader-elect=false --secure-port 0 \
        --service-account-private-key-file "$dir/certs/account.key" \
        --controllers "${controllers//,/-controller,}-controller"
    # they are at work when the default account is there
    wait_for 60 ask /api/v1/namespaces/default/serviceaccounts/default || give_up "the controller manager"
}

resume() {
    port=$(sed -n 's|.*server: https://127.0.0.1:||p' "$dir/kubeconfig")
    token=$(cut -d , -f 1 "$dir/tokens.csv")
    rm "$dir"/*.pid
    start_etcd
    start_api || give_up "the API server"
    start_controllers
}

give_up() { # give_up WHO
    tail -n 5 "$dir"/*.log >&2
    stop_programs
    die "$1 of the test API in $dir did not get ready." "Its logs are $dir/*.log."
}

stop_programs() {
    local program
    for program in "${programs[@]}"; do
        if is_running "$program"; then kill "$(cat "$dir/$program.pid")" 2>/dev/null || true; fi
    done
    for program in "${programs[@]}"; do
        for _ in $(seq 100); do is_running "$program" || break; sleep 0.05; done
        if is_running "$program"; then kill -9 "$(cat "$dir/$program.pid")" 2>/dev/null || true; fi
    done
}

stop() {
    [ -d "$dir" ] || return 0
    [ -e "$dir/etcd.pid" ] || [ -z "$(ls -A "$dir")" ] || die "$dir is not a folder that $0 made." "Name another one."
    stop_programs
    rm -rf "$dir"
}

case $command in
start) start ;;
stop) stop ;;
pause) stop_programs ;;
resume) resume ;;
*) die "usage: $0 start|stop|pause|resume DIR" ;;
esac
