#!/bin/bash
# How much of the exchange between two replicas is hidden behind computation: a step of two replicas, against a step
# of two jobs that each compute one replica's share alone, and against a step that has next to nothing to compute.
#
#   hidden = 1 - (step of the replicas - step alone) / step of the exchange
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
if [ "$(nproc)" -lt 2 ]; then
    echo "bench_exchange: one core, nothing to compare" >&2
    exit 77
fi
turns=3 steps=60 batch=64 preset=BertMini
[ -z "${BENCH_SMOKE:-}" ] || turns=1 steps=4 batch=8 preset=BertTiny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
job() { # job FILE REPLICAS BATCH MICRO_BATCHES
    cat >"$work/$1" <<E2
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: exchange}
spec:
  model: {preset: $preset, vocabSize: 3000, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  replicas: $2
  placement: {minStages: 1, maxStages: 1}
  checkpoint: {mode: Never}
  training: {steps: $steps, batchSize: $3, microBatches: $4, maxSequenceLength: 32, evaluateEverySteps: $steps}
E2
}
step_ms() { # step_ms FILE WORKERS
    "$out/bin/kubectl-skyjob" run -f "$work/$1" --workers "$2" --data build/sample/mnli --json 2>/dev/null | jq .stepMilliseconds
}
job both 2 "$batch" 8
job alone 1 $((batch / 2)) 4
job empty 2 2 2
for _ in $(seq $turns); do
    both=$(step_ms both cpu=1,cpu=1)
    step_ms alone cpu=1 >"$work/other" &
    alone=$(step_ms alone cpu=1)
    wait
    echo "$both $alone $(cat "$work/other") $(step_ms empty cpu=1,cpu=1)"
done | awk -v preset=$preset -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" '
    { alone = $2 > $3 ? $2 : $3; hidden[NR] = 1 - ($1 - alone) / $4
      print "bench_exchange: a step", $1, "ms, of one replica alone", alone, "ms, of the exchange", $4, "ms" >"/dev/stderr" }
    END {
        for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (hidden[j] < hidden[i]) {
            t = hidden[i]; hidden[i] = hidden[j]; hidden[j] = t
        }
        printf "{\"name\":\"exchange.hidden\",\"value\":%.3f,\"unit\":\"share\",", hidden[int((NR + 1) / 2)]
        printf "\"against\":\"all of the exchange of two replicas of %s on one machine, BSP\",\"cpu\":\"%s\"}\n", preset, cpu
    }'
