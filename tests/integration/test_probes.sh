#!/bin/bash
# What is measured before a job is cut, by whom, and what is made of it.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/three_nodes.sh
. tests/support/three_nodes.sh

knows_links() { # knows_links NODE OTHER...: its probe has met the others
    local found other
    found=$(kubectl get node "$1" -o jsonpath='{.metadata.annotations.skyjob\.dev/probe}')
    echo "$found"
    for other in "${@:2}"; do [[ $found =~ \"node\":\"$other\",\"bytesPerSecond\":[1-9] ]] || return; done
}
to_the_end() {
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,2,4Gi' 'n2,1,2Gi' 'n3,500m,1Gi' # no speeds: measured
    job plain "$stages3" && completes plain || return
    [ "$(field plain '{.status.progress.step}')" = 60 ] && [ "$(field plain '{.status.progress.percentage}')" = 100 ] &&
        [ "$(field plain '{.status.state} {.status.revision} {.status.restarts}')" = 'Complete 1 0' ] &&
        field plain '{.status.progress.metrics[?(@.name=="accuracy")].value}' | has '^0\.' &&
        [ "$(field plain '{.status.stages[*].state}')" = 'Succeeded Succeeded Succeeded' ] &&
        field plain '{.status.stages[*].measuredMicroseconds}' | has -E '^[0-9]+ [0-9]+ [0-9]+$' &&
        is plain Accepted 'True SpecAccepted' && is plain Placed 'True PlanMade' && is plain Running 'False Finished' &&
        is plain Failed 'False NotFailed' && has_event TrainingFinished &&
        kubectl get nodes -L skyjob.dev/measured-gflops -o jsonpath='{.items[*].metadata.labels.skyjob\.dev/measured-gflops}' | has -E '^[0-9.]+ [0-9.]+ [0-9.]+$' &&
        knows_links n1 n2 n3 && knows_links n2 n1 n3 && knows_links n3 n1 n2
}
probes_of() { grep '"msg":"created"' "$dir/operator.log" | grep -c "\"name\":\"$1-[0-9a-f]*-probe-"; } # pods
marks() { kubectl "$1" nodes --overwrite "${@:2}" >/dev/null; }
# What this machine's other work makes of measurements is not what the next checks are about: speeds
# follow the nodes' CPU from now on, and no training has contradicted them.
settle_marks() {
    local node mark
    for node in n1 n2 n3; do
        mark=$(kubectl get node $node -o jsonpath='{.metadata.annotations.skyjob\.dev/probe}' | jq -c '.found.gflops = .cpuMilli') &&
            kubectl annotate node $node --overwrite "skyjob.dev/probe=$mark" skyjob.dev/probe-contradicted- >/dev/null || return
    done
}
measures_once() { # the next job believes what the first one left, until the node is another
    settle_marks
    job again "$stages3" && completes again && [ "$(probes_of again)" = 0 ] || return
    kubectl patch node n3 --subresource=status --type merge -p '{"status":{"allocatable":{"cpu":"400m"}}}' >/dev/null
    settle_marks
    job other "$stages3" && completes other && [ "$(probes_of other)" = 1 ] &&
        kubectl get node n3 -o jsonpath='{.metadata.annotations.skyjob\.dev/probe}' | grep '"for":{"cpuMilli":400,'
}
measures_on_command() {
    settle_marks
    "$OUT/bin/kubectl-skyjob" nodes >"$dir/text"
    cat "$dir/text"
    grep -E '^n3 +yes +[0-9.]+ +1\.0Gi +0\.[45] +[0-9]+[smh] +$' "$dir/text" && "$OUT/bin/kubectl-skyjob" nodes --measure n3 &&
        "$OUT/bin/kubectl-skyjob" nodes | grep -E '^n3 +yes +unknown' &&
        job commanded "$stages3" && completes commanded && [ "$(probes_of commanded)" = 1 ] && "$OUT/bin/kubectl-skyjob" nodes | grep -E '^n3 +yes +[0-9.]+ '
}
same_measured() { # speeds, lengths, pace and links from probes: the same plan, to the millisecond
    local file=$dir/measured.yaml
    settle_marks
    job alike "$stages3" && completes alike && [ "$(probes_of alike)" = 0 ] && kubectl get sj alike -o yaml >"$file" || return
    kubectl delete sj alike >/dev/null && until_true 20 no_pods
    settle_marks
    "$OUT/bin/kubectl-skyjob" plan -f "$file" -o json >"$dir/text" || return
    jq -r '.stages[].node, .predictedStepMilliseconds' "$dir/text"
    grep -E '^    (nodes|predictedStepMilliseconds): ' "$file"
    [ "$(jq -r '[.stages[].node] | join(",")' "$dir/text")" = "$(sed -n 's/^    nodes: //p' "$file")" ] &&
        [ "$(jq '.predictedStepMilliseconds | round' "$dir/text")" = "$(sed -n 's/^    predictedStepMilliseconds: //p' "$file")" ]
}
probe_volumes() { # probe_volumes JOB: each probe's claim and mount, a line each
    kubectl get pods -l "skyjob.dev/job=$1,skyjob.dev/role=probe" \
        -o 'jsonpath={range .items[*]}{.spec.volumes[?(@.name=="data")].persistentVolumeClaim.claimName} {.spec.containers[0].volumeMounts[?(@.name=="data")].readOnly}{"\n"}{end}'
}
probes_share() { [ "$(probe_volumes shares | grep -c '^shared true$')" = 3 ]; }
measures_claims() { # a probe reads a volume that any node can mount, and leaves alone one that is for a single node
    local reason='{.status.placement.explanation}'
    claim shared ReadWriteMany && source='persistentVolumeClaim: {claimName: shared, path: nli}' job shares "$stages3" || return
    until_true 20 probes_share && completes shares && field shares "$reason" &&
        ! field shares "$reason" | grep guess && kubectl get node n1 -o jsonpath='{.metadata.annotations}' | has 'lengths..:{..mean..:[1-9]' || return
    claim single ReadWriteOnce && source='persistentVolumeClaim: {claimName: single, path: nli}' job alone "$stages3" && completes alone &&
        ! probe_volumes alone | grep single && field alone "$reason" | grep 'Lengths are a guess: sequences are assumed to have 39 tokens'
}
measures_always() {
    marks label n1 n2 n3 skyjob.dev/gflops=999 && job always "${stages3/\}/, probePolicy: Always\}}" && completes always &&
        [ "$(probes_of always)" = 3 ] && ! field always '{.status.placement.explanation}' | grep 'at 999 GFLOP/s' || return
    job declared "$stages3" && completes declared && [ "$(probes_of declared)" = 0 ] &&
        field declared '{.status.placement.explanation}' | grep '999 GFLOP/s' && marks label n1 n2 n3 skyjob.dev/gflops-
}
yields() { # while probes run, any other pod may have their place
    job yields "${stages3/\}/, probePolicy: Always\}}" && until_true 20 probes_yield && completes yields
}
probes_yield() {
    [ "$(kubectl get pods -l skyjob.dev/job=yields,skyjob.dev/role=probe -o jsonpath='{.items[0].spec.priority} {.items[0].spec.preemptionPolicy}')" = '-1000000000 Never' ]
}
measures_never() {
    marks annotate n1 n2 n3 skyjob.dev/probe- && job never "${stages3/\}/, probePolicy: Never\}}" && completes never &&
        [ "$(probes_of never)" = 0 ] && field never '{.status.placement.explanation}' | grep '^3 of 3 nodes were never measured'
}
bad_annotations() { # invalid figures are not used, and reported with node and text
    marks label n1 skyjob.dev/gflops=inf && marks annotate n2 skyjob.dev/gflops=-3 && marks label n3 skyjob.dev/gflops=1e300 &&
        job invalid "$stages3" && completes invalid && [ "$(probes_of invalid)" = 3 ] &&
        has_event 'InvalidNodeAnnotation: .*node n1: skyjob.dev/gflops: "inf" is not a number.* 3 nodes have invalid annotations' || return
    settle_marks && marks label n1 n3 skyjob.dev/gflops- && marks annotate n2 skyjob.dev/gflops='12 GFLOPS' && job unit "$stages3" && completes unit &&
        [ "$(probes_of unit)" = 0 ] && has_event 'InvalidNodeAnnotation: .*node n2: skyjob.dev/gflops: "12 GFLOPS" is not a number' &&
        marks annotate n2 skyjob.dev/gflops-
}
probe_name() { # probe_name JOB NODE: with the hash of api/names.c
    local i h=$((0xcbf29ce484222325))
    for ((i = 0; i < ${#2}; i++)); do h=$(((h ^ $(printf %d "'${2:i:1}")) * 0x100000001b3)); done
    printf '%s-probe-%08x' "$(prefix "$1")" $((h & 0xffffffff))
}
measured() { kubectl get node "$1" -o jsonpath='{.metadata.labels.skyjob\.dev/measured-gflops}'; }
fake_probes() { # while nobody measures, and in the place of one that is due
    local status role='skyjob.dev/role: probe'
    status=$(ended Succeeded 0 '{\"gflops\":99999,\"unitMs\":0.1,\"threads\":1}')
    marks annotate n1 skyjob.dev/probe- && marks label n1 skyjob.dev/measured-gflops-
    job waits '  placement: {minStages: 9, maxStages: 9, probePolicy: Never}' && until_true 20 is waits Placed 'False InsufficientNodes' &&
        fake waits "$(probe_name waits n1)" "$role" "$status" && sleep 2 && [ -z "$(measured n1)" ] || return
    kubectl delete sj waits >/dev/null && until_true 20 no_pods && kill_operator KILL
    job measures "${stages3/\}/, probePolicy: Always\}}" && fake measures "$(probe_name measures n1)" "$role" "$status" && start_operator &&
        completes measures && has_event "NameTaken: Pod $(probe_name measures n1) is not the probe" || return
    measured n1
    [[ $(measured n1) =~ ^[0-9.]+$ ]] && [[ $(measured n1) != 99999* ]]
}

start_three_nodes || exit 1
check 'a job on nodes of unknown speed measures them and completes' to_the_end
check 'a node is measured once, and again when it has changed' measures_once
check 'a node is measured again on command' measures_on_command
check 'a plan made on the command line takes what probes have measured' same_measured
check 'probes read data in a claim that any node can read, and no other' measures_claims
check 'with probe Always nodes are measured whatever is declared' measures_always
check 'probes have a priority below everything else' yields
check 'with probe Never nodes are judged by their CPU, and the plan says so' measures_never
check 'invalid declared figures are not used, and reported' bad_annotations
check 'a fake probe does not get its figures onto a node' fake_probes
tap_end
