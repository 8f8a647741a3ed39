#!/bin/bash
# The chart's monitors and rules as the real Prometheus Operator reads them: a Prometheus with the configuration that it
# writes finds and scrapes operator and workers. A minute; `make test-prometheus-operator`.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
port=$((20000 + RANDOM % 10000)) writer=0 prometheus=0
ip=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }') # an endpoint may not be a loopback address
[ "$ip" ] || die 'This machine has no address but that of its loopback.' 'Give it one: ip addr add 10.9.9.9/32 dev lo'
operator_options=(--metrics-address "$ip:$port" --authority skyjob-system/skyjob-ca --worker-metrics on --metrics-secret skyjob-system/skyjob-worker-metrics)
finish() {
    [ "$prometheus" = 0 ] || { kill "$prometheus"; wait "$prometheus"; } 2>/dev/null
    [ "$writer" = 0 ] || { kill "$writer"; wait "$writer"; } 2>/dev/null
    operator_finish
}
at_exit finish

# --- the cluster ---
chart() {
    cat >"$dir/values.yaml" <<Y
crds: {enabled: false}
metrics:
  port: $port
  tokenSecret: scraper
  podMonitor: {enabled: true}
  serviceMonitor: {enabled: true}
  alerts: {enabled: true}
  workers: {enabled: true, podMonitor: {enabled: true}}
Y
    helm template skyjob charts/skyjob --namespace skyjob-system --kube-version 1.34 --skip-tests -f "$dir/values.yaml" | install_operator
}
# What a kubelet, and the controllers of Secrets and of EndpointSlices, would make of it: nothing runs them here.
scraper() {
    kubectl create serviceaccount scraper >/dev/null &&
        kubectl create clusterrolebinding scraper --clusterrole=skyjob-metrics-reader --serviceaccount=default:scraper >/dev/null &&
        kubectl -n skyjob-system create secret generic scraper --from-literal=token="$(kubectl create token scraper --duration=1h)" >/dev/null
}
operator_pod() {
    kubectl -n skyjob-system get deployment skyjob-operator -o json | jq '{apiVersion: "v1", kind: "Pod",
        metadata: {name: "operator", namespace: "skyjob-system", labels: .spec.template.metadata.labels}, spec: (.spec.template.spec + {schedulerName: "none"})}' |
        kubectl create -f - >/dev/null &&
        kubectl -n skyjob-system patch pod operator --subresource=status --type merge \
            -p '{"status":{"phase":"Running","podIP":"'"$ip"'","podIPs":[{"ip":"'"$ip"'"}],"conditions":[{"type":"Ready","status":"True"}]}}' >/dev/null
}
endpoints() {
    kubectl apply -f - >/dev/null <<Y
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: operator
  namespace: skyjob-system
  labels: {kubernetes.io/service-name: skyjob-operator-metrics}
addressType: IPv4
endpoints: [{addresses: ["$ip"], conditions: {ready: true}}]
ports: [{name: metrics, port: $port, protocol: TCP}]
Y
}

# --- Prometheus ---
start_writer() {
    "$BIN/prometheus-operator" --kubelet-endpoints=false --web.listen-address "127.0.0.1:$((port + 1))" >"$dir/writer.log" 2>&1 &
    writer=$!
    admin_token >"$dir/token"
    kubectl create -f - >/dev/null <<Y
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: all, namespace: skyjob-system}
spec:
  version: v3.5.0
  scrapeInterval: 1s
  evaluationInterval: 1s
  serviceDiscoveryRole: EndpointSlice
  podMonitorSelector: {}
  serviceMonitorSelector: {}
  ruleSelector: {}
  apiserverConfig: {host: "$(sed -n 's/.*server: //p' "$KUBECONFIG")", bearerTokenFile: $dir/token, tlsConfig: {caFile: $dir/api/certs/apiserver.crt}}
Y
}
data_of() { # data_of KIND PREFIX FOLDER: files of all objects whose name begins so, as a kubelet would mount them
    local key value
    mkdir -p "$3"
    kubectl -n skyjob-system get "$1" -o json | jq -r --arg prefix "$2" '.items[] | select(.metadata.name | startswith($prefix)) |
        (.kind == "Secret") as $is_encoded | .data | to_entries[] | "\(.key) \(.value | if $is_encoded then . else @base64 end)"' |
        while read -r key value; do base64 -d <<<"$value" >"$3/$key"; done
}
# Its folders are others here, and the names that its reloader puts in.
configured() {
    data_of secrets prometheus-all "$dir/prometheus" && data_of configmaps prometheus-all-rulefiles-0 "$dir/prometheus/rules" &&
        gunzip <"$dir/prometheus/prometheus.yaml.gz" |
        sed -e "s|/etc/prometheus/certs|$dir/prometheus|; s|/etc/prometheus/rules/prometheus-all-rulefiles-0|$dir/prometheus/rules|; s|\$(POD_NAME)|all-0|; s|\$(SHARD)|0|" >"$dir/prometheus.yaml" &&
        grep -c '^- job_name:' "$dir/prometheus.yaml" | has -x 3
}
written() { until_true 60 configured; }
ask() { curl -sf -G "http://127.0.0.1:$((port + 2))/api/v1/$1" --data-urlencode "query=${2:-}"; }
starts() {
    "$BIN/prometheus" --config.file="$dir/prometheus.yaml" --storage.tsdb.path="$dir/tsdb" --web.listen-address="127.0.0.1:$((port + 2))" >"$dir/prometheus.log" 2>&1 &
    prometheus=$!
    until_true 30 ask query 1 && ask rules | jq -r '.data.groups[].rules[].name' | sort >"$dir/loaded" && sed -n 's/^ *- alert: //p' charts/skyjob/files/alerts.yaml | sort >"$dir/written" &&
        [ -s "$dir/written" ] && cmp "$dir/written" "$dir/loaded"
}
found() { # found QUERY LABELS EXPECTED: the sorted labels of what the query gives
    ask query "$1" | jq -c "[.data.result[].metric | [$2]] | sort" >"$dir/text"
    cat "$dir/text"
    [ "$(cat "$dir/text")" = "$3" ]
}
finds() { # found, in time
    until_true 30 found "$@" && return
    found "$@"
    ask targets | jq -c '.data.activeTargets[] | [.scrapeUrl, .lastError]'
    tail -n 20 "$dir/prometheus.log"
    return 1
}
operators() { finds 'skyjob_leader == 1' .job '[["skyjob-operator-metrics"],["skyjob-system/skyjob-operator"]]'; }
workers() {
    steps=100000 job busy "$stages2" >/dev/null && trains busy &&
        finds skyjob_worker_revision '.namespace, .job, .slot' '[["default","busy","0"],["default","busy","1"]]'
}

module=$CACHE/gomod/github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR_VERSION
operator_set_up && add_crds "$module/example/prometheus-operator-crd" && chart && scraper && operator_pod && endpoints && start_agent 'n1,1,1Gi,50' 'n2,1,1Gi,50' && start_operator && start_writer || exit 1
check 'the Prometheus Operator takes the monitors, with all Secrets that they name' written
check 'Prometheus takes the configuration, and every alert' starts
check 'the operator is scraped as a pod and as an endpoint of its Service' operators
check 'workers are scraped, by job and slot' workers
tap_end
