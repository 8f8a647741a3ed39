#!/bin/bash
# Prints the name of the node image for kind, and makes it if need be.
#
#   hack/cluster/node-image.sh
#
# Where Docker Hub answers (asked for at most 5 s) that is the image that kind publishes. Else it
# is made from packages: Debian's or Ubuntu's for the system (node/Dockerfile), kind's node files
# from its Go module, Kubernetes and the rest from their Go modules (build.sh), all images of the
# control plane preloaded. Takes some 12 minutes the first time and a minute after that.
# NODE_IMAGE=... uses that one and asks nobody.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

if [ -n "${NODE_IMAGE:-}" ]; then
    echo "$NODE_IMAGE"
    exit
fi
"$CLUSTER_DIR/docker.sh" start

# The name tells what went in, so that a change of these files makes a new image.
recipe=$(cd "$CLUSTER_DIR" && find node node-image.sh versions.env -type f -print0 | sort -z |
    xargs -0 sha256sum | sha256sum | cut -c 1-12)
image=local/kind-node:$K8S_VERSION-$recipe
if docker image inspect "$image" >/dev/null 2>&1; then
    echo "$image"
    exit
fi
if docker image inspect "$KIND_NODE_IMAGE" >/dev/null 2>&1; then
    echo "$KIND_NODE_IMAGE"
    exit
fi
if registry_answers; then
    run 60 "Pull ${KIND_NODE_IMAGE%@*}" docker pull -q "$KIND_NODE_IMAGE"
    echo "$KIND_NODE_IMAGE"
    exit
fi
say "No image registry answers: the node image is made from packages."
"$CLUSTER_DIR/build.sh" cluster
base=$("$CLUSTER_DIR/base-image.sh" skyjob/base:packages)
work=$(mktemp -d)
container=skyjob-preload
trap 'rm -rf "$work"; docker rm -f -v $container >/dev/null 2>&1 || true' EXIT

# --- the images that run in the cluster ----------------------------------------------------------
binary_image() { # binary_image NAME FILE: one program and nothing else
    tar -C "$(dirname "$2")" --owner=0 --group=0 --mode=755 -c "$(basename "$2")" |
        docker import --change "ENTRYPOINT [\"/$(basename "$2")\"]" --change 'ENV PATH=/:/bin' - "$1"
}

make_images() {
    local name
    gcc -O2 -static -s -o "$work/pause" "$CLUSTER_DIR/node/pause.c"
    binary_image local/pause:1 "$work/pause"
    for name in kube-apiserver kube-controller-manager kube-scheduler; do
        binary_image "local/$name:$K8S_VERSION" "$BIN/$name"
    done
    binary_image "local/etcd:$ETCD_VERSION" "$BIN/etcd"
    binary_image "local/coredns:$COREDNS_VERSION" "$BIN/coredns"
    binary_image local/local-path-provisioner:1 "$BIN/local-path-provisioner"
    docker_build -t local/shell:1 --target shell --build-arg BASE="$base" "$work/context"
    mkdir "$work/proxy"
    cp "$BIN/kube-proxy" "$work/proxy/"
    printf 'FROM local/shell:1\nCOPY kube-proxy /usr/local/bin/\nENTRYPOINT ["kube-proxy"]\n' >"$work/proxy/Dockerfile"
    docker_build -t "local/kube-proxy:$K8S_VERSION" "$work/proxy"
}

names=(local/pause:1 local/shell:1 local/local-path-provisioner:1 "local/etcd:$ETCD_VERSION"
    "local/coredns:$COREDNS_VERSION" "local/kube-apiserver:$K8S_VERSION" "local/kube-proxy:$K8S_VERSION"
    "local/kube-controller-manager:$K8S_VERSION" "local/kube-scheduler:$K8S_VERSION")

# --- the node ------------------------------------------------------------------------------------
lay_out_context() {
    local kind files=$work/context/files
    kind=$CACHE/gomod/sigs.k8s.io/kind@$KIND_VERSION
    mkdir -p "$files/usr/bin" "$files/kind/manifests"
    cp "$CLUSTER_DIR/node/Dockerfile" "$work/context/"
    cp -r --no-preserve=mode,ownership "$kind/images/base/files/." "$files/"
    cp -r "$CLUSTER_DIR/node/etc" "$CLUSTER_DIR/node/usr" "$files/"
    rm -rf "$files/LICENSES" "$files/kind/README.txt"
    chmod 755 "$files"/usr/local/bin/* "$files"/kind/bin/*
    install -m 755 "$BIN/kubelet" "$BIN/kubeadm" "$BIN/kubectl" "$files/usr/bin/"
    printf '%s' "$K8S_VERSION" >"$files/kind/version"
    # kind's volumes by default, with our images
    # shellcheck disable=SC2016 # the quotes are those of the Go source
    sed -n '/^const defaultStorageManifest = `/,/^`/p' "$kind/pkg/build/nodeimage/const_storage.go" |
        sed -e '1d;$d' -e 's#` + storageProvisionerImage + `#local/local-path-provisioner:1#' \
            -e 's#` + storageHelperImage + `#local/shell:1#' >"$files/kind/manifests/default-storage.yaml"
}

make_node() { docker_build -t local/kind-base --target node --build-arg BASE="$base" "$work/context"; }

# containerd itself takes the images in, in a container that then becomes the node image.
preload() {
    docker rm -f -v $container 2>/dev/null || true
    docker run -d --name $container --entrypoint sleep --security-opt seccomp=unconfined local/kind-base infinity
    docker exec -d $container containerd
    for _ in $(seq 100); do
        if docker exec $container ctr version >/dev/null 2>&1; then break; fi
        sleep 0.1
    done
    docker save "${names[@]}" | docker exec -i $container ctr --namespace k8s.io images import \
        --label=io.cri-containerd.pinned=pinned --all-platforms --no-unpack --digests -
    docker exec $container pkill containerd
    sleep 1
    docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' $container "$image"
}

mkdir "$work/context"
run 2 "Collect the node's files" lay_out_context
run 40 "Images of the control plane" make_images
run 10 "Node image" make_node
run 15 "Put the images into the node image" preload
mapfile -t old < <(docker images --format '{{.Repository}}:{{.Tag}}' | grep '^local/kind-node:' | grep -vxF "$image" || true)
docker rmi -f "${names[@]}" "${old[@]}" local/kind-base >/dev/null 2>&1 || true
echo "$image"
