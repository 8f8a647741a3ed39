#!/bin/bash
# What a tenant of the same cluster can do to other tenants' jobs, tried on a real cluster whose
# network enforces no policies: orders and questions from a pod in another namespace, with and without
# certificates, floods of connections, forged pods. Prints TAP. Leaves the cluster up; nothing of the test stays in it.
# Objects that no parser likes, and too many of them: tests/integration/test_tenants.sh.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
ns=skyjob-victim # where the jobs are
evil=skyjob-intruder
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh
node=$CLUSTER_NAME-worker

e() { kubectl -n "$evil" "$@"; }
intruder() { e exec intruder -- bash -c "$1"; }
ip_of() { k get pods -l "skyjob.dev/job=$1,skyjob.dev/slot=$2" -o jsonpath='{.items[0].status.podIP}'; } # ip_of JOB SLOT
has_ip() { [ -n "$(ip_of "$1" "$2")" ]; }
uid_of() { k get sj "$1" -o jsonpath='{.metadata.uid}'; }
step_of() { local s; s=$(field "$1" '{.status.progress.step}'); echo "${s:-0}"; }
is_past() { [ "$(step_of "$1")" -gt "$2" ]; }
completes() { k wait --for=condition=Complete "sj/$1" --timeout="${2:-240}s"; }
undisturbed() { # undisturbed JOB: still in its first revision, with its first containers
    field "$1" '{.status.revision} {.status.restarts}{"\n"}'
    [ "$(field "$1" '{.status.revision} {.status.restarts}')" = '1 0' ] &&
        [ -z "$(k get pods -l "skyjob.dev/job=$1" -o jsonpath='{.items[*].status.containerStatuses[*].lastState.terminated}')" ]
}
after_failure() {
    { k get sj,pods -o wide; k get events --field-selector type=Warning | tail -n 12
      kubectl -n skyjob-system logs -l app.kubernetes.io/component=operator --tail=15; } | cut -c1-300
}

job() { # job NAME STEPS [STAGES]
    local stages=${3:-2}
    k apply -f - <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
  model: {preset: BertTiny, layers: $((stages > 3 ? stages : 3)), vocabSize: 256, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: $2, batchSize: 64, microBatches: 8, maxSequenceLength: 64, evaluateEverySteps: 100000}
  placement: {minStages: $stages, maxStages: $((stages > 3 ? stages : 3)), rebalance: "Off"}
Y
}

# fake NAME ROLE LABELS COMMAND [EXTRA]: a pod that looks as if the operator had made it for the job
fake() {
    k apply -f - <<Y
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {skyjob.dev/job: $victim, skyjob.dev/job-uid: "$(uid_of "$victim")", skyjob.dev/role: $2, $3}
  annotations: {skyjob.dev/probed-node: $node}
  ownerReferences:
  - {apiVersion: skyjob.dev/v1alpha1, kind: SkyJob, name: $victim, uid: "$(uid_of "$victim")", controller: true}
spec:
  restartPolicy: Never
  nodeName: $node
  terminationGracePeriodSeconds: 0
  containers:
  - {name: worker, image: "$shell", imagePullPolicy: Never, command: [bash, -c, $4], resources: {requests: {cpu: 0, memory: 0}, limits: {cpu: 10m, memory: 16Mi}}}
Y
}

setup() {
    hack/cluster/up.sh && hack/install.sh && load_shell || exit 1
    kubectl delete namespace $ns $evil --ignore-not-found --wait
    kubectl create namespace $ns && kubectl create namespace $evil || exit 1
    trap restore EXIT
    trap 'exit 130' INT TERM
    e run intruder --image="$shell" --image-pull-policy=Never --restart=Never \
        --overrides='{"spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": {"node-role.kubernetes.io/control-plane": ""}, "tolerations": [{"operator": "Exists"}]}}' \
        --command -- sleep infinity &&
        e wait --for=condition=Ready pod/intruder --timeout=60s
}
restore() {
    {
        k delete sj --all --timeout=60s
        kubectl delete namespace $ns $evil --wait
        helm uninstall skyjob -n skyjob-system --wait
    } >/dev/null 2>&1
    rm -f "$tap_log"
}
setup >&2 || exit 1

# --- orders and questions from a stranger ---
# What comes back to a request of the intruder, which has no certificate: the end of the connection.
ask() { # ask IP METHOD PATH [BODY]
    local body=${4:-}
    intruder "exec 3<>/dev/tcp/$1/7070 || exit 1
        printf '%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
            $2 $3 ${#body} '$body' >&3; timeout 5 cat <&3"
}
revision() { # the job's own, with the addresses of two workers that are the intruder's
    local own
    own=$(e get pod intruder -o jsonpath='{.status.podIP}')
    k get configmap -l "skyjob.dev/job=$victim,skyjob.dev/revision=1" -o json | jq -c --arg host "$own" \
        '{revision: .items[0].data["revision.json"] | fromjson, addresses: {revision: 1, peers: [range(2) | {$host, port: 7071}]}}'
}
victim=early
# From the moment a worker has an address, as fast as the shell can: before the operator's own call.
first_revision() {
    local slot deadline=$((SECONDS + 90)) n=0 answer false_one
    job $victim 300 && until_true 90 has_ip $victim 0 && until_true 30 has_ip $victim 1 && false_one=$(revision) || return
    until is_past $victim 0; do
        for slot in 0 1; do
            answer=$(ask "$(ip_of $victim $slot)" POST /v1/revision "$false_one" 2>/dev/null)
            [[ $answer != *HTTP* ]] || { echo "answered: $answer"; return 1; }
            n=$((n + 1))
        done
        [ "$SECONDS" -lt "$deadline" ] || { echo 'the job did not start'; return 1; }
    done
    echo "$n revisions not answered"
    completes $victim && undisturbed $victim
}
check "a stranger's revision is refused, and the job trains on as planned" first_revision

victim=steady
start_steady() { job $victim 100000 && until_true 120 is_past $victim 5; }
check 'a job trains while it is attacked' start_steady
leader() { ip_of $victim 0; }
tells_nothing() { # nothing comes back but, perhaps, an alert
    echo "$1"
    [ "${#1}" -lt 16 ] && [[ $1 != *HTTP* ]]
}
status_refused() { tells_nothing "$(ask "$(leader)" GET /v1/status)"; }
check 'the status page tells a stranger nothing' status_refused
orders_refused() {
    tells_nothing "$(ask "$(leader)" POST /v1/revision "$(revision)")" && tells_nothing "$(ask "$(leader)" GET /v1/report)" &&
        tells_nothing "$(ask "$(leader)" POST /v1/halt '{"revision":1}')"
}
check 'refused orders and reports tell a stranger nothing' orders_refused
signed_wrong() {
    tells_nothing "$(intruder "exec 3<>/dev/tcp/$(leader)/7070 || exit 1
        printf 'GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\nSkyjob-Signature: %064d\r\n\r\n' 0 >&3; timeout 5 cat <&3")"
}
check 'a request with a forged signature is refused' signed_wrong
key_is_secret() { # the key is in a Secret, and in nothing else that is written down
    local key
    key=$(k get secret "$victim-key" -o jsonpath='{.data.key}')
    [ "${#key}" -ge 40 ] || { echo 'no Secret of the job'; return 1; }
    ! { k get sj,pods,configmaps,events -o json; k logs -l "skyjob.dev/job=$victim" --tail=-1
        kubectl -n skyjob-system logs -l app.kubernetes.io/component=operator --tail=-1; } | grep -F -e "$key" -e "$(base64 -d <<<"$key" | od -An -tx1 | tr -d ' \n')"
}
check 'the key of a job is in no log, status, event or environment' key_is_secret
no_dumps() { # what is there of such a process belongs to root
    local node owner n=0
    for node in $(kubectl get nodes -o 'jsonpath={.items[*].metadata.name}'); do
        for owner in $(docker exec "$node" sh -c 'for p in /proc/[0-9]*; do case $(cat $p/comm) in skyjob-*) stat -c %u $p/environ ;; esac; done' 2>/dev/null); do
            [ "$owner" = 0 ] && n=$((n + 1)) || return
        done
    done
    echo "$n processes"
    [ "$n" -ge 4 ]
}
check 'operators and workers cannot be dumped or traced by others of their user' no_dumps

# --- certificates ---
# over_tls PORT OPTION...: what the leader answers to a request over TLS, with these options of openssl
over_tls() {
    local port=$1 here=$((20000 + RANDOM % 10000)) pod forward; shift
    pod=$(k get pods -l "skyjob.dev/job=$victim,skyjob.dev/slot=0" -o name)
    k port-forward "$pod" "$here:$port" >/dev/null 2>&1 &
    forward=$!
    until_true 10 bash -c "exec 3<>/dev/tcp/127.0.0.1/$here" 2>/dev/null
    {
        if [ "$port" = 7071 ]; then
            printf 'GET /skyjob HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: skyjob.v1\r\n\r\n'
        else
            printf 'GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
        fi
        sleep 2
    } | timeout 10 openssl s_client -quiet -connect "127.0.0.1:$here" "$@" 2>/dev/null | tr -d '\0'
    kill "$forward"
    wait "$forward" 2>/dev/null
}
silent() { # silent PORT OPTION...
    local answer
    answer=$(over_tls "$@") && echo "$answer"
    [[ $answer != *HTTP* ]]
}
certificate_of() { # certificate_of JOB POD FILE: written to FILE.crt and FILE.key
    k get secret "$1-certificates" -o json | jq -r ".data[\"$2.crt\"]" | base64 -d >"$3.crt" && [ -s "$3.crt" ] &&
        k get secret "$1-certificates" -o json | jq -r ".data[\"$2.key\"]" | base64 -d >"$3.key" && [ -s "$3.key" ]
}
papers=$(mktemp -d)
neighbour_is_let_in() { # else the next tests would show nothing
    certificate_of $victim w1-1 "$papers/own" || return
    over_tls 7071 -cert "$papers/own.crt" -key "$papers/own.key" >"$papers/text" # ends as the port-forward that it kills
    head -n 1 "$papers/text"
    grep -q '^HTTP/1.1 101' "$papers/text" && silent 7070 -cert "$papers/own.crt" -key "$papers/own.key"
}
check "a worker of the job has the tensor port open to it, and not the control port" neighbour_is_let_in
without_certificate() { silent 7070 && silent 7071; }
check 'a stranger without a certificate gets no answer' without_certificate
of_another_job() {
    certificate_of early w0-1 "$papers/other" && silent 7070 -cert "$papers/other.crt" -key "$papers/other.key" && silent 7071 -cert "$papers/other.crt" -key "$papers/other.key"
}
check 'the certificate of another job opens nothing' of_another_job
of_own_ca() { # with the names that are let in
    local name uid
    uid=$(uid_of $victim)
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=mine -keyout "$papers/ca.key" -out "$papers/ca.crt" 2>/dev/null || return
    for name in operator w1-1; do
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=me -keyout "$papers/$name.key" -out "$papers/$name.csr" 2>/dev/null &&
            openssl x509 -req -in "$papers/$name.csr" -CA "$papers/ca.crt" -CAkey "$papers/ca.key" -CAcreateserial -days 2 \
                -extfile <(echo "subjectAltName=DNS:$name.$uid.skyjob.internal") -out "$papers/$name.crt" 2>/dev/null &&
            silent 7070 -cert "$papers/$name.crt" -key "$papers/$name.key" && silent 7071 -cert "$papers/$name.crt" -key "$papers/$name.key" || return
    done
}
check 'the right name from a CA of its own opens nothing' of_own_ca
old_versions() { silent 7070 -tls1_2 -cert "$papers/own.crt" -key "$papers/own.key" && silent 7071 -tls1_2 -cert "$papers/own.crt" -key "$papers/own.key"; }
check 'TLS 1.2 is not spoken' old_versions
not_disturbed() {
    local before
    before=$(step_of $victim)
    until_true 60 is_past $victim "$((before + 5))" && undisturbed $victim
}
check 'all that disturbs no training' not_disturbed
rm -rf "$papers"

# --- floods ---
flood() { # flood PORT CONNECTIONS SECONDS: each sends a byte of a request now and then, and comes back
    intruder "trap '' PIPE; ulimit -n 4096
        dial() { exec {fd}<>/dev/tcp/$(leader)/$1 && fds[\$i]=\$fd; }
        {
            for i in \$(seq $2); do dial; done
            end=\$((SECONDS + $3))
            while [ \$SECONDS -lt \$end ]; do
                for i in \${!fds[@]}; do
                    printf G >&\${fds[i]} || { fd=\${fds[i]}; exec {fd}>&-; dial; n=\$((n + 1)); }
                done
                sleep 1
            done
        } 2>/dev/null
        echo \${#fds[@]} connections, \$((n + 0)) of them again"
}
flooded() { # all ports at once, for longer than the kubelet's patience
    local before port
    before=$(step_of $victim)
    for port in 7070 7071 7072; do flood $port 200 75 & done
    wait
    until_true 60 is_past $victim "$((before + 5))" && undisturbed $victim
}
check '200 slow connections to each port of a worker disturb nothing' flooded
policies() { k get networkpolicy -o json | jq -e '[.items[] | select(.metadata.ownerReferences[0].name == "'$victim'")] | length == 1'; }
check 'a network policy fences the job where the cluster enforces them' policies

# --- forged pods ---
bad_exit() {
    local before named
    named=$victim-$(uid_of $victim | cut -c1-5)-w7-1
    fake "$named" worker '"skyjob.dev/slot": "0", "skyjob.dev/incarnation": "1"' '"exit 2"' &&
        fake forged worker '"skyjob.dev/slot": "1", "skyjob.dev/incarnation": "2147483647"' '"exit 2"' &&
        until_true 60 has_failed forged && until_true 60 has_failed "$named" || return
    before=$(step_of $victim)
    until_true 60 is_past $victim "$((before + 20))" && undisturbed $victim
}
has_failed() { [ "$(k get pod "$1" -o jsonpath='{.status.containerStatuses[0].state.terminated.exitCode}')" = 2 ]; }
check 'pods that are forged to look like failed workers end nothing' bad_exit
k delete sj --all --timeout=60s >/dev/null 2>&1 # a forged probe needs a node with some CPU left
speed_of_node() { kubectl get node "$node" -o jsonpath='{.metadata.labels.skyjob\.dev/measured-gflops} {.metadata.annotations.skyjob\.dev/probe}'; }
# For a job that still looks for nodes, with what a real probe has found but for the speed.
bad_probe() {
    local result
    result=$(kubectl get node "$node" -o jsonpath='{.metadata.annotations.skyjob\.dev/probe}' |
        jq -c '.found | .gflops = 123456' | base64 -w 0)
    [ -n "$result" ] && victim=waiting && job $victim 50 12 && until_true 60 is_waiting $victim &&
        fake forged-probe probe '"skyjob.dev/revision": "1"' "'base64 -d <<<$result >/dev/termination-log'" &&
        until_true 60 has_ended forged-probe && sleep 5 || return
    speed_of_node
    [[ "$(speed_of_node)" != *123456* ]]
}
is_waiting() { [ "$(field "$1" '{.status.state}')" = Waiting ]; }
has_ended() { [ "$(k get pod "$1" -o jsonpath='{.status.phase}')" = Succeeded ]; }
check 'a forged probe gets no figure onto a node' bad_probe
tap_end
