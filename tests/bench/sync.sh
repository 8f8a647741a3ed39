#!/bin/bash
# BSP, ASP, Local and the switch between BSP and ASP: one of several replicas, each a process with a CPU quota, is four times
# slower than the others. Time, accuracy and time to an accuracy, over several seeds.
#
#   OUT=build/release tests/bench/sync.sh [PROTOCOL...]    even bsp asp local8 local32 local128 switch6 switch12 switch25 switch50
#   SYNC_SEEDS=5 SYNC_REPLICAS=4 SYNC_STEPS=640 SYNC_OPTIMIZERS="AdamW SGD"
#
# even: BSP in which all replicas have the same share of the batch; bsp: shares that follow the speeds. Prints a row
# for every run; `make bench-sync` makes the table. A run takes about half a minute, all of them two hours.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
seeds=${SYNC_SEEDS:-5} n=${SYNC_REPLICAS:-4} steps=${SYNC_STEPS:-640} optimizers=${SYNC_OPTIMIZERS:-AdamW SGD}
[ $# -gt 0 ] || set -- even bsp asp local8 local32 local128 switch6 switch12 switch25 switch50
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
mkdir "$work/data"
cp build/sample/mnli/{train.tsv,vocab.txt,dev_matched.tsv} "$work/data/"

# What the machine has, less a tenth for what else runs, for n - 1 fast replicas and one of a quarter.
workers=$(awk -v n="$n" -v cores="$(nproc)" 'BEGIN {
    fast = 0.9 * cores / (n - 0.75)
    if (fast > 1) fast = 1
    for (i = 1; i <= n; i++) printf("%scpu=%.3f", (i > 1 ? "," : ""), (i < n ? fast : fast / 4)) }')

# job PROTOCOL OPTIMIZER SEED
job() {
    local micro=$((4 * n)) sync='protocol: BSP' rate
    case $1 in
    even) micro=$n ;;
    bsp) ;;
    asp) sync='protocol: ASP' ;;
    local*) sync="protocol: Local, localSteps: ${1#local}" ;;
    switch*) sync="protocol: Switch, switchAfterPercent: ${1#switch}" ;;
    *) echo "no such protocol: $1" >&2 && exit 2 ;;
    esac
    case $2 in
    AdamW) rate=1e-3 ;;
    SGD) rate=5e-2 ;;
    *) echo "no such optimizer: $2" >&2 && exit 2 ;;
    esac
    cat >"$work/job.yaml" <<E3
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: sync}
spec:
  model: {preset: BertTiny, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  replicas: $n
  sync: {$sync}
  placement: {minStages: 1, maxStages: 1}
  checkpoint: {mode: Never}
  training: {steps: $steps, batchSize: $((8 * n)), microBatches: $micro, maxSequenceLength: 64, seed: $3,
    evaluateEverySteps: $((steps / 5)), optimizer: {type: $2, learningRate: "$rate"}}
E3
}
# train PROTOCOL OPTIMIZER SEED
train() {
    job "$@"
    rm -rf "$work/model"
    "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "$workers" --data "$work/data" --output "$work/model" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; exit 1; }
    jq -cs --arg protocol "$1" --arg optimizer "$2" --argjson seed "$3" --argjson n "$n" --arg workers "$workers" --arg cpu "$cpu" '
        map(select(.metrics)) | {protocol: $protocol, optimizer: $optimizer, seed: $seed, replicas: $n, workers: $workers, cpu: $cpu,
            steps: .[-1].step, seconds: .[-1].seconds, accuracy: .[-1].metrics.accuracy, loss: .[-1].metrics.evalLoss,
            evaluations: map([.step, .seconds, .metrics.accuracy])}' "$work/model/history.jsonl"
}
for ((seed = 1; seed <= seeds; seed++)); do
    for optimizer in $optimizers; do
        for protocol; do
            echo "bench-sync: $protocol, $optimizer, seed $seed" >&2
            train "$protocol" "$optimizer" "$seed"
        done
    done
done
