#!/bin/bash
# The operator with many jobs and nodes: a real API server, scheduler and controllers; kwok, which makes believe that
# nodes are there and that pods run; and tests/support/hollow.c, which answers as their workers. Prints rows as JSON, each
# with the bound that scale.json has for it, if any, and fails if one is above it.
#
#   OUT=build/release tests/bench/scale.sh [PART]...    some ten minutes on two cores; each part has a cluster of its own
#   SCALE_FEW=100 SCALE_JOBS=1000 SCALE_NODES=1000 SCALE_FINISHED=10000 SCALE_RELIST=5000
#
#   few       jobs of four workers, created at once: how long until all pods are; then, while all run, CPU time and memory
#   many      the same with more of them
#   finished  the operator is started with jobs that have ended
#   relist    it is started with nodes of 10 KB each
set -u
cd "$(dirname "$0")/../.."
if [ $# -ne 1 ]; then
    [ $# -gt 0 ] || set -- few many finished relist
    failed=0
    for part; do "$0" "$part" || failed=1; done
    exit "$failed"
fi
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
n_few=${SCALE_FEW:-100} n_jobs=${SCALE_JOBS:-1000} n_nodes=${SCALE_NODES:-1000}
n_finished=${SCALE_FINISHED:-10000} n_relist=${SCALE_RELIST:-5000}
port=$((20000 + RANDOM % 10000)) running=() failed=0
operator_options=(--health-address "127.0.0.1:$port" --metrics-address "127.0.0.1:$((port + 1))" --authority skyjob-system/skyjob-ca)

finish() {
    [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null
    operator_finish
}
at_exit finish

# --- many calls at once ---
# send METHOD TYPE: for each line of a path, a tab and a body
send() {
    local server token
    server=$(sed -n 's/.*server: //p' "$KUBECONFIG") token=$(admin_token)
    awk -F '\t' -v method="$1" -v type="$2" -v server="$server" -v token="$token" -v ca="$dir/api/certs/apiserver.crt" '{
        gsub(/["\\]/, "\\\\&", $2)
        printf("%surl = \"%s%s\"\nrequest = %s\ncacert = \"%s\"\nheader = \"Authorization: Bearer %s\"\nheader = \"Content-Type: %s\"\n" \
            "output = /dev/null\nfail\ndata = \"%s\"\n", NR > 1 ? "next\n" : "", server, $1, method, ca, token, type, $2) }' >"$dir/calls.curl" &&
        curl --silent --show-error --no-progress-meter --parallel --parallel-max 16 --parallel-immediate --config "$dir/calls.curl"
}
# nodes NAME COUNT CPU FILLER: of which kwok says that they are ready
nodes() {
    for ((i = 1; i <= $2; i++)); do
        printf '/api/v1/nodes\t{"apiVersion":"v1","kind":"Node","metadata":{"name":"%s","labels":{"kubernetes.io/hostname":"%s","skyjob.dev/gflops":"%s"},"annotations":{"kwok.x-k8s.io/node":"fake","filler":"%s"}},"status":{"allocatable":{"cpu":"%s","memory":"1Ti","pods":"110"},"capacity":{"cpu":"%s","memory":"1Ti","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}\n' \
            "$1-$i" "$1-$i" $((1000 + i % 500)) "$4" "$3" "$3"
    done | send POST application/json || return
    for ((i = 1; i <= $2; i++)); do # every new node has a taint until its kubelet says that it is ready
        printf '/api/v1/nodes/%s\t{"spec":{"taints":null}}\n' "$1-$i"
    done | send PATCH application/merge-patch+json
}
jobs_named() { # jobs_named NAME COUNT
    for ((i = 1; i <= $2; i++)); do
        printf '/apis/skyjob.dev/v1alpha1/namespaces/default/skyjobs\t{"apiVersion":"skyjob.dev/v1alpha1","kind":"SkyJob","metadata":{"name":"%s-%d"},"spec":{"data":{"source":{"sample":"MNLI"}},"model":{"preset":"BertMini"},"placement":{"minStages":4,"maxStages":4},"training":{"steps":100000}}}\n' "$1" "$i"
    done | send POST application/json
}
end_jobs() { # end_jobs NAME COUNT STATUS: as the operator leaves them
    for ((i = 1; i <= $2; i++)); do
        printf '/apis/skyjob.dev/v1alpha1/namespaces/default/skyjobs/%s-%d/status\t{"status":%s}\n' "$1" "$i" "$3"
    done | send PATCH application/merge-patch+json
}

# --- what is measured ---
metrics() { metrics_at $((port + 1)); }
# metric NAME: the sum of its samples, whatever their labels
metric() { metrics | awk -v name="$1" '{ family = $1; sub(/[{].*/, "", family) } family == name { n += $2 } END { printf("%.0f\n", n) }'; }
peak_mib() { awk '/VmHWM/ { printf("%.1f", $2 / 1024) }' "/proc/$operator/status"; }
cpu_s() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$operator/stat"; }
# p99_ms FAMILY [BEFORE]: of reconciles (since these metrics), the bound of the histogram's bucket
p99_ms() {
    { echo "${2:-}"; metrics; } | awk -F '[" ]' -v family="skyjob_${1}_seconds_bucket" 'index($0, family) == 1 { if (!($2 in first)) { first[$2] = 0; le[++n] = $2 } else first[$2] = last[$2]; last[$2] = $NF }
        END { for (i = 1; i < n && last[le[i]] - first[le[i]] < 0.99 * (last[le[n]] - first[le[n]]); i++); print le[i] == "+Inf" ? 1e9 : le[i] * 1000 }'
}
row() { # row NAME VALUE
    jq -cn --arg name "$1" --argjson value "$2" --slurpfile most tests/bench/scale.json '{name: $name, value: $value, most: $most[0][$name]}'
    jq -en --arg name "$1" --argjson value "$2" --slurpfile most tests/bench/scale.json '$value <= ($most[0][$name] // infinite)' >/dev/null || failed=1
}
quiet_cpu() { # quiet_cpu NAME: while nothing happens from outside
    local cpu before
    before=$(metrics) cpu=$(cpu_s) && sleep 60 || return
    row "$1_cpu_percent" "$(jq -n "($(cpu_s) - $cpu) / 60 * 100")"
    row "$1_p99_ms" "$(p99_ms reconcile_own "$before")"
    row "$1_with_calls_p99_ms" "$(p99_ms reconcile "$before")"
    row "$1_mib" "$(peak_mib)"
}
up() { # until it has looked at all that there is
    start_operator && until_true 120 is_quiet
}
is_quiet() { curl -sf "http://127.0.0.1:$port/readyz" && [ "$(metric skyjob_reconcile_seconds_count)" -ge "$(metric skyjob_jobs)" ]; }
has_pods() { # has_pods COUNT; not asked more often, as kubectl itself takes CPU time
    sleep 1
    kubectl get --raw '/api/v1/pods?limit=1' | jq -e "(.items | length) + (.metadata.remainingItemCount // 0) >= $1"
}
all_run() { # likewise
    sleep 5
    kubectl get --raw /apis/skyjob.dev/v1alpha1/skyjobs | jq -e 'all(.items[]; .status.state == "Running")'
}

# --- parts ---
train() { # train NAME COUNT
    local from=$EPOCHREALTIME
    nodes node "$n_nodes" 256 '' && up && from=$EPOCHREALTIME && jobs_named job "$2" && until_true 600 has_pods $((4 * $2)) || return
    row "$1_start_seconds" "$(jq -n "$EPOCHREALTIME - $from")"
    row "$1_start_cpu_seconds" "$(cpu_s)"
    row "$1_start_p99_ms" "$(p99_ms reconcile_own)"
    until_true 300 all_run && sleep 15 && quiet_cpu "$1"
}
finished() {
    jobs_named ended "$n_finished" && end_jobs ended "$n_finished" \
        '{"state":"Complete","conditions":[{"type":"Complete","status":"True","reason":"TrainingFinished","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}' &&
        up && quiet_cpu finished
}
relist() {
    nodes large "$n_relist" 1 "$(head -c 9500 /dev/zero | tr '\0' x)" && up || return
    row relist_mib "$(peak_mib)"
}

# A CA that hollow has too.
make_ca() {
    mkdir "$dir/ca" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=skyjob \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout "$dir/ca/tls.key" -out "$dir/ca/tls.crt" 2>/dev/null &&
        cp "$dir/ca/tls.crt" "$dir/ca/ca.crt" && kubectl -n skyjob-system create secret generic skyjob-ca --from-file="$dir/ca" >/dev/null
}
hack/cluster/build.sh scale >&2 && operator_set_up >&2 && make_ca || exit 1
# Pods are at loopback addresses of their own, where hollow listens.
"$BIN/kwok" --kubeconfig "$KUBECONFIG" --manage-all-nodes=false --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake \
    --node-lease-duration-seconds=120 --cidr 127.48.0.0/16 >"$dir/kwok.log" 2>&1 &
running+=($!)
"$BIN/kube-scheduler" --kubeconfig "$KUBECONFIG" --leader-elect=false --secure-port 0 >"$dir/scheduler.log" 2>&1 &
running+=($!)
(ulimit -Sn 10000 && exec "$OUT/tests/support/hollow" 127.48.0.0 8192 "$dir/ca") >"$dir/hollow.log" 2>&1 &
running+=($!)
case $1 in
few) train few "$n_few" ;;
many) train many "$n_jobs" ;;
finished) finished ;;
relist) relist ;;
*) echo "no such part: $1" >&2; exit 2 ;;
esac || { echo "scale: $1 failed" >&2; tail -n 5 "$dir"/*.log >&2; exit 1; }
[ "$failed" = 0 ]
