#!/bin/bash
# Nodes that are limited on purpose, in CPU, memory and network: what probes see of it and what
# plans make of it, and what becomes of a job whose probes cannot do their work. Prints TAP, and the
# figures as comments: they are measured on a machine that others may use, so a figure fails a check
# only when it is wrong by a factor of two, and still is after another measurement. Leaves the cluster up, and its nodes as they were.
#
# The control plane takes part as a fourth node. A docker quota is what a node's processes get; the
# kubelet is told to offer just as much.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
ns=skyjob-limits
# shellcheck source=tests/support/cluster.sh
. tests/support/cluster.sh
large=$CLUSTER_NAME-worker half=$CLUSTER_NAME-worker2 quarter=$CLUSTER_NAME-worker3
control=$CLUSTER_NAME-control-plane # with a quarter of a CPU free, by the requests of a pod
nodes=("$large" "$half" "$quarter" "$control")
worker=skyjob/worker:$(cat VERSION)
odd=registry.invalid/worker:odd-$$ # nothing can be pulled from there
work=$(mktemp -d)

placed() { field "$1" '{.status.conditions[?(@.type=="Placed")].reason}'; }
is_placed() { [ "$(placed "$1")" = "$2" ]; }
is_planned() { until_true 60 is_placed "$1" PlanMade; }
completes() { k wait --for=condition=Complete "sj/$1" --timeout="${2:-120}s"; }
plan_of() { # plan_of JOB FILTER: of its first revision
    k get configmap -l "skyjob.dev/job=$1,skyjob.dev/revision=1" -o json | jq -r '.items[0].data["revision.json"]' | jq -r ".plan | $2"
}
mark() { kubectl get node "$1" -o jsonpath='{.metadata.annotations.skyjob\.dev/probe}'; }
found() { mark "$1" | jq -r "$2"; } # found NODE FILTER
holds() { awk "BEGIN { exit !($1) }"; }
comment() { "$@" 2>&1 | sed 's/^/# /'; }
after_failure() { { k get sj,pods -o wide; k get events --field-selector type=Warning | tail -n 12; } | cut -c1-300; }

# job NAME PLACEMENT [HIDDEN [STEPS [IMAGE]]]: eight layers, which four nodes can share
manifest() {
    cat <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
  model: {preset: BertTiny, layers: 8, hiddenSize: ${3:-128}, attentionHeads: 4, feedForwardSize: $((${3:-128} * 4)), vocabSize: 256, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: ${4:-20}, batchSize: 64, microBatches: 8, maxSequenceLength: 64}
  placement: {$2, rebalance: "Off"}
  worker: {image: "${5:-$worker}"}
Y
}
job() { manifest "$@" | k apply -f -; }
end_jobs() { k delete sj --all --timeout=60s >/dev/null 2>&1 && until_true 30 no_pods; }
no_pods() { [ -z "$(k get pods -l skyjob.dev/job -o name)" ]; }

# filler NAME NODE CPU MEMORY: a pod that asks for so much and needs none of it
filler() {
    k apply -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  nodeSelector: {kubernetes.io/hostname: $2}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: idle, image: "$shell", imagePullPolicy: Never, command: [sleep, infinity], resources: {requests: {cpu: $3, memory: $4}}}
Y
    k wait --for=condition=Ready "pod/$1" --timeout=60s
}
allocatable() { kubectl get node "$1" -o jsonpath="{.status.allocatable.$2}"; }
mib() { awk -v m="$1" 'BEGIN { printf "%d", m * (m ~ /Gi$/ ? 1024 : m ~ /Mi$/ ? 1 : m ~ /Ki$/ ? 1 / 1024 : 1 / 1048576) }'; }
milli() { awk -v c="$1" 'BEGIN { print (c ~ /m$/) ? c + 0 : 1000 * c }'; }

# --- limits, on purpose ---
set_cpus() { # set_cpus NODE CORES
    local reserved
    reserved=$(awk -v all="$(nproc)" -v own="$2" 'BEGIN { r = (all - own) * 1000; printf "%d", (r > 0) ? r : 0 }')
    # On cgroup v1 less than a pod's limit is refused, as long as that pod's cgroup is there.
    until_true 30 docker update --cpus "$2" "$1" &&
        docker exec "$1" sed -i "s/cpu=[0-9]*m/cpu=${reserved}m/" /var/lib/kubelet/kubeadm-flags.env &&
        docker exec "$1" systemctl restart kubelet &&
        until_true 60 offers "$1" "$2"
}
offers() { [ "$(milli "$(allocatable "$1" cpu)")" = "$(milli "$2")" ]; }
cpus_of() { docker inspect -f '{{.HostConfig.NanoCpus}}' "$1" | awk '{ print $1 / 1e9 }'; }

# What leaves the node, and what the machine below it sends there: its end of the cable is in the
# engine's own network, which the node's image has the tools for.
shape() { # shape NODE ARGUMENT...: of `tc qdisc ... root`
    local node=$1 verb=$2 index
    shift 2
    index=$(docker exec "$node" cat /sys/class/net/eth0/iflink) &&
        docker exec "$node" tc qdisc "$verb" dev eth0 root "$@" &&
        docker run --rm --privileged --network host --entrypoint sh "$(docker inspect -f '{{.Image}}' "$node")" -c \
            "tc qdisc $verb dev \$(ip -o link | sed -n 's/^$index: \([^:@]*\).*/\1/p') root $*"
}
slow_link() { shape "$1" replace tbf rate "$2" burst 16kb latency 400ms; }
fast_link() { shape "$1" del; }
take_cpu() { docker exec -d "$1" sh -c 'echo $$ >/run/skyjob-taker; while :; do :; done'; }
leave_cpu() { docker exec "$1" sh -c 'kill "$(cat /run/skyjob-taker)" && rm /run/skyjob-taker'; }

setup() {
    hack/cluster/up.sh && hack/install.sh && load_shell || exit 1
    kubectl delete namespace $ns --ignore-not-found --wait
    kubectl create namespace $ns || exit 1
    before=("$(cpus_of "$large")" "$(cpus_of "$half")" "$(cpus_of "$quarter")")
    trap restore EXIT
    trap 'exit 130' INT TERM
    set_sizes 0.5 0.5 0.25 && kubectl taint node "$control" node-role.kubernetes.io/control-plane:NoSchedule- &&
        filler busy "$control" "$(spare "$control")m" 1Mi
}
set_sizes() { # set_sizes LARGE HALF QUARTER
    local i=0 cores
    for cores; do
        [ "$(cpus_of "${nodes[$i]}")" = "$cores" ] && offers "${nodes[$i]}" "$cores" || set_cpus "${nodes[$i]}" "$cores" || return
        i=$((i + 1))
    done
}
spare() { # spare NODE: millicores that may go, so that 250 are free
    local asked
    asked=$(kubectl describe node "$1" | awk '/^Allocated resources/ { there = 1 } there && $1 == "cpu" { print $2 }')
    echo $(($(milli "$(allocatable "$1" cpu)") - $(milli "$asked") - 250))
}
restore() {
    {
        end_jobs
        leave_cpu "$quarter"
        fast_link "$half"
        set_sizes "${before[@]}"
        kubectl taint node "$control" --overwrite node-role.kubernetes.io/control-plane:NoSchedule
        kubectl annotate nodes --all skyjob.dev/probe-
        kubectl label nodes --all skyjob.dev/measured-gflops-
        kubectl delete namespace $ns --wait
        helm uninstall skyjob -n skyjob-system --wait
        docker rmi "$odd"
    } >/dev/null 2>&1
    rm -rf "$work" "$tap_log"
}
setup >&2 || exit 1

# --- four nodes ---
speeds() { # a node, the millicores that its probe had, GFLOP/s, and GFLOP/s of a whole CPU
    local node
    for node in "${nodes[@]}"; do found "$node" "\"$node \(.cpuMilli) \(.found.gflops) \(.found.gflops * 1000 / .cpuMilli)\""; done
}
links() { # from, to, MB/s, ms
    local node
    for node in "${nodes[@]}"; do found "$node" ".found.links[] | \"$node \(.node) \(.bytesPerSecond / 1e6) \(.latencyMs)\""; done
}
as_shares() { speeds | awk 'NR == 1 { one = $4 } $4 < 0.5 * one || $4 > 2 * one { bad = 1 } END { exit bad || NR < 4 }'; }
# Somebody else's work on this machine makes a probe find less. So it waits for a calm moment and
# may take some tries; when there is no such moment, shares are not judged.
busy_percent() {
    { head -n 1 /proc/stat && sleep 3 && head -n 1 /proc/stat; } | awk '
        { idle = $5 + $6 - idle; all = -all; for (i = 2; i <= 9; i++) all += $i }
        END { printf "%d", 100 - 100 * idle / all }'
}
wait_for_calm() {
    local end=$((SECONDS + 30))
    is_calm=yes
    until [ "$(busy_percent)" -lt 40 ]; do
        [ "$SECONDS" -lt "$end" ] || { is_calm=no; return; }
    done
}
check_if_calm() {
    if [ "$is_calm" = yes ]; then check "$@"; else echo "# not checked, since others use this machine: $1"; fi
}
four_probed() {
    for _ in 1 2 3 4; do
        end_jobs
        wait_for_calm
        job four 'minStages: 4, probePolicy: Always' && is_planned four || return
        if as_shares && all_links; then break; fi
        speeds
        links
    done
    all_links
}
all_links() { [ "$(links | awk '$3 > 0' | wc -l)" = 12 ]; } # a probe that starts late misses some
check 'four nodes are probed, and the links between every two of them' four_probed
comment speeds
comment links
told_shares() { speeds; [ "$(speeds | awk '{ print $2 }' | xargs)" = '500 500 250 250' ] && as_shares; }
check_if_calm 'quotas of a half and a quarter of a CPU are seen as that share of its speed' told_shares
stages() { plan_of "$1" '.workers[] | "\(.node): \(.unitCount) units, \(.units), \(.memoryBytes / 1048576 | ceil) MiB"'; }
# work_on JOB NODE: a feed-forward unit is as much as two of attention, the other units are next to nothing
work_on() {
    plan_of "$1" "[.workers[] | select(.node == \"$2\") | range(.firstUnit; .firstUnit + .unitCount)
        | if . < 1 or . > 16 then 0 else 2 - . % 2 end] | add // 0"
}
follows_quotas() {
    speeds
    stages four
    holds "$(speeds | awk 'NR <= 2 { more += $3 } NR > 2 { less += $3 } END { print more " < 2 * " less }')" ||
        holds "$(work_on four "$large") + $(work_on four "$half") > $(work_on four "$quarter") + $(work_on four "$control")"
}
check 'nodes that were found to be twice as fast get more of the model' follows_quotas
ends() { completes four && [ "$(field four '{.status.restarts}')" = 0 ]; }
check 'the job trains on all four of them' ends
comment field four '{range .status.stages[*]}{.node}: {.units}, predicted {.predictedMicroseconds} us, measured {.measuredMicroseconds} us{"\n"}{end}'
comment field four '{.status.placement.explanation}{"\n"}'

# --- a node that becomes larger ---
# grows CORES: a new job, for which only that node is measured
grows() {
    local node try
    for node in "${nodes[@]}"; do mark "$node" >"$work/$node"; done
    had=$(work_on "${last:-four}" "$large")
    speed=$(found "$large" .found.gflops)
    set_cpus "$large" "$1" || return
    for try in 1 2 3 4; do # see four_probed()
        end_jobs
        [ "$try" = 1 ] || kubectl annotate node "$large" skyjob.dev/probe-
        wait_for_calm
        job "larger$1" 'maxStages: 4' && is_planned "larger$1" || return
        if is_share; then break; fi
        speeds
    done
    # All cores of the machine are only there while nobody else has work at any moment.
    if ! is_share && [ "$1" -ge "$(nproc)" ]; then is_calm=no; fi
    last=larger$1
    for node in "$half" "$quarter" "$control"; do [ "$(mark "$node")" = "$(cat "$work/$node")" ] || return; done
}
# Two threads are not quite twice as fast as one, and the cluster itself needs some of two cores.
is_share() { speeds | awk 'NR == 1 { own = $4 } NR > 1 { sum += $4 } END { own /= sum / 3; exit !(own > 0.5 && own < 2) }'; }
# How fast it was found to be is up to who else uses this machine; that the plan follows is not. A
# node that is not much faster than before, or had nearly the whole model, need not get more.
has_more() {
    stages "$last"
    holds "$(found "$large" .found.gflops) < 2 * $speed || $had > 20" || [ "$(work_on "$last" "$large")" -gt "$had" ]
}
has_most() {
    local node
    has_more || return
    for node in "$half" "$quarter" "$control"; do
        holds "$(found "$large" .found.gflops) < 2 * $(found "$node" .found.gflops)" ||
            [ "$(work_on "$last" "$large")" -gt "$(work_on "$last" "$node")" ] || return
    done
}
told_share() { speeds; [ "$(found "$large" .cpuMilli)" = "$1" ] && is_share; }
check 'a node that has become larger is measured again, and no other' grows 1
check_if_calm 'a quota of 1 CPU is seen as that share, too' told_share 1000
comment speeds
check 'the next plan gives it more if it was found to be twice as fast' has_more
comment stages "$last"
check 'so it is when it becomes larger still' grows 2
check_if_calm 'a quota of 2 CPUs is seen as that share, too' told_share 2000
comment speeds
check 'so does the plan after that, and more than to any node of half its speed' has_most
comment stages "$last"
end_jobs

# --- little memory ---
tight() { # with all its memory, the largest node would get a stage of more than is left to it
    local left=200 memory
    manifest tight 'probePolicy: Never' 512 3 >"$work/tight.yaml"
    memory=$(mib "$(allocatable "$large" memory)")
    "${OUT:-build/release}/bin/kubectl-skyjob" plan -f "$work/tight.yaml" -o json >"$work/before" &&
        filler hoard "$large" 10m "$((memory - left))Mi" || return
    k apply -f "$work/tight.yaml" && is_planned tight || return
    stages tight
    [ "$(jq "[.stages[] | select(.node == \"$large\") | .memoryBytes] | add" "$work/before")" -gt $((left << 20)) ] &&
        [ "$(plan_of tight "[.workers[] | select(.node == \"$large\") | .memoryBytes] | add // 0")" -le $((left << 20)) ]
}
check 'a node whose memory others have asked for gets a stage that fits' tight
comment jq -r '.stages[] | "with all memory \(.node): \(.unitCount) units, \(.memoryBytes / 1048576 | ceil) MiB"' "$work/before"
comment stages tight
fits() { completes tight 240 && [ "$(field tight '{.status.restarts} {.status.revision}')" = '0 1' ]; }
check 'and the job trains in that memory' fits
end_jobs

# --- a slow link, and a node that does not get its CPU ---
both_ways() { # a node without its CPU has to wait for it, too
    links | awk -v slow="$half" -v crowded="$quarter" '
        $1 == slow || $2 == slow { n++; if ($3 < ($1 == crowded || $2 == crowded ? 0.3 : 0.625) || $3 > 2.5) bad = 1 }
        END { exit bad || n != 6 }'
}
others_fast() { links | awk -v slow="$half" '$1 != slow && $2 != slow { n++; if ($3 < 5) bad = 1 } END { exit bad || n != 6 }'; }
crowded() { # beside a node with the same quota, of which it should find a half
    speeds
    speeds | awk -v one="$quarter" -v other="$control" '{ a[$1] = $3 } END { exit !(a[one] > 0 && a[one] < a[other]) }'
}
slowed() {
    k delete pod hoard --wait && set_cpus "$large" 0.5 && slow_link "$half" 10mbit && take_cpu "$quarter" || return
    for _ in 1 2 3; do
        end_jobs
        job slow 'maxStages: 4, probePolicy: Always' && is_planned slow || return
        if both_ways && others_fast && crowded; then break; fi
        speeds
        links
    done
}
check 'a cluster with a slow link and a crowded node gets a plan' slowed
leave_cpu "$quarter" >/dev/null 2>&1
comment speeds
comment links
check 'a link of 10 Mbit/s is seen as 1.25 MB/s, to and from every other node' both_ways
check 'the links between the others are seen as fast' others_fast
check 'CPU that somebody takes without asking is missing in what a probe finds' crowded
left_out() {
    stages slow
    [ "$(plan_of slow "[.workers[].node == \"$half\"] | any")" = false ] && [ "$(work_on slow "$large")" -gt 0 ]
}
check 'the node behind the slow link is left out, though no other is faster' left_out
comment field slow '{.status.placement.explanation}{"\n"}'
end_jobs
fast_link "$half" >/dev/null 2>&1

# --- probes that cannot do their work ---
# On one node the image of this job is missing, on one its probe crashes, on one it tells nonsense.
make_odd() {
    gcc -O2 -static -o "$work/skyjob-worker" tests/support/odd_probe.c || return
    printf 'FROM %s\nCOPY skyjob-worker /usr/local/sbin/\n' "$worker" >"$work/Dockerfile"
    docker_build -t "$odd" "$work" && hack/cluster/load.sh "$odd" && docker exec "$quarter" ctr -n k8s.io images rm "$odd"
}
mend() { # mend NODE: what the name stands for there is a good image from now on
    docker exec "$1" ctr -n k8s.io images tag --force "docker.io/$worker" "$odd"
}
says() { k get sj odd -o jsonpath='{.status.conditions[?(@.type=="Placed")].message}' | grep -F "$1"; } # says WORDS
never_starts() { make_odd && job odd 'minStages: 4' 128 10 "$odd" && until_true 60 is_placed odd ImagePullFailed && says "Node $quarter cannot pull"; }
check 'a probe without an image is a condition that names its node' never_starts
measured_meanwhile() { mend "$quarter" && until_true 90 is_placed odd InsufficientNodes && says '2 of 4 nodes can be used'; }
check 'such a probe starts when the image is there' measured_meanwhile
names_nonsense() { says "node $large: its probe left no valid result: quite fast"; }
check 'a probe that tells nonsense is in the condition, with what it said' names_nonsense
names_crash() { says "node $half: its probe ended with code 3 (Error): no such device"; }
check 'a probe that crashes is in the condition, with how it ended' names_crash
starts() { mend "$large" && mend "$half" && until_true 100 is_placed odd PlanMade && completes odd && [ "$(field odd '{.status.revision} {.status.restarts}')" = '1 0' ]; }
check 'the job starts when the cause is gone, and nobody has touched it' starts
end_jobs
tap_end
