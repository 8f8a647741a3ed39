#!/bin/bash
# Brings up the local cluster, or finds that it is up: one control plane and three workers of
# different speed, made by kind in docker containers.
#
#   hack/cluster/up.sh
#   WORKERS="2:4 1:3 0.5:2" hack/cluster/up.sh      one worker for each CORES:GIB
#
# By default the workers get a half, a quarter and an eighth of the machine's cores. Takes a minute,
# the first time some 14 where no image registry answers; seconds when the cluster is up already.
# down.sh removes it. The kubeconfig is $CACHE/kubeconfig and no other one is touched.
#
# The sizes are real, and what a node reports agrees. A container sees the whole machine, so
# it takes several settings: docker's quota holds the processes of a node down to its cores, and
# system-reserved makes its allocatable CPU say so (its capacity always names all cores); docker
# limits its memory, and a meminfo of its own is what the kubelet takes its memory capacity from.
# Of that memory, 256 MiB are kept for the kubelet and containerd. All workers have one folder of this
# machine at /mnt/shared, as a network volume would be: $CACHE/cluster/shared. On cgroup v1 the kernel refuses
# a pod whose CPU limit is above the quota of its node ("cpu.cfs_quota_us: invalid argument").
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
export KUBECONFIG=$CLUSTER_KUBECONFIG
cores=$(nproc)
: "${WORKERS:=$(awk -v n="$cores" 'BEGIN { printf "%g:3 %g:2 %g:2", n / 2, n / 4, n / 8 }')}"
POD_RANGE=10.244.0.0/16
read -r -a workers <<<"$WORKERS"
for worker in "${workers[@]}"; do
    [[ $worker =~ ^[0-9]*\.?[0-9]+:[1-9][0-9]*$ ]] || die "WORKERS: \"$worker\" is not CORES:GIB." 'Example: WORKERS="1:3 0.5:2 0.25:2"'
done
config=$CACHE/cluster # what the running cluster was made with
made_with="$WORKERS, shared"

node_of() { [ "$1" -eq 1 ] && echo "$CLUSTER_NAME-worker" || echo "$CLUSTER_NAME-worker$1"; }

is_up() {
    [ "$(cat "$config/made-with" 2>/dev/null)" = "$made_with" ] || return
    local ready
    ready=$(timeout 10 kubectl get nodes --request-timeout 5s 2>/dev/null | grep -c ' Ready ') || return
    [ "$ready" -eq $((${#workers[@]} + 1)) ]
}

exists() { [ -n "$(docker ps -aq --filter "label=io.x-k8s.kind.cluster=$CLUSTER_NAME")" ]; }

# --- creating it ---------------------------------------------------------------------------------
write_config() { # write_config IMAGE
    local i=0 worker kb reserved
    rm -rf "$config"
    mkdir -p "$config/shared"
    chmod 1777 "$config/shared"
    {
        printf 'kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnetworking:\n  podSubnet: %s\n' "$POD_RANGE"
        ! from_packages "$1" || printf '  disableDefaultCNI: true\n'
        # a cluster that is thrown away need not wait for the disk
        printf 'kubeadmConfigPatches:\n- |\n  kind: ClusterConfiguration\n'
        printf '  etcd: {local: {extraArgs: {unsafe-no-fsync: "true"}%s}}\n' "$(! from_packages "$1" || echo ", imageTag: $ETCD_VERSION")"
        ! from_packages "$1" || printf '  imageRepository: local\n  dns: {imageTag: %s}\n' "$COREDNS_VERSION"
        printf 'nodes:\n- role: control-plane\n'
        for worker in "${workers[@]}"; do
            i=$((i + 1))
            kb=$((${worker#*:} * 1048576))
            awk -v kb="$kb" '/^Mem(Total|Free|Available):/ { $2 = kb } { printf "%-15s %8d %s\n", $1, $2, $3 }' \
                /proc/meminfo >"$config/meminfo$i"
            reserved=$(awk -v all="$cores" -v own="${worker%:*}" 'BEGIN { r = (all - own) * 1000; printf "%d", (r > 0) ? r : 0 }')
            printf -- '- role: worker\n'
            printf '  extraMounts: [{hostPath: "%s", containerPath: /proc/meminfo, readOnly: true},\n' "$config/meminfo$i"
            printf '    {hostPath: "%s", containerPath: /mnt/shared}]\n' "$config/shared"
            printf '  kubeadmConfigPatches:\n  - |\n    kind: JoinConfiguration\n    nodeRegistration:\n'
            printf '      kubeletExtraArgs: {system-reserved: "cpu=%dm,memory=256Mi"}\n' "$reserved"
        done
    } >"$config/kind.yaml"
}

from_packages() { [[ $1 == local/* ]]; }

create() { kind create cluster --name "$CLUSTER_NAME" --image "$1" --config "$config/kind.yaml" --kubeconfig "$KUBECONFIG"; }

remove() { kind delete cluster --name "$CLUSTER_NAME" --kubeconfig "$KUBECONFIG"; }

# The cluster's own services go to the control plane, so that the workers are free for training.
keep_workers_free() {
    local name
    for name in kube-system/coredns local-path-storage/local-path-provisioner; do
        kubectl -n "${name%/*}" patch deployment "${name#*/}" --patch \
            '{"spec": {"replicas": 1, "template": {"spec": {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}}}}'
    done
}

# Tells every node all pod ranges, which skyjob-network there turns into routes.
connect_nodes() {
    local node table
    for _ in $(seq 100); do
        table=$(kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.podCIDR}{"\n"}{end}')
        if [ "$(awk 'NF == 2' <<<"$table" | wc -l)" -eq $((${#workers[@]} + 1)) ]; then break; fi
        sleep 0.2
    done
    while read -r node _; do
        docker exec -i "$node" sh -c 'cat >/etc/skyjob-network; systemctl start skyjob-network' <<<"all $POD_RANGE"$'\n'"$table"
    done <<<"$table"
}

wait_until_ready() {
    kubectl wait --for=condition=Ready node --all --timeout=180s
    kubectl -n kube-system rollout status daemonset/kube-proxy --timeout=180s
    kubectl -n kube-system rollout status deployment/coredns --timeout=180s
    kubectl -n local-path-storage rollout status deployment/local-path-provisioner --timeout=180s
}

limit_nodes() {
    local i=0 worker
    for worker in "${workers[@]}"; do
        i=$((i + 1))
        docker update --cpus "${worker%:*}" --memory "${worker#*:}g" --memory-swap "${worker#*:}g" "$(node_of $i)"
    done
    # the control plane goes first when the machine is busy
    docker update --cpu-shares 4096 "$CLUSTER_NAME-control-plane"
}

only_one cluster
"$CLUSTER_DIR/docker.sh" start
started=$SECONDS
if is_up; then
    say "The cluster $CLUSTER_NAME is up."
else
    say "Local cluster $CLUSTER_NAME: 1 control plane, ${#workers[@]} workers of ${WORKERS// /, } (cores:GiB)."
    image=$("$CLUSTER_DIR/node-image.sh")
    "$CLUSTER_DIR/build.sh" tools
    if exists; then run 10 "Remove the old cluster" remove; fi
    write_config "$image"
    run 30 "Create the nodes" create "$image"
    run 2 "Keep the workers free" keep_workers_free
    if from_packages "$image"; then run 3 "Connect the nodes" connect_nodes; fi
    run 30 "Wait until all is ready" wait_until_ready
    run 1 "Limit the workers" limit_nodes
    printf '%s' "$made_with" >"$config/made-with"
    say "The cluster is up after $(clock $((SECONDS - started)))."
fi
kubectl get nodes -o custom-columns='NODE:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory,KUBELET:.status.nodeInfo.kubeletVersion' >&2
say "To use it:  export KUBECONFIG=$KUBECONFIG PATH=$BIN:\$PATH"
