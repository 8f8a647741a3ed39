#!/bin/bash
# Replicas in step, free and alone, where they differ. Rows of JSON; `make bench-sync` makes tables and a plot of them.
#
#   OUT=build/release tests/bench/sync.sh [PART | RUN]...
#   SYNC_SEEDS=5 SYNC_REPLICAS=4 (of uneven, stopped) SYNC_STEPS=640 (of uneven, link) SYNC_OPTIMIZERS="AdamW SGD" (of uneven)
#
# Parts and their runs, with the time for one seed and all optimizers on two cores:
#
#   uneven   one of several replicas, each a process with a CPU quota, is four times slower than the others: 16 minutes
#            even bsp asp local8 local32 local128 switch6 switch12 switch25 switch50 pipeline ddp
#            even: BSP in which all replicas have the same share of the batch; bsp: shares that follow the speeds;
#            pipeline: BSP in one pipeline over all workers; ddp: `even` in PyTorch, which the cache has (5 GB) or gets.
#            SGD goes on from a model that AdamW has trained for half as many steps: from random weights, at the rates
#            0.05 to 1, it learns nothing in 640 steps, and neither does PyTorch. So ddp is for AdamW only
#   lag      one of two like replicas has a fifth of its CPU time for 6 of every 15 seconds: 6 minutes
#            calm (it has all of it) wait elastic greedy
#   stopped  one of the uneven part's replicas gets no CPU time for ten seconds in ASP: 40 seconds
#            stopped-slow (no unit's home) stopped-home (a fast one)
#   delay    the link between two replicas, which only delays, is longer for 6 of every 15 seconds, by 10 or 30 ms each way: 10 minutes
#            delay0-bsp delay0-asp delay0-local32 delay10-bsp delay10-asp delay10-local32 delay30-bsp delay30-asp delay30-local32
#   link     two replicas over a link of 10 Mbit/s and 20 ms each way: 6 minutes
#            link-bsp link-top10 link-top1 link-asp link-local32 link-local128 free-bsp free-top10 free-top1
#            top10, top1: BSP in which the largest 10 or 1 percent of the gradients travel
#            free-*: without the link, for as many steps as Local; their accuracy is what link-* would have after them
#            delay and link need root: the loopback of a network namespace is made slow
#
# With BENCH_SMOKE some runs of a few steps, which need neither root nor PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
seeds=${SYNC_SEEDS:-5} n=${SYNC_REPLICAS:-4} steps=${SYNC_STEPS:-640} optimizers=${SYNC_OPTIMIZERS:-AdamW SGD} watch_s=5 stop_s=10
if [ -n "${BENCH_SMOKE:-}" ]; then
    seeds=1 n=2 steps=10 optimizers=AdamW watch_s=1 stop_s=1
    [ $# -gt 0 ] || set -- even asp stopped-slow free-bsp
fi
case ${1:-} in
-h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit ;;
esac
declare -A runs_of=(
    [uneven]='even bsp asp local8 local32 local128 switch6 switch12 switch25 switch50 pipeline ddp'
    [lag]='calm wait elastic greedy'
    [stopped]='stopped-slow stopped-home'
    [delay]='delay0-bsp delay0-asp delay0-local32 delay10-bsp delay10-asp delay10-local32 delay30-bsp delay30-asp delay30-local32'
    [link]='link-bsp link-top10 link-top1 link-asp link-local32 link-local128 free-bsp free-top10 free-top1')
[ $# -gt 0 ] || set -- uneven lag delay stopped link
names=()
for name; do
    read -r -a runs <<<"${runs_of[$name]:-$name}"
    names+=("${runs[@]}")
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # where the history of a run that goes on is found
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
mkdir "$work/data"
cp build/sample/mnli/{train.tsv,vocab.txt,dev_matched.tsv} "$work/data/"
[ -z "${BENCH_SMOKE:-}" ] || head -n 40 build/sample/mnli/dev_matched.tsv >"$work/data/dev_matched.tsv"

# What the machine has, less a tenth for what else runs, for n - 1 fast replicas and one of a quarter.
uneven_workers=$(awk -v n="$n" -v cores="$(nproc)" 'BEGIN {
    fast = 0.9 * cores / (n - 0.75)
    if (fast > 1) fast = 1
    for (i = 1; i <= n; i++) printf("%scpu=%.3f", (i > 1 ? "," : ""), (i < n ? fast : fast / 4)) }')

# set_up NAME: part, workers, n_replicas, stages (of each), n_steps, batch (sequences of a step for each replica), micro
# (micro-batches of a step), every (steps to an evaluation), model and sync
set_up() {
    part=uneven workers=$uneven_workers n_replicas=$n stages=1 n_steps=$steps batch=8 micro=$((4 * n))
    every=$((steps / 5)) model='preset: BertTiny, vocabSize: 512, maxPositions: 64' start=() sync='protocol: BSP'
    case $1 in
    calm | wait | elastic | greedy | delay*)
        part=lag workers=cpu=1,cpu=1 n_replicas=2 batch=32 micro=16 n_steps=400 every=$n_steps model="$model, layers: 12"
        [[ $1 != delay* ]] || part=delay ;;
    stopped-*) part=stopped n_steps=10000 every=$n_steps ;; # ended when it has been measured
    link-bsp | link-top* | link-asp) part=link workers=cpu=1,cpu=1 n_replicas=2 batch=16 micro=8 n_steps=12 every=$n_steps ;;
    link-* | free-*) part=link workers=cpu=1,cpu=1 n_replicas=2 batch=16 micro=8 every=$n_steps ;;
    esac
    case $1 in
    bsp | calm | wait | link-bsp | free-bsp | delay*-bsp) ;;
    even | ddp) micro=$n ;;
    pipeline) n_replicas=1 stages=$((n < 7 ? n : 7)) batch=$((8 * n)) ;; # the model has seven units
    asp | link-asp | stopped-* | delay*-asp) sync='protocol: ASP' ;;
    link-top* | free-top*) sync="protocol: BSP, gradientPercent: ${1##*top}" ;;
    local*) sync="protocol: Local, localSteps: ${1#local}" ;;
    link-local* | delay*-local*) sync="protocol: Local, localSteps: ${1##*local}" ;;
    switch*) sync="protocol: Switch, switchAfterPercent: ${1#switch}" ;;
    elastic) sync='stragglers: Elastic' ;;
    greedy) sync='stragglers: Greedy' ;;
    *) echo "no such part or run: $1" >&2 && exit 2 ;;
    esac
}
set_optimizer() { # set_optimizer NAME
    case $1 in
    AdamW) rate=1e-3 ;;
    SGD) rate=3e-2 model='from: {persistentVolumeClaim: {claimName: start}}' start=(--model "$work/start") ;;
    *) echo "no such optimizer: $1" >&2 && exit 2 ;;
    esac
}
# What SGD goes on from.
make_start() {
    rm -rf "$work/model"
    set_up pipeline
    set_optimizer AdamW
    n_steps=$((steps / 2)) every=$n_steps stages=1 workers=cpu=1
    job AdamW 100
    run || { cat "$work/log" >&2; exit 1; }
    mv "$work/model" "$work/start"
}
# job OPTIMIZER SEED, after set_up and set_optimizer
job() {
    cat >"$work/job.yaml" <<E3
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: sync}
spec:
  model: {$model}
  data: {task: MNLI, source: {sample: MNLI}}
  replicas: $n_replicas
  sync: {$sync}
  placement: {minStages: $stages, maxStages: $stages}
  checkpoint: {mode: Never}
  training: {steps: $n_steps, batchSize: $((batch * n_replicas)), microBatches: $micro, maxSequenceLength: 64, seed: $2,
    evaluateEverySteps: $every, optimizer: {type: $1, learningRate: "$rate"}}
E3
}
run() {
    "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "$workers" --data "$work/data" "${start[@]}" --output "$work/model" >"$work/log" 2>&1
}
run_ddp() { # run_ddp OPTIMIZER SEED
    mkdir "$work/model"
    "$python" tests/bench/ddp.py --data "$work/data" --output "$work/model" --throttle "$out/tests/support/throttle" --workers "$workers" \
        --optimizer "$1" --rate "$rate" --batch "$batch" --steps "$n_steps" --every "$every" --seed "$2" >"$work/log" 2>&1
}
# run_over LINK: as the arguments of slow-link.
run_over() {
    "$out/tests/support/slow-link" "$@" "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "$workers" --data "$work/data" \
        --output "$work/model" >"$work/log" 2>&1
}
worker_pid() { # worker_pid CLI SLOT: as soon as it is there
    until pgrep -P "$1" -f -- "skyjob-worker stage .*--slot $2"; do kill -0 "$1" && sleep 0.2 || return; done
}
# The second replica's worker: 9 s of all its CPU time, 6 s of a fifth, again and again.
disturb() {
    local worker
    worker=$(worker_pid "$1" 1)
    while kill -0 "$worker" 2>/dev/null; do
        sleep 9
        timeout 6 "$out/tests/support/throttle" "$worker" 200 || :
    done 2>/dev/null
}
run_disturbed() {
    local pid rc=0
    run &
    pid=$!
    until pgrep -P $pid >/dev/null; do sleep 0.1; done
    disturb "$(pgrep -P $pid)" &
    wait $pid || rc=$?
    wait
    return $rc
}
# run_stopped SLOT: steps per second before this replica's worker is stopped, and while it is.
run_stopped() {
    local pid cli worker before stopped
    run &
    pid=$!
    until cli=$(pgrep -P $pid); do kill -0 $pid && sleep 0.1 || return; done
    worker=$(worker_pid "$cli" "$1") || return
    until [ "$(steps_done)" -ge 20 ]; do kill -0 "$cli" && sleep 0.1 || return; done
    before=$(steps_per_second sleep $watch_s)
    stopped=$(steps_per_second stop_for $stop_s "$worker")
    jq -n --argjson before "$before" --argjson stopped "$stopped" '{$before, $stopped}' >"$work/rates"
    kill "$cli" || return # it had to be there until now
    wait $pid || :
}
# stop_for SECONDS PID: for less than the 15 s after which it would be lost. The CLI holds it to its quota by signals too,
# so it is stopped until there is none to come that lets it go on.
stop_for() {
    for _ in {1..50}; do kill -STOP "$2" && sleep 0.01; done
    sleep "$1"
    kill -CONT "$2"
}
steps_done() { cat "$work"/skyjob-*/*/*.history 2>/dev/null | awk -F '[:,]' '$2 > most { most = $2 } END { print most + 0 }'; }
steps_per_second() { # steps_per_second COMMAND...: while it runs
    local from from_us=${EPOCHREALTIME/./}
    from=$(steps_done)
    "$@"
    awk -v steps=$(($(steps_done) - from)) -v us=$((${EPOCHREALTIME/./} - from_us)) 'BEGIN { print steps / us * 1e6 }'
}
# The planner's figure for a step of this job, on nodes as fast as the workers were measured, over that link.
predicted_ms() {
    local name
    { echo "kind: List"; echo "items:"; awk '$3 ~ /^worker-/ && $2 ~ /^[0-9]+$/ { printf("- {kind: Node, metadata: {name: %s, labels: " \
        "{skyjob.dev/gflops: \"%s\", skyjob.dev/link-mbit: \"10\", skyjob.dev/link-latency-ms: \"20\"}}, " \
        "status: {allocatable: {cpu: \"1\", memory: 4Gi}}}\n", $3, $5) }' "$work/log"; } >"$work/nodes.yaml"
    name=${sync#protocol: }
    "$out/bin/kubectl-skyjob" plan -f "$work/job.yaml" --nodes "$work/nodes.yaml" | awk -v name="${name%%,*}" '/^protocol / {
        gsub(",", ""); for (i = 2; i < NF; i++) if ($i == name) print $(i + 1) }'
}
# train NAME OPTIMIZER SEED
train() {
    local predicted=0
    [ "$2" != SGD ] || [ -e "$work/start" ] || make_start
    set_up "$1"
    set_optimizer "$2"
    job "$2" "$3"
    rm -rf "$work/model"
    case $1 in
    ddp) run_ddp "$2" "$3" ;;
    stopped-slow) run_stopped $((n - 1)) ;;
    stopped-home) run_stopped 1 ;;
    wait | elastic | greedy) run_disturbed ;;
    link-*) run_over 10 20 ;;
    delay*) run_over 0 "${1//[!0-9]/}:6:15" ;;
    *) run ;;
    esac || { cat "$work/log" >&2; exit 1; }
    [[ $1 != link-* ]] || predicted=$(predicted_ms)
    jq -n --arg part "$part" --arg protocol "$1" --arg optimizer "$2" --argjson seed "$3" --argjson replicas "$n_replicas" --arg workers "$workers" \
        --arg cpu "$cpu" '{$part, $protocol, $optimizer, $seed, $replicas, $workers, $cpu}' >"$work/row"
    if [ "$part" = stopped ]; then
        jq -cs add "$work/row" "$work/rates"
        return
    fi
    jq -cs --argjson predicted "${predicted:-0}" '.[0] + (map(select(.metrics)) | {steps: .[-1].step, seconds: .[-1].seconds, predictedMs: $predicted,
        accuracy: .[-1].metrics.accuracy, loss: .[-1].metrics.evalLoss, evaluations: map([.step, .seconds, .metrics.accuracy])})' \
        "$work/row" "$work/model/history.jsonl"
}
for name in "${names[@]}"; do set_up "$name"; done # refuses a wrong name before the first run
python=
if [[ " ${names[*]} " == *' ddp '* ]]; then
    python=$(hack/torch.sh) || echo "bench-sync: no PyTorch, so the run ddp is left out" >&2
fi
for ((seed = 1; seed <= seeds; seed++)); do
    for name in "${names[@]}"; do
        set_up "$name"
        for optimizer in $optimizers; do
            [ "$part" = uneven ] || [ "$optimizer" = "${optimizers%% *}" ] || continue
            [ "$name" != ddp ] || { [ -n "$python" ] && [ "$optimizer" = AdamW ]; } || continue
            echo "bench-sync: $name, $optimizer, seed $seed" >&2
            train "$name" "$optimizer" "$seed"
        done
    done
done
