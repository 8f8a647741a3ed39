#!/bin/bash
# What probes and the planner predict against what training takes, on the models of manifests/samples
# with the sample's data: a block in a lone worker under limits of 0.25 to 2 cores, then a step of ten
# configurations of two to four workers, as uneven as 1:6, whose limits add up to less than the two
# cores it needs.
#
# A row plans and trains TURNS times with the same cut, a lone worker three times as often. Each time
# the workers are measured anew, so there are as many predictions as runs, and a run tells the mean of
# its fastest stretch of 1.5 s. The best of each are compared: whatever else a machine does only ever
# slows it down, for seconds and by up to a third, and meets the one or the other. How far they were
# apart is said, too.
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
    mnli) spec="  model: {preset: BertTiny, layers: 3, heads: 16, feedForwardSize: 64, vocabSize: 256, maxPositions: 64}
  training: {steps: $3, batchSize: 128, microBatches: 8, maxLength: 64, dropout: \"0\"}" ;;
    finetune) spec="  model: {preset: BertBase}
  training: {steps: $3, batchSize: 32, microBatches: 8, maxLength: 128}" ;;
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
row() { # row WHAT MODEL STEPS STRATEGY CPU...: of a step, or of a lone worker's block
    local what=$1 model=$2 steps=$3 strategy=$4 turns=${TURNS:-3}
    shift 4
    [ "$what" != block ] || turns=$((3 * turns))
    rm -f "$work/results"
    job "$model" "minStages: $#, maxStages: $#" "$steps" >"$work/job.yaml"
    skyjob "$strategy" "$@"
    job "$model" "strategy: Manual, stages: $(jq -c '[.stages[] | {units, node}]' "$work/results")" "$steps" >"$work/job.yaml"
    for _ in $(seq 2 "$turns"); do skyjob Manual "$@"; done
    jq -cs --arg what "$what" --arg name "predict.$what.$model.$strategy.$(IFS=- && echo "$*")" --arg cpu "$cpu" '
        def apart: (max / min - 1) * 100 | round;
        def ms: . * 100 | round / 100;
        (if $what == "block" then [.[] | {p: .nodes[0].blockMs, m: .bestBlockMs}]
         else [.[] | {p: .predictedStepMs, m: .bestStepMs}] end) |
        map(.p) as $p | map(.m) as $m |
        {$name, value: (($p | min) / ($m | min) * 1000 | round / 1000), unit: "x", against:
            "a \($what): predicted \($p | min | ms) ms (\($p | apart)% apart), measured \($m | min | ms) (\($m | apart)%)", $cpu}
        ' "$work/results"
}
count() { # count NAME SHARE FILE WHAT: how many rows of the file are within that share of 1
    jq -cs --arg name "predict.$1" --argjson share "$2" --arg what "$4" --arg cpu "$cpu" '{$name,
        value: (map(select((.value - 1 | fabs) <= $share)) | length), unit: "of \(length)",
        against: "\($what) predicted within \($share * 100)%", $cpu}' "$3"
}

# Steps enough for some stretches of 1.5 s.
{
    row block mnli 16 Optimal 0.25
    row block mnli 30 Optimal 0.5
    row block mnli 50 Optimal 1
    row block mnli 75 Optimal 2
    row block finetune 3 Optimal 1
    row block finetune 4 Optimal 2
} | tee "$work/blocks"
{
    row step mnli 150 Optimal 0.75 0.75
    row step mnli 60 Even 0.25 0.75
    row step mnli 150 Optimal 0.2 0.4 0.8
    row step mnli 80 Even 0.2 0.4 0.8
    row step mnli 150 Optimal 0.15 0.45 0.9
    row step mnli 120 Optimal 0.1 0.2 0.3 0.6
    row step finetune 4 Optimal 0.75 0.75
    row step finetune 4 Even 0.6 0.8
    row step finetune 4 Optimal 0.2 0.4 0.8
    row step finetune 4 Optimal 0.15 0.3 0.3 0.9
} | tee "$work/steps"
count block 0.05 "$work/blocks" "blocks of a lone worker"
count steps 0.1 "$work/steps" "steps of several workers"
