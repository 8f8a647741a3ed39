#!/bin/bash
# A real Prometheus scrapes the operator while it trains a job: every panel of the dashboard has data, the rules are
# valid, and the alerts fire for what they name and for nothing else.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
port=$((20000 + RANDOM % 10000)) prometheus=0
operator_options=(--health-address "127.0.0.1:$port")
finish() {
    [ "$prometheus" = 0 ] || { kill "$prometheus"; wait "$prometheus"; } 2>/dev/null
    operator_finish
}
at_exit finish
bin=$(hack/prometheus.sh) || exit 1

# The rules with short times: what is to last for minutes lasts for seconds here.
start_prometheus() {
    sed -E 's/for: [0-9]+m/for: 2s/; s/offset 10m/offset 20s/; s/\[10m\]/[20s]/' charts/skyjob/files/alerts.yaml >"$dir/alerts.yaml"
    cat >"$dir/prometheus.yaml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$dir/alerts.yaml]
scrape_configs:
  - {job_name: skyjob, static_configs: [{targets: ["127.0.0.1:$port"]}]}
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
# Those of an increase may be empty where nothing has been counted, but are valid.
panels() {
    local query
    jq -r '.. | .expr? // empty' charts/skyjob/files/dashboard.json >"$dir/panels" && [ "$(wc -l <"$dir/panels")" -gt 10 ] || return
    while read -r query; do
        query=${query//\$__rate_interval/20s}
        until_true 10 samples "$query" >/dev/null || { echo "no samples: $query"; return 1; }
    done <"$dir/panels"
}
quiet() { until_true 10 fires_are '' || { fires; return 1; }; }
failure() { # of a job whose vocabulary is larger than its model's
    vocab=20 job small >/dev/null && kubectl wait --for=condition=Failed sj/small --timeout=60s && until_true 20 has_fired SkyJobFailed
}
has_fired() { fires | has "$1"; }
down() { # without a leader for two seconds
    kill_operator TERM
    operator=0
    until_true 20 has_fired SkyJobOperatorDown
}

operator_set_up && start_agent 'n1,2,4Gi,80' 'n2,1,2Gi,40' && start_operator && start_prometheus || exit 1
check 'the rules are valid' valid
check 'jobs are counted by their state' counts
check 'every panel of the dashboard has data' panels
check 'no alert fires while all is well' quiet
check 'a job that fails is alerted' failure
check 'an operator that is gone is alerted' down
tap_end
