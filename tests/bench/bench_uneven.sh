#!/bin/bash
# The plan that fits the nodes against the even one, trained for real: three workers at 1 : 2 : 4,
# the two plans in turn, and the middle one of the ratios.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/release}
workers=cpu=0.25,cpu=0.5,cpu=1
job=$(mktemp --suffix=.yaml)
trap 'rm -f "$job"' EXIT
cat >"$job" <<'E2'
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: uneven}
spec:
  model: {preset: BertMini, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training: {steps: 60, batchSize: 64, microBatches: 8, maxLength: 64}
  placement: {minStages: 3, maxStages: 3}
E2
speed() { # speed STRATEGY: tokens a second
    "$out/bin/kubectl-skyjob" run -f "$job" --workers $workers --data build/sample/mnli \
        --strategy "$1" --json 2>/dev/null | jq .tokensPerSecond
}
for _ in 1 2 3; do
    echo "$(speed Optimal) $(speed Even)"
done | awk -v cpu="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" '
    { ratio[NR] = $1 / $2; print "bench_uneven: Optimal", $1, "Even", $2, "tokens/s" >"/dev/stderr" }
    END {
        for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (ratio[j] < ratio[i]) {
            t = ratio[i]; ratio[i] = ratio[j]; ratio[j] = t
        }
        printf "{\"name\":\"uneven.optimal\",\"value\":%.3f,\"unit\":\"x\",", ratio[2]
        printf "\"against\":\"Even on the same workers, cpu 0.25 0.5 1, in turn\",\"cpu\":\"%s\"}\n", cpu
    }'
