#!/bin/bash
# Two stages on two cores, over real websockets, against one process with two threads: the same job
# trained in turn, the middle one of the ratios. With 16 micro-batches the schedule itself leaves a
# pipeline of two stages idle for 1 part in 17.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
if [ "$(nproc)" -lt 2 ]; then
    echo "bench_pipe: one core, nothing to compare" >&2
    exit 77
fi
layers=4 turns=3 training='steps: 6, batchSize: 256, microBatches: 16, maxSequenceLength: 32'
[ -z "${BENCH_SMOKE:-}" ] || { layers=1 turns=1 training='steps: 2, batchSize: 32, microBatches: 16, maxSequenceLength: 32'; }
job=$(mktemp --suffix=.yaml)
trap 'rm -f "$job"' EXIT
cat >"$job" <<E2
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: pipe}
spec:
  model: {preset: BertBase, layers: $layers, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {$training}
  placement: {minStages: 1, maxStages: 2}
E2
speed() { # speed WORKERS STAGES: tokens a second
    sed -i "s/minStages: .*/minStages: $2, maxStages: $2}/" "$job"
    "$out/bin/kubectl-skyjob" run -f "$job" --workers "$1" --data build/sample/mnli --json \
        2>/dev/null | jq .tokensPerSecond
}
for _ in $(seq $turns); do
    echo "$(speed cpu=1,cpu=1 2) $(speed cpu=2 1)"
done | awk -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" '
    { ratio[NR] = $1 / $2; print "bench_pipe: 2 stages", $1, "2 threads", $2, "tokens/s" >"/dev/stderr" }
    END {
        for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (ratio[j] < ratio[i]) {
            t = ratio[i]; ratio[i] = ratio[j]; ratio[j] = t
        }
        printf "{\"name\":\"pipe.two_stages\",\"value\":%.3f,\"unit\":\"x\",", ratio[int((NR + 1) / 2)]
        printf "\"against\":\"one process with two threads, 16 micro-batches, 4 layers of BERT-base\",\"cpu\":\"%s\"}\n", cpu
    }'
