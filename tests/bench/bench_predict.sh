#!/bin/bash
# What the planner predicts against what training takes, on the models of manifests/samples with the
# sample's data: a step of ten configurations of two to four workers, as uneven as 1:6, whose limits
# add up to less than the two cores it needs. (A block alone: bench_block.c.)
#
# A row plans and trains TURNS times with the same cut. Each time the workers are measured anew, so
# there are as many predictions as runs, and a run reports the mean of its fastest stretch of 1.5 s. The
# best of each are compared: whatever else a machine does only ever slows it down, for seconds and by
# up to a third, and meets the one or the other. How far they were apart is said, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
out=${OUT:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)

job() { # job MODEL PLACEMENT STEPS
    local spec
    case $1 in
    mnli) spec="  model: {preset: BertTiny, layers: 3, attentionHeads: 16, feedForwardSize: 64, vocabSize: 256, maxPositions: 64}
  training: {steps: $3, batchSize: 128, microBatches: 8, maxSequenceLength: 64, dropout: \"0\"}" ;;
    finetune) spec="  model: {preset: BertBase}
  training: {steps: $3, batchSize: 32, microBatches: 8, maxSequenceLength: 128}" ;;
    esac
    cat <<E2
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: predict}
spec:
$spec
  data: {task: MNLI, source: {sample: MNLI}}
  placement: {$2}
E2
}
skyjob() { # skyjob STRATEGY CPU...: train the job; the result is added to those of the row
    local workers
    workers=$(printf ',cpu=%s' "${@:2}")
    "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "${workers#,}" --data build/sample/mnli \
        --strategy "$1" --json 2>"$work/log" >>"$work/results" || { cat "$work/log" >&2; exit 1; }
}
row() { # row MODEL STEPS STRATEGY CPU...
    local model=$1 steps=$2 strategy=$3
    shift 3
    rm -f "$work/results"
    job "$model" "minStages: $#, maxStages: $#" "$steps" >"$work/job.yaml"
    skyjob "$strategy" "$@"
    job "$model" "strategy: Manual, manual: {replicas: [{stages: $(jq -c '[.stages[] | {units: .unitCount, node}]' "$work/results")}]}" "$steps" >"$work/job.yaml"
    for _ in $(seq 2 "${TURNS:-3}"); do skyjob Manual "$@"; done
    jq -cs --arg name "predict.$model.$strategy.$(IFS=- && echo "$*")" --arg cpu "$cpu" '
        def apart: (max / min - 1) * 100 | round;
        def ms: . * 100 | round / 100;
        map(.predictedStepMilliseconds) as $p | map(.bestStepMilliseconds // .stepMilliseconds) as $m |
        {$name, value: (($p | min) / ($m | min) * 1000 | round / 1000), unit: "x", against:
            "a step: predicted \($p | min | ms) ms (\($p | apart)% apart), measured \($m | min | ms) (\($m | apart)%)", $cpu}
        ' "$work/results"
}

all_rows() { # steps enough for some stretches of 1.5 s
    row mnli 150 Optimal 0.75 0.75
    row mnli 60 Even 0.25 0.75
    row mnli 150 Optimal 0.2 0.4 0.8
    row mnli 80 Even 0.2 0.4 0.8
    row mnli 150 Optimal 0.15 0.45 0.9
    row mnli 120 Optimal 0.1 0.2 0.3 0.6
    row finetune 4 Optimal 0.75 0.75
    row finetune 4 Even 0.6 0.8
    row finetune 4 Optimal 0.2 0.4 0.8
    row finetune 4 Optimal 0.15 0.3 0.3 0.9
}
smoke_rows() {
    TURNS=1
    row mnli 10 Optimal 0.75 0.75
    row mnli 5 Even 0.2 0.4 0.8
}
if [ -n "${BENCH_SMOKE:-}" ]; then smoke_rows; else all_rows; fi | tee "$work/rows"
jq -cs --arg cpu "$cpu" '{name: "predict.steps", value: (map(select((.value - 1 | fabs) <= 0.1)) | length),
    unit: "of \(length)", against: "steps predicted within 10%", $cpu}' "$work/rows"
