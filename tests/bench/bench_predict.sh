#!/bin/bash
# What the planner predicts against what training takes, on the models of manifests/samples with the
# sample's data: the stage of a lone worker under three limits, then a step of ten configurations of
# two to four workers, as uneven as 1:6. Limits add up to less than the two cores that it needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
out=${OUT:-build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)

job() { # job MODEL N_STAGES
    local spec
    case $1 in
    mnli) spec='  model: {preset: BertTiny, layers: 3, heads: 16, feedForwardSize: 64, vocabSize: 256, maxPositions: 64}
  training: {steps: 60, batchSize: 128, microBatches: 8, maxLength: 64, dropout: "0"}' ;;
    finetune) spec='  model: {preset: BertBase}
  training: {steps: 5, batchSize: 32, microBatches: 8, maxLength: 128}' ;;
    esac
    cat <<E2
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: predict}
spec:
$spec
  data: {task: MNLI, source: {sample: MNLI}}
  placement: {minStages: $2, maxStages: $2}
E2
}
run() { # run MODEL STRATEGY CPU...: the result as JSON
    local model=$1 strategy=$2 workers
    shift 2
    job "$model" $# >"$work/job.yaml"
    workers=$(printf ',cpu=%s' "$@")
    "$out/bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "${workers#,}" \
        --data build/sample/mnli --strategy "$strategy" --json 2>"$work/log" || {
        cat "$work/log" >&2
        return 1
    }
}
row() { # row NAME PREDICTED MEASURED WHAT
    jq -cn --arg name "predict.$1" --argjson p "$2" --argjson m "$3" --arg what "$4" --arg cpu "$cpu" \
        '{name: $name, value: ($p / $m * 1000 | round / 1000), unit: "x", against:
            "\($what): predicted \($p * 10 | round / 10) ms, measured \($m * 10 | round / 10)", cpu: $cpu}'
}
stage() { # stage MODEL CPU
    run "$1" Optimal "$2" >"$work/result"
    row "stage.$1.$2" "$(jq '.stages[0].predictedMs' "$work/result")" \
        "$(jq '.stages[0].measuredMs' "$work/result")" "a micro-batch on a lone worker"
}
step() { # step MODEL STRATEGY CPU...
    run "$@" >"$work/result"
    row "step.$1.$2.$(IFS=- && echo "${*:3}")" "$(jq .predictedStepMs "$work/result")" \
        "$(jq .stepMs "$work/result")" "a step" | tee -a "$work/steps"
}

for share in 0.25 0.5 1; do
    stage mnli $share
done
stage finetune 1
step mnli Optimal 0.75 0.75
step mnli Even 0.25 0.75
step mnli Optimal 0.2 0.4 0.8
step mnli Even 0.2 0.4 0.8
step mnli Optimal 0.15 0.45 0.9
step mnli Optimal 0.1 0.2 0.3 0.6
step finetune Optimal 0.75 0.75
step finetune Even 0.6 0.8
step finetune Optimal 0.2 0.4 0.8
step finetune Optimal 0.15 0.3 0.3 0.9
jq -cs --arg cpu "$cpu" '{name: "predict.within", value: (map(select(.value >= 0.9 and .value <= 1.1)) | length),
    unit: "of \(length)", against: "steps predicted within 10%", cpu: $cpu}' "$work/steps"
