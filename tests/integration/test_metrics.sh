#!/bin/bash
# A real Prometheus scrapes the operator, with the token of an account that may do only that, and, as the chart's PodMonitor
# has it, the workers of a job that trains; it verifies their certificates. Every panel of the dashboard has data, the rules
# are valid, and the alerts fire for what they name and for nothing else. Whoever has no such account gets no metrics.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
port=$((20000 + RANDOM % 10000)) prometheus=0
operator_options=(--metrics-address "127.0.0.1:$port" --health-address "127.0.0.1:$((port + 2))" --authority skyjob-system/skyjob-ca
    --leader-election skyjob-system/skyjob-operator --worker-metrics on --metrics-secret skyjob-system/skyjob-worker-metrics)
chart_options=metrics.workers.enabled=true
name=metrics.skyjob.internal
finish() {
    [ "$prometheus" = 0 ] || { kill "$prometheus"; wait "$prometheus"; } 2>/dev/null
    operator_finish
}
at_exit finish
bin=$(hack/prometheus.sh) || exit 1

# --- the part of the Prometheus Operator ---
monitor() {
    helm template skyjob charts/skyjob --kube-version 1.34 --set "$chart_options,metrics.workers.podMonitor.enabled=true" -s templates/workermonitor.yaml
}
server_name() { monitor | sed -n 's/^ *serverName: \([^ ]*\).*/\1/p'; }
reader_files() {
    local key
    mkdir -p "$dir/reader"
    for key in ca.crt tls.crt tls.key; do
        kubectl -n skyjob-system get secret skyjob-worker-metrics -o "jsonpath={.data.${key/./\\.}}" | base64 -d >"$dir/reader/$key" &&
            [ -s "$dir/reader/$key" ] || return
    done
}
worker_targets() { # what Prometheus would discover itself, if there were nodes and kubelets
    cat <<Y
  - job_name: workers
    scheme: https
    tls_config:
      {ca_file: $dir/reader/ca.crt, cert_file: $dir/reader/tls.crt, key_file: $dir/reader/tls.key, server_name: $(server_name)}
    file_sd_configs: [{files: [$dir/workers.json], refresh_interval: 1s}]
    relabel_configs:
$(monitor | sed -e '1,/relabelings:/d' -e 's/sourceLabels/source_labels/; s/targetLabel/target_label/')
Y
}
discover_workers() {
    kubectl get pods -A -l skyjob.dev/role=worker -o json | jq '[.items[] | select(.status.podIP) | {
        targets: [.status.podIP + ":" + (.spec.containers[0].ports[] | select(.name == "metrics").containerPort | tostring)],
        labels: {__meta_kubernetes_namespace: .metadata.namespace, __meta_kubernetes_pod_label_skyjob_dev_job: .metadata.labels["skyjob.dev/job"],
            __meta_kubernetes_pod_label_skyjob_dev_slot: .metadata.labels["skyjob.dev/slot"]}}]' >"$dir/workers.new" && mv "$dir/workers.new" "$dir/workers.json"
}

# --- who may read ---
# account NAME: its token is $dir/NAME.token
account() { kubectl create serviceaccount "$1" >/dev/null && new_token "$1" "$1"; }
new_token() { kubectl create token "$1" --duration=1h >"$dir/$2.token"; } # new_token ACCOUNT NAME
set_up_readers() {
    account prometheus && account other &&
        kubectl create clusterrolebinding prometheus --clusterrole=skyjob-metrics-reader --serviceaccount=default:prometheus >/dev/null &&
        until_true 20 write_ca && until_true 20 scrapes prometheus
}
write_ca() { kubectl -n skyjob-system get secret skyjob-ca -o 'jsonpath={.data.ca\.crt}' | base64 -d >"$dir/ca.crt" && [ -s "$dir/ca.crt" ]; }
# scrape CURL-ARGUMENT...: the status, or 000
scrape() { curl -s -o "$dir/text" -w '%{http_code}' --cacert "$dir/ca.crt" --connect-to "$name:$port:127.0.0.1:$port" "$@" "https://$name:$port/metrics"; }
as() { printf 'header = "Authorization: Bearer %s"\n' "$(cat "$dir/$1.token")" >"$dir/curl" && scrape -K "$dir/curl"; } # as NAME
scrapes() { [ "$(as "$1")" = 200 ] && grep -q '^skyjob_leader 1$' "$dir/text"; }
is_refused() { # is_refused NAME STATUS
    local status
    status=$(as "$1")
    echo "$1: $status" && cat "$dir/text" && [ "$status" = "$2" ] && ! grep -q skyjob_ "$dir/text"
}
strangers() {
    echo not-a-token >"$dir/nobody.token"
    [ "$(scrape)" = 401 ] && ! grep skyjob_ "$dir/text" && is_refused nobody 401 && is_refused other 403 && scrapes prometheus
}
verified() { # by the CA and the name, and nothing is said in plain
    ! curl -s -m 5 --cacert "$dir/api/certs/apiserver.crt" --connect-to "$name:$port:127.0.0.1:$port" "https://$name:$port/metrics" &&
        ! curl -s -m 5 --cacert "$dir/ca.crt" "https://127.0.0.1:$port/metrics" && ! curl -s -m 5 "http://127.0.0.1:$port/metrics"
}
granted() {
    kubectl create clusterrolebinding other --clusterrole=skyjob-metrics-reader --serviceaccount=default:other >/dev/null && until_true 20 scrapes other
}
standby() {
    local second rc
    (operator_options=(--metrics-address "127.0.0.1:$((port + 3))" "${operator_options[@]:4}") && run_operator) &
    second=$!
    port=$((port + 3)) until_true 20 stands_by
    rc=$?
    kill "$second"; wait "$second" 2>/dev/null
    return "$rc"
}
stands_by() { [ "$(as prometheus)" = 200 ] && grep -q '^skyjob_leader 0$' "$dir/text"; }
hangs() { # for less than the minute for which a token is known
    local api rc
    api=$(cat "$dir/api/kube-apiserver.pid") && echo another >"$dir/another.token" && new_token prometheus known && scrapes known && kill -STOP "$api" || return
    is_refused another 503 && scrapes known && curl -sf -m 1 "http://127.0.0.1:$((port + 2))/healthz"
    rc=$?
    kill -CONT "$api"
    return "$rc"
}

# The rules with short times: what is to last for minutes lasts for seconds here.
start_prometheus() {
    echo '[]' >"$dir/workers.json"
    sed -E 's/for: [0-9]+m/for: 2s/; s/offset 10m/offset 20s/; s/\[10m\]/[20s]/' charts/skyjob/files/alerts.yaml >"$dir/alerts.yaml"
    cat >"$dir/prometheus.yaml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$dir/alerts.yaml]
scrape_configs:
  - job_name: skyjob
    scheme: https
    authorization: {credentials_file: $dir/prometheus.token}
    tls_config: {ca_file: $dir/ca.crt, server_name: $name}
    static_configs: [{targets: ["127.0.0.1:$port"]}]
$(worker_targets)
Y
    "$bin/prometheus" --config.file="$dir/prometheus.yaml" --storage.tsdb.path="$dir/tsdb" --web.listen-address="127.0.0.1:$((port + 1))" >"$dir/prometheus.log" 2>&1 &
    prometheus=$!
    until_true 30 ask query '1' >/dev/null
}
ask() { curl -sf -G "http://127.0.0.1:$((port + 1))/api/v1/$1" --data-urlencode "query=$2"; }
samples() { ask query "$1" | jq -e '.status == "success" and (.data.result | length) > 0'; }
value_is() { [ "$(ask query "$1" | jq -r '.data.result[0].value[1]')" = "$2" ]; } # value_is QUERY VALUE
fires() { ask query 'ALERTS{alertstate="firing"}' | jq -r '.data.result[].metric.alertname' | sort -u | tr '\n' ' '; }
fires_are() { [ "$(fires)" = "$1" ]; }

valid() { "$bin/promtool" check rules charts/skyjob/files/alerts.yaml && "$bin/promtool" check rules "$dir/alerts.yaml"; }
counts() { # a job, by its state
    job first "$stages2" >/dev/null && completes first && until_true 10 value_is 'skyjob_jobs{state="Complete"}' 1 &&
        value_is 'skyjob_jobs{state="Failed"}' 0 && value_is 'skyjob_leader' 1
}
of_workers() { # of every slot, by its labels
    steps=100000 job busy "$stages2
  checkpoint: {everySteps: 20}" >/dev/null && trains busy 20 && discover_workers &&
        until_true 30 value_is 'sum by (namespace, job) (skyjob_worker_state{state="Training"})' 2 &&
        [ "$(ask query 'skyjob_worker_revision' | jq -c '[.data.result[].metric | [.namespace, .job, .slot]] | sort')" = '[["default","busy","0"],["default","busy","1"]]' ] &&
        samples 'skyjob_worker_sent_bytes_total{slot="0",edge="1"} > 0' && samples 'skyjob_worker_received_bytes_total{slot="1",edge="0"} > 0' &&
        until_true 30 value_is 'count(skyjob_worker_last_checkpoint_timestamp_seconds > time() - 600)' 2
}
scrape_worker() { # scrape_worker CURL-OPTION...
    local ip name
    ip=$(kubectl get "$(worker_pod busy 0)" -o 'jsonpath={.status.podIP}') && name=$(server_name) &&
        curl -s --max-time 5 --cacert "$dir/reader/ca.crt" --connect-to "$name:7073:$ip:7073" "$@" "https://$name:7073/metrics"
}
only_reader() {
    scrape_worker --cert "$dir/reader/tls.crt" --key "$dir/reader/tls.key" >"$dir/text" && "$bin/promtool" check metrics <"$dir/text" && ! scrape_worker
}
# Those of an increase may be empty where nothing has been counted, but are valid.
panels() {
    local query
    jq -r '.. | .expr? // empty' charts/skyjob/files/dashboard.json >"$dir/panels" && [ "$(wc -l <"$dir/panels")" -gt 10 ] || return
    while read -r query; do
        query=${query//\$__rate_interval/20s}
        query=${query//\$job/.*}
        until_true 10 samples "$query" >/dev/null || { echo "no samples: $query"; return 1; }
    done <"$dir/panels"
}
quiet() {
    kubectl delete sj busy --ignore-not-found >/dev/null || return
    until_true 10 fires_are '' || { fires; return 1; }
}
failure() { # of a job whose vocabulary is larger than its model's
    vocab=20 job small >/dev/null && kubectl wait --for=condition=Failed sj/small --timeout=60s && until_true 20 has_fired SkyJobFailed
}
has_fired() { fires | has "$1"; }
down() { # without a leader for two seconds
    kill_operator TERM
    operator=0
    until_true 20 has_fired SkyJobOperatorDown
}

operator_set_up && start_agent 'n1,2,4Gi,80' 'n2,1,2Gi,40' && start_operator && set_up_readers && until_true 20 reader_files && start_prometheus || exit 1
check 'only an account with the right to get /metrics does' strangers
check 'the certificate is that of the CA for the name, and there is no plain HTTP' verified
check 'an account that gets the right reads metrics soon' granted
check 'an operator that does not lead serves metrics with such a certificate, too' standby
check 'while the API server hangs, it is said to those who are unknown, and nothing else waits' hangs
check 'the rules are valid' valid
check 'jobs are counted by their state' counts
check 'workers are found by job and slot, and report what they do' of_workers
check 'workers report to no one but the reader of metrics' only_reader
check 'every panel of the dashboard has data' panels
check 'no alert fires while all is well' quiet
check 'a job that fails is alerted' failure
check 'an operator that is gone is alerted' down
tap_end
