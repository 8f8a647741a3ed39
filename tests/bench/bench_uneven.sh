#!/bin/bash
# Plans trained for real on workers with CPU quotas: three at 1 : 2 : 4, four at 1 : 2 : 3 : 6, three
# alike. Even, Dynamic and Optimal, all planned with the same measurement of the workers, and the cut
# of Optimal with one micro-batch at a time, as Sky Computing ran. Each twice in turn, and the faster
# one counts: whatever else a machine does only ever slows a run. MiniLM's layers, 8 micro-batches of
# 32 sequences, so that a stage computes for longer than a quota's period of 100 ms. With less to do
# a serial stage saves up CPU time while it waits, then computes at full speed, and a quarter of a CPU
# is not slow. About 6 minutes, with TURNS=1 half of that.
#
#   tests/bench/bench_uneven.sh [CLUSTER...]    only these: three, four, alike
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
model='preset: BertBase, hiddenSize: 384, attentionHeads: 6, vocabSize: 512, maxPositions: 64' batch=256
if [ -n "${BENCH_SMOKE:-}" ]; then
    model='preset: BertTiny, layers: 4, vocabSize: 512, maxPositions: 64' batch=32 TURNS=1
    [ $# -gt 0 ] || set -- three
fi
mkdir "$work/data"
cp build/sample/mnli/{train.tsv,vocab.txt} "$work/data/"
head -n 40 build/sample/mnli/dev_matched.tsv >"$work/data/dev_matched.tsv"

# job PLACEMENT
job() {
    cat >"$work/job.yaml" <<E3
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: uneven}
spec:
  model: {$model}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: 3, batchSize: $batch, microBatches: 8, maxSequenceLength: 64}
  placement: {$1}
E3
}
skyjob() { # skyjob COMMAND ARGUMENT...: its messages are shown only if it fails
    "$out/bin/kubectl-skyjob" "$1" -f "$work/job.yaml" "${@:2}" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
}
# measure NAME WORKERS: as Node objects, each with its best of three figures
measure() {
    local n=$(($(tr -cd , <<<"$2" | wc -c) + 1))
    job "minStages: $n, maxStages: $n"
    for _ in 1 2 3; do skyjob plan --workers "$2" -o json; done |
        jq -s '{kind: "List", items: [[.[].stages[]] | group_by(.node)[] | {kind: "Node", metadata: {name: .[0].node, labels:
            {"skyjob.dev/gflops": (map(.gflops) | max | tostring), "skyjob.dev/unit-ms": (map(.unitMilliseconds) | min | tostring)}},
            status: {allocatable: {cpu: "\(.[0].cpuMilli)m", memory: "4Gi"}}}]}' >"$work/$1.nodes"
}
# train NAME WORKERS PLAN [ARGUMENT...]: the result of the fastest run so far is kept as NAME
train() {
    local name=$1 workers=$2 plan=$3
    shift 3
    job "strategy: Manual, manual: {replicas: [{stages: $(jq -c '[.stages[] | {units: .unitCount, node}]' "$plan")}]}"
    skyjob run --workers "$workers" --data "$work/data" --json "$@" >"$work/result"
    jq -rs --arg name "$name" '"bench_uneven: \($name): a step \(.[0].stepMilliseconds | round) ms, planned \(.[1].predictedStepMilliseconds
        | round); stages \([.[0].stages, .[1].stages] | transpose | map("\(.[0].unitCount) units on \(.[0].cpuMilli)m \(.[0].measuredMicroseconds
        | . / 1000 | round) ms, planned \(.[1].predictedMicroseconds / 1000 | round)") | join("; "))"' "$work/result" "$plan" >&2
    if [ ! -e "$work/$name" ] || jq -es '.[0].stepMilliseconds < .[1].stepMilliseconds' "$work/result" "$work/$name" >/dev/null; then
        mv "$work/result" "$work/$name"
    fi
}
# cluster NAME WORKERS STRATEGY...
cluster() {
    local name=$1 workers=$2 strategy n
    shift 2
    n=$(($(tr -cd , <<<"$workers" | wc -c) + 1))
    [ -e "$work/$name.nodes" ] || measure "$name" "$workers"
    for strategy; do
        job "minStages: $n, maxStages: $n"
        skyjob plan --nodes "$work/$name.nodes" --strategy "$strategy" -o json >"$work/$strategy.plan"
        train "$name.${strategy,,}" "$workers" "$work/$strategy.plan"
    done
}
row() { # row NAME OTHER AGAINST: how many times as fast NAME.optimal is as NAME.OTHER
    jq -cs --arg name "uneven.$1.$2" --arg against "$3" --arg cpu "$cpu" \
        '{$name, value: (.[0].stepMilliseconds / .[1].stepMilliseconds), unit: "x", $against, $cpu}' "$work/$1.$2" "$work/$1.optimal"
}
run_three() {
    cluster three cpu=0.25,cpu=0.5,cpu=1 Even Dynamic Optimal
    train three.serial cpu=0.25,cpu=0.5,cpu=1 "$work/Optimal.plan" --serial
}
run_four() { cluster four cpu=0.15,cpu=0.3,cpu=0.45,cpu=0.9 Even Dynamic Optimal; }
run_alike() {
    cluster alike cpu=0.6,cpu=0.6,cpu=0.6 Even Optimal
    train alike.serial cpu=0.6,cpu=0.6,cpu=0.6 "$work/Optimal.plan" --serial
}
rows_three() {
    row three even 'Even on the same workers, cpu 0.25 0.5 1'
    row three dynamic 'Dynamic on the same workers, cpu 0.25 0.5 1'
    row three serial 'the same cut, one micro-batch at a time, cpu 0.25 0.5 1'
}
rows_four() {
    row four even 'Even on the same workers, cpu 0.15 0.3 0.45 0.9'
    row four dynamic 'Dynamic on the same workers, cpu 0.15 0.3 0.45 0.9'
}
rows_alike() {
    row alike even 'Even on the same workers, cpu 0.6 0.6 0.6'
    row alike serial 'the same cut, one micro-batch at a time, cpu 0.6 0.6 0.6'
}

[ $# -gt 0 ] || set -- three four alike
for which; do
    for _ in $(seq "${TURNS:-2}"); do "run_$which"; done
    "rows_$which"
done
