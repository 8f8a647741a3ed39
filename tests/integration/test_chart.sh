#!/bin/bash
# The chart: what it renders is what manifests/ has, a real API server takes it, and wrong values
# are refused before anything is installed.
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
# shellcheck source=hack/cluster/lib.sh
. hack/cluster/lib.sh
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
set +e
export KUBECONFIG=$dir/api/kubeconfig
finish() {
    hack/cluster/envtest.sh stop "$dir/api" 2>/dev/null
    rm -rf "$dir"
}
at_exit finish

render() { helm template rel charts/skyjob --namespace ns --kube-version 1.34 --skip-tests "$@"; }
refused() { # refused WORD HELM-ARGUMENT...: the values' schema says no and names what is wrong
    local word=$1; shift
    ! render "$@" >"$dir/text" 2>&1 && grep -q -- "$word" "$dir/text"
}

manifests_same() { hack/manifests.sh --check; }
lints() { helm lint --strict charts/skyjob; }
bad_values() {
    refused pullPolicy --set image.pullPolicy=Sometimes && refused health.port --set health.port=80 &&
        refused imagee --set imagee.tag=1 && refused log.level --set log.level=loud &&
        refused replicas --set replicas=0 && refused workerUser --set workerUser=0 &&
        refused metrics.alerts --set metrics.alerts.enable=true && refused /metrics/port --set metrics.port=80 &&
        refused 'need metrics.enabled' --set metrics.enabled=false,metrics.podMonitor.enabled=true
}
operators() { # of several one may be taken away at a time
    # shellcheck disable=SC2016 # the kubelet fills it in
    render >"$dir/text" && grep -qx '  replicas: 2' "$dir/text" && grep -qx 'kind: PodDisruptionBudget' "$dir/text" &&
        grep -qF -- '- --leader-election=$(POD_NAMESPACE)/rel-skyjob-operator' "$dir/text" &&
        ! render --set replicas=1 | has PodDisruptionBudget
}
some_namespaces() { # a Role in each, and for the cluster only nodes and metrics
    render --set 'watchNamespaces={team,other}' --set rbac.aggregateClusterRoles=false --set crds.enabled=false >"$dir/text" &&
        grep -q -- '- --namespace=team' "$dir/text" && grep -q -- '- --namespace=other' "$dir/text" &&
        [ "$(grep -A4 -x 'kind: Role' "$dir/text" | grep -c '^  namespace: \(team\|other\)$')" = 2 ] &&
        [ "$(grep -A4 -x 'kind: RoleBinding' "$dir/text" | grep -c '^  namespace: \(team\|other\)$')" = 2 ] &&
        [ "$(grep -cx 'kind: ClusterRole' "$dir/text")" = 3 ] && ! grep -A20 -x 'kind: ClusterRole' "$dir/text" | has pods &&
        refused watchNamespaces --set 'watchNamespaces={team,team}'
}
keeps_crd() {
    render -s templates/crd.yaml | has 'helm.sh/resource-policy: keep' &&
        ! render -s templates/crd.yaml --set crds.keep=false | has resource-policy &&
        ! render --set crds.enabled=false | has CustomResourceDefinition
}
sets_values() {
    render --set image.registry=r.example.com --set image.tag=t --set workerImage.repository=w --set workerImage.tag=v \
        --set-json 'tolerations=[{"key":"k","operator":"Exists"}]' --set nodeSelector.a=b --set priorityClassName=high \
        --set podAnnotations.note=x --set 'extraArgs={--context=c}' >"$dir/text" &&
        grep -q 'image: "r.example.com/skyjob/operator:t"' "$dir/text" && grep -q -- '--worker-image=w:v' "$dir/text" &&
        grep -q 'key: k' "$dir/text" && grep -q 'a: b' "$dir/text" && grep -q 'priorityClassName: high' "$dir/text" &&
        grep -q 'note: x' "$dir/text" && grep -q -- '- --context=c' "$dir/text"
}
images() {
    local digest='sha256:0123456789012345678901234567890123456789012345678901234567890123'
    render --set 'workerPullSecrets={a,b}' | has -- '- --worker-pull-secret=b' && render --set global.imageRegistry=g.example.com --set workerImage.registry=w.example.com --set "image.digest=$digest" >"$dir/text" &&
        grep -qF "image: \"g.example.com/skyjob/operator@$digest\"" "$dir/text" && grep -q -- '--worker-image=w.example.com/skyjob/worker:' "$dir/text" &&
        refused digest --set image.digest=latest
}
limits() {
    ! render | has -- --kube- && render --set kubeApi.qps=20 --set kubeApi.burst=30 --set-json 'topologySpreadConstraints=[{"maxSkew":2}]' >"$dir/text" &&
        grep -q -- '- --kube-qps=20' "$dir/text" && grep -q -- '- --kube-burst=30' "$dir/text" && grep -q 'maxSkew: 2' "$dir/text" &&
        ! grep -q 'maxSkew: 1' "$dir/text" && refused kubeApi.qps --set kubeApi.qps=0
}
network_policy() {
    # shellcheck disable=SC2016 # the kubelet fills it in
    render -s templates/networkpolicy.yaml >"$dir/text" && grep -q 'port: 8081' "$dir/text" && grep -q 'port: 8443' "$dir/text" &&
        render -s templates/deployment.yaml | has -F -- '- --operator-pods=$(POD_NAMESPACE)/app.kubernetes.io/name=skyjob,app.kubernetes.io/instance=rel,app.kubernetes.io/component=operator' &&
        render --set networkPolicy.enabled=false >"$dir/text" && grep -q -- '- --network-policy=off' "$dir/text" &&
        ! grep -qx 'kind: NetworkPolicy' "$dir/text"
}
probe_priority() { # one of the chart's own, another one, or none
    render >"$dir/text" && grep -q -- '--probe-priority-class=rel-skyjob-probe$' "$dir/text" &&
        grep -A1 'name: rel-skyjob-probe$' "$dir/text" && grep -qx 'value: -1000000000' "$dir/text" &&
        grep -qx 'preemptionPolicy: Never' "$dir/text" || return
    render --set probePriorityClass.create=false >"$dir/text" && ! grep -q '^kind: PriorityClass\|probe-priority-class' "$dir/text" &&
        render --set probePriorityClass.create=false --set probePriorityClass.name=low | has -- '--probe-priority-class=low$'
}
families() { grep -ohE '"(skyjob|process)_[a-z_]+"' operator/run/metrics.c worker/train/metrics.c common/base/process.c | tr -d '"' | sort -u; }
named_in() { grep -ohE '(skyjob|process)_[a-z_]+' "$@" | sed -E 's/_(bucket|sum|count)$//' | sort -u; }
known_families() { # an alert on a metric that is not there would never fire
    local file
    for file in charts/skyjob/files/alerts.yaml charts/skyjob/files/dashboard.json; do
        named_in "$file" | has . && ! comm -13 <(families) <(named_in "$file") | grep . || return
    done
}
worker_metrics() { # on demand, to who has the certificate, from pods that are named
    local on='metrics.workers.enabled=true,metrics.workers.podMonitor.enabled=true' secret=rel-skyjob-worker-metrics
    ! render | has 'metrics-secret\|worker-metrics' || return
    render --set "$on,metrics.workers.from.namespace=mon,metrics.workers.from.labels.a=b,metrics.workers.from.labels.c=d" >"$dir/text" &&
        grep -q -- '- --worker-metrics=on$' "$dir/text" && grep -q -- '--metrics-readers=mon/a=b,c=d"$' "$dir/text" &&
        grep -q -- "- --metrics-secret=.(POD_NAMESPACE)/$secret$" "$dir/text" &&
        grep -q "variables.it.metadata.name in \['rel-skyjob-ca', '$secret'\]" "$dir/text" &&
        grep -A1 -F "resourceNames: [$secret]" "$dir/text" | has 'verbs: \[get, patch\]' && [ "$(grep -cF "{name: $secret, key: " "$dir/text")" = 3 ] &&
        grep -A1 -x '  namespaceSelector:' "$dir/text" | has 'any: true' || return
    render --set "$on,tls.certManager=true" >"$dir/text" && grep -q "variables.it.metadata.name in \['$secret'\]" "$dir/text" &&
        grep -A1 'reads workers. metrics$' "$dir/text" | has 'verbs: \[create\]' || return
    render --set "$on,tls.enabled=false" --set 'watchNamespaces={team}' >"$dir/text" && grep -q -- '- --worker-metrics=on$' "$dir/text" &&
        ! grep -q "metrics-secret\|$secret\|scheme: https" "$dir/text" && grep -qF 'matchNames: ["team"]' "$dir/text" &&
        refused metrics/workers/from --set metrics.workers.from.labels.a=b
}
serves_metrics() { # with the rights for that, and those of who reads them
    render >"$dir/text" && grep -q -- '- --metrics-address=0.0.0.0:8443$' "$dir/text" && grep -A1 -x '            - name: metrics' "$dir/text" | has 8443 &&
        grep -q tokenreviews "$dir/text" && grep -A11 -x '  name: rel-skyjob-metrics-reader' "$dir/text" | has -F 'nonResourceURLs: [/metrics]' &&
        render --set metrics.enabled=false >"$dir/text" && ! grep -q -- '-metrics\|metrics-\|tokenreviews\|8443' "$dir/text"
}
# Both monitors have the operators scraped as an account that may do that only, and verify the certificate that the
# operator has by its name in the code.
monitors() {
    local monitor name
    name=metrics.$(sed -n 's/^#define NAMES_DOMAIN *"\(.*\)"$/\1/p' common/api/names.h)
    for monitor in podMonitor serviceMonitor; do
        render --set "metrics.$monitor.enabled=true" >"$dir/text" && grep -A16 -ix "kind: $monitor" "$dir/text" | has -- -operator || return
        grep -A14 -x ' *- port: metrics' "$dir/text" >"$dir/endpoint" && grep -q 'scheme: https' "$dir/endpoint" &&
            grep -A1 'name: rel-skyjob-scraper' "$dir/endpoint" | has 'key: token' && grep -q "serverName: $name" "$dir/endpoint" &&
            grep -A1 'name: rel-skyjob-ca' "$dir/endpoint" | has 'key: ca.crt' && ! grep -q insecure "$dir/endpoint" || return
        grep -A1 'kind: ServiceAccount' "$dir/text" | has 'name: rel-skyjob-scraper' && grep -qx 'type: kubernetes.io/service-account-token' "$dir/text" &&
            [ "$(grep -cx '  name: rel-skyjob-metrics-reader' "$dir/text")" = 2 ] || return # the role, and its binding
        render --set "tls.enabled=false,metrics.tokenSecret=mine,metrics.$monitor.enabled=true" >"$dir/text" && grep -q 'insecureSkipVerify: true' "$dir/text" &&
            grep -A1 'name: mine' "$dir/text" | has 'key: token' && ! grep -q 'serverName\|scraper' "$dir/text" || return
    done
}
monitoring() { # on demand, and what is rendered is what the files have
    local all='metrics.alerts.enabled=true,metrics.dashboard.enabled=true' alert
    ! render | has 'monitoring.coreos.com\|grafana' && render --set "$all" >"$dir/text" && grep -q 'grafana_dashboard: "1"' "$dir/text" || return
    [ "$(grep -c ' alert: ' charts/skyjob/files/alerts.yaml)" = 5 ] || return
    while read -r alert; do
        grep -q -- "- alert: $alert$" "$dir/text" || return
    done < <(sed -n 's/.* alert: //p' charts/skyjob/files/alerts.yaml)
    # shellcheck disable=SC2016 # Prometheus fills it in
    grep -qF '{{ $value | humanizePercentage }}' "$dir/text" &&
        sed -n '/^  skyjob.json:/,/^---/s/^    //p' "$dir/text" | diff charts/skyjob/files/dashboard.json -
}
security() { # as the image has it, or as the platform wants it
    render -s templates/deployment.yaml >"$dir/text" && [ "$(grep -c 'runAs.*: 65532$' "$dir/text")" = 2 ] &&
        grep -q 'readOnlyRootFilesystem: true' "$dir/text" && ! grep -q -- --worker-user "$dir/text" || return
    render -s templates/deployment.yaml --set podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null,workerUser= >"$dir/text" &&
        ! grep -q 'runAsUser\|runAsGroup' "$dir/text" && grep -q 'runAsNonRoot: true' "$dir/text" && grep -q -- '- --worker-user=none$' "$dir/text" || return
    render --set workerUser=1000660000,securityContext.runAsUser=7 >"$dir/text" && grep -q -- '- --worker-user=1000660000$' "$dir/text" &&
        grep -q '^            runAsUser: 7$' "$dir/text"
}
installs() {
    helm install skyjob charts/skyjob --namespace skyjob-system --create-namespace &&
        kubectl label namespace skyjob-system pod-security.kubernetes.io/enforce=restricted &&
        until_true 20 kubectl get sj &&
        kubectl -n skyjob-system wait --for=jsonpath='{.status.replicas}'=2 deployment/skyjob-operator --timeout=20s &&
        [ -n "$(kubectl -n skyjob-system get pods -o name)" ]
}
rights_of_operator() { # rights_of_operator NAMESPACE
    kubectl auth can-i --list --as=system:serviceaccount:skyjob-system:skyjob-operator -n "$1" |
        sed -n 's/^\([a-z][^ ]*\) *\[\] *\(\[[^]]*\]\) *\(\[[^]]*\]\) *$/\1 \2 \3/p' | sed 's/ \[\]//' | LC_ALL=C sort
}
rights() { # all that the chart gives the operator's account, in its own namespace and in another
    local namespace
    for namespace in skyjob-system default; do
        echo "in namespace $namespace:"
        LC_ALL=C comm -23 <(rights_of_operator "$namespace") "$dir/rights-before"
    done >"$dir/rights"
    diff -u tests/golden/rights.txt "$dir/rights"
}
encrypts() {
    local ca=rel-skyjob-operator-ca
    render >"$dir/text" && grep -q -- '- --authority=.(POD_NAMESPACE)/rel-skyjob-ca$' "$dir/text" && ! grep -q cert-manager.io "$dir/text" || return
    render --set tls.certManager=true >"$dir/text" && grep -q -- '- --authority=' "$dir/text" && grep -qx 'kind: Certificate' "$dir/text" &&
        ! grep -A14 "^  name: $ca$" "$dir/text" | has 'create\|patch' || return
    render --set tls.enabled=false >"$dir/text" && ! grep -q -- "--authority=\|$ca" "$dir/text" && grep -A1 'resources: \[secrets\]' "$dir/text" | has 'verbs: \[get, create\]'
}
users_may() { # (the test API does not run the controller that adds roles to others)
    kubectl get clusterrole skyjob-view -o yaml | has 'aggregate-to-view: "true"' &&
        kubectl create rolebinding r --clusterrole=skyjob-view --user=reader && sleep 1 &&
        kubectl auth can-i list skyjobs.skyjob.dev --as=reader && ! kubectl auth can-i delete skyjobs.skyjob.dev --as=reader
}
samples() { kubectl apply --dry-run=server -f manifests/samples; }
uninstalls() {
    helm uninstall skyjob -n skyjob-system && kubectl get crd skyjobs.skyjob.dev &&
        ! kubectl get clusterrole skyjob-operator 2>/dev/null
}

kustomized() { # with another image
    mkdir "$dir/own" && ln -s "$PWD/manifests" "$dir/own/base" && cat >"$dir/own/kustomization.yaml" <<'Y' || return
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [base]
images: [{name: skyjob/operator, newName: r.example.com/operator, newTag: t}]
Y
    kubectl kustomize --load-restrictor LoadRestrictionsNone "$dir/own" >"$dir/text" && kubectl apply -f "$dir/text" &&
        [ "$(kubectl -n skyjob-system get deployment skyjob-operator -o 'jsonpath={.spec.template.spec.containers[0].image}')" = r.example.com/operator:t ]
}

hack/cluster/envtest.sh start "$dir/api" || exit 1
rights_of_operator default >"$dir/rights-before" # every account's
check 'manifests are what the chart renders' manifests_same
check 'the chart has no lint' lints
check 'wrong values are refused by name' bad_values
check 'of several operators one may be disrupted at a time' operators
check 'with a list of namespaces the operator gets a Role in each' some_namespaces
check 'the CRD is kept unless told otherwise' keeps_crd
check 'values reach the deployment' sets_values
check 'images come from one registry, or each from its own, by tag or digest' images
check 'calls to the API server and the spread of operators can be set' limits
check 'the operator and, through it, all jobs have a NetworkPolicy unless told otherwise' network_policy
check 'workers and operator have certificates, of a CA of their own or of cert-manager' encrypts
check 'probes get a priority class below everything else, another one, or none' probe_priority
check 'alerts and dashboard name only metrics that operator and workers write' known_families
check 'metrics are served unless told otherwise' serves_metrics
check 'PodMonitor and ServiceMonitor scrape with a token and verify the certificate' monitors
check 'alerts and dashboard are there on demand' monitoring
check 'workers serve metrics on demand, and only to who may read them' worker_metrics
check 'users of pods are as the image has them, others, or none' security
check 'helm installs it and the restricted standard lets its pod in' installs
check 'the operator has the rights that it needs, and no others' rights
check 'people with the view role may look at SkyJobs' users_may
check 'the samples are accepted' samples
check 'uninstalling leaves the CRD and nothing else' uninstalls
check 'without helm, kustomize installs it' kustomized
tap_end
