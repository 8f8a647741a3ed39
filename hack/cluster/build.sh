#!/bin/bash
# Builds Kubernetes and its tools from their Go modules into $CACHE/bin, each once.
#
#   hack/cluster/build.sh envtest   etcd, API server, controller manager, kubectl and helm
#   hack/cluster/build.sh cluster   what a cluster made from packages needs, kind and helm
#   hack/cluster/build.sh tools     kind, kubectl and helm, where the machine's own will not do
#   hack/cluster/build.sh s3        versitygw, an S3 server for tests
#   hack/cluster/build.sh scale     kwok, which makes believe that nodes and pods are there
#   hack/cluster/build.sh kueue     Kueue, which queues jobs for quota
#   hack/cluster/build.sh cert-manager  of cert-manager what keeps a CA
#   hack/cluster/build.sh prometheus-operator  and Prometheus, which as Debian has it finds no pods
#
# Needs nothing but the Go module proxy. The first time takes some 10 minutes on 2 cores; what is
# there already in its right version is left alone. Two runs at once wait for each other.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
what=${1:-}
case $what in
envtest | cluster | tools | s3 | scale | kueue | cert-manager | prometheus-operator) ;;
*) die "usage: $0 envtest|cluster|tools|s3|scale|kueue|cert-manager|prometheus-operator" ;;
esac

export GOMODCACHE=$CACHE/gomod GOCACHE=$CACHE/gocache GOWORK=off
export CGO_ENABLED=0 GOFLAGS="-mod=mod -trimpath -buildvcs=false"
KUBERNETES=$CACHE/src/kubernetes-$K8S_VERSION

# --- what there is to do -----------------------------------------------------------------------
declare -A version_of=(
    [etcd]=$ETCD_VERSION [coredns]=$COREDNS_VERSION [local-path-provisioner]=$LOCAL_PATH_VERSION
    [kind]=$KIND_VERSION [helm]=$HELM_VERSION [versitygw]=$VERSITYGW_VERSION [kwok]=$KWOK_VERSION
    [kueue]=$KUEUE_VERSION [cert-manager]=$CERT_MANAGER_VERSION [prometheus-operator]=$PROMETHEUS_OPERATOR_VERSION
    [prometheus]=$PROMETHEUS_VERSION)

wanted() {
    local tool
    [ "$what" != s3 ] || { echo versitygw; return; }
    [[ $what != @(kueue|cert-manager) ]] || { echo "$what"; return; }
    [ "$what" != prometheus-operator ] || { printf '%s\n' prometheus-operator prometheus; return; }
    [ "$what" != scale ] || { printf '%s\n' kube-scheduler kwok; return; }
    [ "$what" = tools ] || printf '%s\n' etcd kube-apiserver kube-controller-manager
    [ "$what" != cluster ] || printf '%s\n' kube-scheduler kube-proxy kubelet kubeadm \
        local-path-provisioner coredns
    # the node image has a kubectl in it, so a cluster from packages needs ours in any case
    [ "$what" = cluster ] || tool_is_good kubectl || echo kubectl
    [ "$what" != cluster ] || echo kubectl
    for tool in kind helm; do
        [ "$what $tool" = 'envtest kind' ] || tool_is_good "$tool" || echo "$tool"
    done
}

is_built() { [ -x "$BIN/$1" ] && [ "$(cat "$BIN/.$1.version" 2>/dev/null)" = "${version_of[$1]:-$K8S_VERSION}" ]; }

# --- Go itself ---------------------------------------------------------------------------------
go_is_good() {
    local version
    version=$("$1" env GOVERSION 2>/dev/null) && at_least "${version#go}" "$GO_MIN"
}

# The toolchain is a module like any other, so an old go can fetch a new one. A module's files
# come without the right to execute.
fetch_go() {
    (cd / && GO111MODULE=on go mod download "golang.org/$toolchain")
    chmod -R u+w "$GOMODCACHE/golang.org/$toolchain"
    chmod +x "$GOMODCACHE/golang.org/$toolchain"/bin/* "$GOMODCACHE/golang.org/$toolchain"/pkg/tool/*/*
}

find_go() {
    command -v go >/dev/null || die "There is no go command." "Run: hack/deps.sh cluster"
    if ! go_is_good go; then
        toolchain=toolchain@v0.0.1-go$GO_VERSION.linux-$(go env GOARCH)
        go_is_good "$GOMODCACHE/golang.org/$toolchain/bin/go" || run 30 "Fetch Go $GO_VERSION" fetch_go
        PATH=$GOMODCACHE/golang.org/$toolchain/bin:$PATH
    fi
    export GOTOOLCHAIN=local
}

# --- modules -----------------------------------------------------------------------------------
# The published go.mod of Kubernetes points at folders that the module does not hold; here they
# become the modules that are published for them. Both the "replace" and the "require" lines must
# name the real version: it is part of what is compiled, and would otherwise be put right in the
# middle of the work, which then starts again.
kubernetes_sources() {
    local dir
    mkdir -p "$KUBERNETES"
    cd "$KUBERNETES"
    printf 'module skyjob.dev/cluster\n' >go.mod
    dir=$(go mod download -json "k8s.io/kubernetes@$K8S_VERSION" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cat "$dir/go.sum" >go.sum
    awk -v real="v0.${K8S_VERSION#v1.}" '
        /^module /                     { print "module skyjob.dev/cluster"; next }
        /k8s\.io\/sample-c/            { next } # named, but never needed nor always published
        sub(/=> \.\/staging\/src\//, "=> ") { print $0, real; next }
        /^\tk8s\.io\/[a-z-]+ v0\.0\.0$/ { sub(/v0\.0\.0$/, real) }
                                       { print }' "$dir/go.mod" >go.mod.new
    printf 'require k8s.io/kubernetes %s\n' "$K8S_VERSION" >>go.mod.new
    mv go.mod.new go.mod
    packages_of "$@" | xargs -r go list -deps >/dev/null
}

plain_sources() { # plain_sources NAME MODULE PACKAGE: a module that is built by itself
    mkdir -p "$CACHE/src/$1"
    cd "$CACHE/src/$1"
    printf 'module skyjob.dev/cluster\n\ngo 1.24\n' >go.mod
    rm -f go.sum
    [ "$1" != cert-manager ] || { mkdir -p cert-manager && cert_manager_main >cert-manager/main.go; }
    go get "$2@${version_of[$1]}"
    go list -deps "$3" >/dev/null
}

# A module that shares most of its code with Kubernetes, and asks for newer versions of some of
# it. Everything would be compiled a second time for that, which takes minutes, so those versions
# are ruled out but for the modules that MAY_BE_NEWER (a pattern) names.
sources_beside_kubernetes() { # sources_beside_kubernetes NAME MODULE PACKAGE MAY_BE_NEWER
    local dir=$CACHE/src/$1 round
    mkdir -p "$dir"
    cd "$dir"
    cat "$KUBERNETES/go.sum" >go.sum
    : >excluded
    awk '/^require/ { on = 1 } /^\)/ { on = 0 } on && NF >= 2 && !/^require/ { print $1, $2 }' \
        "$KUBERNETES/go.mod" | grep -Ev "${4:-^$}" | sort >pinned
    [ "$1" != coredns ] || { mkdir -p coredns && coredns_main >coredns/main.go; }
    for round in 1 2 3 4 5 6 7 8; do
        { cat "$KUBERNETES/go.mod" excluded; printf 'require %s %s\n' "$2" "${version_of[$1]}"; } >go.mod
        go list -deps "$3" >/dev/null
        go list -m -f '{{.Path}} {{.Version}}' all | sort >chosen
        join pinned chosen | awk '$2 != $3 { print "exclude", $1, $3 }' >newer
        [ -s newer ] || return 0
        cat newer >>excluded
    done
    echo "the versions of $1 did not settle in $round rounds" >&2
    return 1
}

# Only the plugins that kubeadm's configuration of the cluster's DNS names, and `log`.
coredns_main() {
    local plugin
    printf 'package main\n\nimport (\n\t"github.com/coredns/coredns/coremain"\n'
    for plugin in cache errors forward health kubernetes loadbalance log loop metrics ready reload; do
        printf '\t_ "github.com/coredns/coredns/plugin/%s"\n' "$plugin"
    done
    printf ')\n\nfunc main() { coremain.Run() }\n'
}

# Its program is no part of its module: this one runs the controllers for certificates that sign themselves.
cert_manager_main() {
    local controller
    printf 'package main\n\nimport (\n\t"context"\n\t"log"\n\t"os"\n\n\t"github.com/cert-manager/cert-manager/pkg/controller"\n'
    for controller in controller/certificates/{issuing,keymanager,readiness,requestmanager,revisionmanager,trigger} \
        controller/certificaterequests/{approver,selfsigned} controller/issuers issuer/selfsigned; do
        printf '\t_ "github.com/cert-manager/cert-manager/pkg/%s"\n' "$controller"
    done
    cat <<'GO'
)

func main() {
	ctx := context.Background()
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: os.Args[1]})
	if err != nil {
		log.Fatal(err)
	}
	shared, err := factory.Build("informers")
	if err != nil {
		log.Fatal(err)
	}
	for name, build := range controller.Known() {
		one, err := build(factory)
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		go one.Run(1, ctx)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	select {}
}
GO
}

package_of() {
    case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    coredns | cert-manager) echo "skyjob.dev/cluster/$1" ;;
    local-path-provisioner) echo github.com/rancher/local-path-provisioner ;;
    kind) echo sigs.k8s.io/kind ;;
    helm) echo helm.sh/helm/v3/cmd/helm ;;
    versitygw) echo github.com/versity/versitygw/cmd/versitygw ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    kueue) echo sigs.k8s.io/kueue/cmd/kueue ;;
    prometheus-operator) echo github.com/prometheus-operator/prometheus-operator/cmd/operator ;;
    prometheus) echo github.com/prometheus/prometheus/cmd/prometheus ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
    esac
}

packages_of() {
    local name
    for name; do package_of "$name"; done
}

# --- compiling ---------------------------------------------------------------------------------
# go prints one line for each package that it has compiled.
packages_done() { printf '%d of %d packages' "$(grep -c '^[^ #]*$' "$1" || true)" "$stale"; }

compile() { # compile LABEL LDFLAGS NAME...   in the module of the working directory
    local label=$1 ldflags="-s -w $2" name packages out=$BIN/.new; shift 2
    mapfile -t packages < <(packages_of "$@")
    stale=$(go list -deps -f '{{if .Stale}}x{{end}}' "${packages[@]}" | grep -c x || true)
    rm -rf "$out"
    mkdir "$out"
    STEP_PROGRESS=packages_done run $((stale / 5 + 4 * $#)) "$label" \
        go build -v -ldflags "$ldflags" -o "$out/" "${packages[@]}"
    for name; do
        # a program is named after its package: that of etcd is "server"
        [ -e "$out/$name" ] || mv "$out"/* "$out/$name"
        mv "$out/$name" "$BIN/$name"
        printf '%s\n' "${version_of[$name]:-$K8S_VERSION}" >"$BIN/.$name.version"
    done
    rmdir "$out"
}

kubernetes_ldflags() {
    local package minor=${K8S_VERSION#v1.}
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        printf -- '-X %s.%s ' "$package" "gitVersion=$K8S_VERSION" "$package" gitMajor=1 \
            "$package" "gitMinor=${minor%%.*}" "$package" gitTreeState=clean \
            "$package" gitCommit=module "$package" buildDate=1970-01-01T00:00:00Z
    done
}

build() { # build NAME
    case $1 in
    etcd) run 15 "Fetch etcd $ETCD_VERSION" plain_sources etcd go.etcd.io/etcd/server/v3 "$(package_of etcd)" ;;
    versitygw) run 20 "Fetch versitygw $VERSITYGW_VERSION" plain_sources versitygw \
        github.com/versity/versitygw "$(package_of versitygw)" ;;
    kind) run 5 "Fetch kind $KIND_VERSION" plain_sources kind sigs.k8s.io/kind "$(package_of kind)" ;;
    helm) run 20 "Fetch Helm $HELM_VERSION" sources_beside_kubernetes helm helm.sh/helm/v3 \
        "$(package_of helm)" '^github.com/spf13/' ;;
    local-path-provisioner) run 10 "Fetch local-path-provisioner $LOCAL_PATH_VERSION" \
        sources_beside_kubernetes local-path-provisioner github.com/rancher/local-path-provisioner \
        "$(package_of local-path-provisioner)" '' ;;
    cert-manager) run 30 "Fetch cert-manager $CERT_MANAGER_VERSION" plain_sources cert-manager github.com/cert-manager/cert-manager \
        "$(package_of cert-manager)" ;;
    kueue) run 30 "Fetch Kueue $KUEUE_VERSION" plain_sources kueue sigs.k8s.io/kueue "$(package_of kueue)" ;;
    prometheus-operator) run 30 "Fetch the Prometheus Operator $PROMETHEUS_OPERATOR_VERSION" plain_sources prometheus-operator \
        github.com/prometheus-operator/prometheus-operator "$(package_of prometheus-operator)" ;;
    prometheus) run 60 "Fetch Prometheus $PROMETHEUS_VERSION" plain_sources prometheus github.com/prometheus/prometheus \
        "$(package_of prometheus)" ;;
    kwok) run 20 "Fetch kwok $KWOK_VERSION" plain_sources kwok sigs.k8s.io/kwok "$(package_of kwok)" ;;
    coredns) run 20 "Fetch CoreDNS $COREDNS_VERSION" sources_beside_kubernetes coredns \
        github.com/coredns/coredns "$(package_of coredns)" '' ;;
    esac
    cd "$CACHE/src/$1"
    compile "Build $1 ${version_of[$1]}" "$(if [ "$1" = helm ]; then
        echo "-X helm.sh/helm/v3/internal/version.version=$HELM_VERSION"; fi)" "$1"
}

# --- in order: what shares its code with Kubernetes comes after it -----------------------------
only_one build
todo=()
for name in $(wanted); do is_built "$name" || todo+=("$name"); done
[ ${#todo[@]} -gt 0 ] || exit 0
find_go
say "To build into $BIN, once: ${todo[*]}"
kubernetes=() others=()
for name in "${todo[@]}"; do
    if [ -n "${version_of[$name]:-}" ]; then others+=("$name"); else kubernetes+=("$name"); fi
done
if { [[ $what != @(s3|kueue|cert-manager|prometheus-operator) ]] && [ ! -e "$KUBERNETES/go.mod" ]; } || [ ${#kubernetes[@]} -gt 0 ]; then
    run 30 "Fetch Kubernetes $K8S_VERSION" kubernetes_sources "${kubernetes[@]}"
fi
if [ ${#kubernetes[@]} -gt 0 ]; then
    cd "$KUBERNETES"
    compile "Build Kubernetes $K8S_VERSION" "$(kubernetes_ldflags)" "${kubernetes[@]}"
fi
for name in "${others[@]}"; do build "$name"; done
