#!/bin/bash
# `kubectl-skyjob plan --nodes`: what it prints and with what it exits. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
bin=${OUT:-build/release}/bin
work=$(mktemp -d)
at_exit "rm -rf $work"
job() { # job FILE [LINE...]: a job with these lines in its spec
    local file=$1
    shift
    printf '%s\n' 'apiVersion: skyjob.dev/v1alpha1' 'kind: SkyJob' 'metadata: {name: base}' 'spec:' \
        '  model: {preset: BertBase}' '  data: {task: MNLI, source: {sample: MNLI}}' "$@" >"$work/$file"
}
node() { # node NAME GFLOPS MEMORY
    printf -- '- {kind: Node, metadata: {name: %s, labels: {skyjob.dev/gflops: "%s"}}, ' "$1" "$2"
    printf 'status: {allocatable: {cpu: "2", memory: %s}}}\n' "$3"
}
nodes() { # nodes FILE MEMORY
    { echo 'kind: List'; echo 'items:'; node slow 25 "$2"; node middle 50 "$2"; node fast 100 "$2"; } >"$work/$1"
}
plan() { # plan CODE WORDS ARGUMENT...
    local code=$1 words=$2 out rc
    shift 2
    out=$(timeout 60 "$bin/kubectl-skyjob" plan "$@" 2>&1)
    rc=$?
    echo "exit $rc: $out"
    [ "$rc" -eq "$code" ] && grep -q -- "$words" <<<"$out"
}
job job.yaml
job manual.yaml '  placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 6, node: fast}, {layers: 6, node: slow}]}]}}'
job stranger.yaml '  placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 6, node: fast}, {layers: 6, node: x}]}]}}'
job two.yaml '  training: {microBatches: 2}'
job auto.yaml '  replicas: Auto'
nodes nodes.yaml 4Gi
nodes small.yaml 600Mi
j=(-f "$work/job.yaml")

check 'a plan is explained to people' plan 0 'one fewer' "${j[@]}" --nodes "$work/nodes.yaml"
check 'the number of replicas is chosen, and others are compared' plan 0 'instead .*2 replicas of ' -f "$work/auto.yaml" --nodes "$work/nodes.yaml"
check 'a plan is explained as YAML' plan 0 '^predictedStepMilliseconds: ' "${j[@]}" --nodes "$work/nodes.yaml" -o yaml
# The slow node would gain less than its messages are sure to cost.
faster() { [ "$("$bin/kubectl-skyjob" plan "${j[@]}" --nodes "$work/nodes.yaml" -o json |
    jq '.gap < 0.02 and (.alternatives[] | select(.strategy == "Even") | .stepMilliseconds) > 1.8 * .predictedStepMilliseconds and (.stages | length) == 2')" = true ]; }
check 'a plan is explained as JSON: within 2% of the optimum, and nearly twice as fast as Even' faster
check 'a number of micro-batches that is left open is told, and who chose it' \
    plan 0 '^batch .* sequences in [0-9]* micro-batch.*, chosen by the planner$' "${j[@]}" --nodes "$work/nodes.yaml"
check 'one that the job names is told as such' \
    plan 0 '^batch .* in 2 micro-batches of .*, set by the job$' -f "$work/two.yaml" --nodes "$work/nodes.yaml"
chosen() { [ "$("$bin/kubectl-skyjob" plan -f "$work/$1" --nodes "$work/nodes.yaml" -o json |
    jq -c '[.microBatches > 0, .microBatches == 2, .microBatchesChosen]')" = "$2" ]; }
check 'JSON holds the number that was chosen' chosen job.yaml '[true,false,true]'
check 'and the one that was asked for' chosen two.yaml '[true,true,false]'
from_pipe() { plan 0 'bottleneck' "${j[@]}" --nodes - <"$work/nodes.yaml"; }
check 'nodes can come from a pipe' from_pipe
sed 's/skyjob.dev.gflops/skyjob.dev\/link-mbit: "1", &/' "$work/nodes.yaml" >"$work/far.yaml"
stays() { [ "$("$bin/kubectl-skyjob" plan "${j[@]}" --nodes "$work/far.yaml" -o json | jq '.stages | length')" = 1 ]; }
check 'a network that is declared to be slow keeps the model on one node' stays
job alone.yaml $'  replicas: Auto\n  sync: {protocol: Local, localSteps: 100000}'
check 'but not if replicas that train alone are allowed' plan 0 'ms predicted, Optimal; .* ms in step' -f "$work/alone.yaml" --nodes "$work/far.yaml"
check 'a manual plan is obeyed' plan 0 '^1 .*slow.*attention 6 to head' -f "$work/manual.yaml" --nodes "$work/nodes.yaml"
check 'memory that is missing is exit 1, with stage, MiB and node' \
    plan 1 'stage [0-9] (.*) lacks [0-9]* MiB on' "${j[@]}" --nodes "$work/small.yaml"
check 'a manual stage that does not fit is exit 1' \
    plan 1 'gives stage 0 (.*) to node fast, which lacks [0-9]* MiB' -f "$work/manual.yaml" --nodes "$work/small.yaml"
check 'a manual node that is not there is exit 1' plan 1 'stages\[1\].node' -f "$work/stranger.yaml" --nodes "$work/nodes.yaml"
sed 's/kind: Node,/kind: Node, spec: {unschedulable: true},/' "$work/nodes.yaml" >"$work/closed.yaml"
check 'nodes that are all cordoned are exit 1' \
    plan 1 '^excluded *fast: *cordoned' "${j[@]}" --nodes "$work/closed.yaml"
check 'a file of nodes that is not there is exit 2' plan 2 none.yaml "${j[@]}" --nodes "$work/none.yaml"
check 'a job that is not there is exit 2' plan 2 none.yaml -f "$work/none.yaml" --nodes "$work/nodes.yaml"
check 'another format is exit 2' plan 2 'json or yaml' "${j[@]}" --nodes "$work/nodes.yaml" -o xml
check 'two kinds of nodes are exit 2' plan 2 'not both' "${j[@]}" --nodes "$work/nodes.yaml" --workers cpu=1
check 'no cluster is exit 2' plan 2 'none.yaml' "${j[@]}" --kubeconfig "$work/none.yaml"
check 'Manual without stages is exit 2' plan 2 'Manual needs' "${j[@]}" --nodes "$work/nodes.yaml" --strategy Manual
helps() { # on stdout, about the verb, exit 0
    local verb out
    for verb in run plan status version help; do
        for out in "$("$bin/kubectl-skyjob" "$verb" --help 2>&1 >"$work/help"; echo $?)" \
            "$("$bin/kubectl-skyjob" "$verb" -f "$work/job.yaml" -h 2>&1 >"$work/help"; echo $?)"; do
            echo "$verb: $out"
            [ "$out" = 0 ] && grep -q "kubectl-skyjob $verb" "$work/help" && [ "$(grep -c '^  kubectl-skyjob [a-z]' "$work/help")" -le 3 ] || return
        done
    done
    "$bin/kubectl-skyjob" help plan | has -- --nodes
}
check '--help works after every command' helps
no_empty_list() { ! "$bin/kubectl-skyjob" plan "${j[@]}" --nodes "$work/nodes.yaml" -o yaml | grep 'excludedNodes: \[\]'; }
check 'a list that is empty is not printed' no_empty_list
tap_end
