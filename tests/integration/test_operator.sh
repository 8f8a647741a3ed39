#!/bin/bash
# The operator against a real API server, with the real worker: jobs to their end, and everything
# that may go wrong on the way. tests/support/agent.c stands in for scheduler and kubelet and runs
# every pod as a process.
#
#   OUT=build/release tests/integration/test_operator.sh [WORD...]    only checks that name a WORD
#   OPERATOR=build/asan/bin/skyjob-operator    another build of it
#   FAULTS=after, FAULTS='after 2 POST pods'   of 'the operator may die ...' and 'events may come twice': at every call or event, or only there
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
# shellcheck source=tests/support/bucket.sh
. tests/support/bucket.sh
tap_only=("$@")

finish() {
    bucket_stop
    operator_finish
}
at_exit finish

after_failure() { { kubectl get sj,pods -A -o wide; tail -n 25 "$dir/operator.log"; } | cut -c1-400; }
after_check() { # no check leaves anything to the next
    kubectl delete sj --all --wait=false >/dev/null
    until_true 20 no_pods
}
# --- what is checked ---
refused() { # refused FIELD SPEC [NAME]: the API server says no, and names the field
    local text
    if text=$(printf 'apiVersion: skyjob.dev/v1alpha1\nkind: SkyJob\nmetadata: {name: %s}\nspec: %s\n' "${3:-bad}" "$2" |
        kubectl create --dry-run=server -f - 2>&1); then
        echo "accepted: $2"
        return 1
    fi
    case $text in *"$1"*) ;; *) echo "$1 is not in: $text"; return 1 ;; esac
}
bad_specs() {
    local d='data: {source: {sample: MNLI}}' x='source: {configMap: {name: x}}' one='stages: [{layers: 4}]'
    local claim='persistentVolumeClaim: {claimName: a}' && local place="output: {$claim}, checkpoint: {store: {$claim}}"
    refused spec.data '{}' &&
        refused spec.data.source "{data: {source: {}}}" &&
        refused spec.data.source '{data: {source: {sample: MNLI, configMap: {name: x}}}}' &&
        refused spec.data.source.configMap.name '{data: {source: {configMap: {name: ../x}}}}' &&
        refused spec.data.source.persistentVolumeClaim.path '{data: {source: {persistentVolumeClaim: {claimName: a, path: ../b}}}}' &&
        refused spec.training.batchSize "{$d, training: {batchSize: 30, microBatches: 8}}" &&
        refused spec.training.batchSize "{$d, training: {batchSize: 0}}" &&
        refused spec.training.microBatches "{$d, training: {microBatches: '8'}}" &&
        refused spec.training.maxSequenceLength "{$d, training: {maxSequenceLength: 128}, model: {maxPositions: 64}}" &&
        refused spec.training.optimizer.learningRate "{$d, training: {optimizer: {learningRate: 1e999}}}" &&
        refused spec.training.optimizer.learningRate "{$d, training: {optimizer: {learningRate: \"NaN\"}}}" &&
        refused spec.training.optimizer.learningRate "{$d, training: {optimizer: {learningRate: \"-1\"}}}" &&
        refused spec.training.optimizer.type "{$d, training: {optimizer: {type: Adam}}}" &&
        refused spec.training.nonFinitePolicy "{$d, training: {nonFinitePolicy: Ignore}}" &&
        refused spec.data.task '{data: {task: SQuAD, source: {configMap: {name: x}}}}' &&
        refused spec.data.labels "{data: {task: Classification, columns: {text: a, label: b}, labels: [x, y, x], source: {configMap: {name: x}}}}" &&
        refused spec.model.from.persistentVolumeClaim.claimName "{$d, model: {from: {persistentVolumeClaim: {}}}}" &&
        refused spec.model.from.persistentVolumeClaim.path "{$d, model: {from: {persistentVolumeClaim: {claimName: a, path: /b}}}}" &&
        refused spec.training.dropout "{$d, training: {dropout: \"1\"}}" &&
        refused spec.model.hiddenSize "{$d, model: {hiddenSize: 769, attentionHeads: 12}}" &&
        refused spec.model.layers "{$d, model: {layers: 1000000000}}" &&
        refused spec.placement.minStages "{$d, placement: {minStages: 4, maxStages: 3}}" &&
        refused spec.replicas "{$d, replicas: 9}" &&
        refused spec.replicas "{$d, replicas: Many}" &&
        refused spec.replicas "{$d, replicas: 3, training: {batchSize: 2}}" &&
        refused spec.replicas "{$d, replicas: Auto, placement: {strategy: Manual, manual: {replicas: [{$one}]}}}" &&
        refused spec.sync.protocol "{$d, sync: {protocol: ASP}}" &&
        refused spec.sync "{$d, replicas: 2, sync: {protocol: Switch}}" &&
        refused spec.sync "{$d, replicas: 2, sync: {protocol: BSP, switchAfterSteps: 9}}" &&
        refused spec.sync "{$d, replicas: 2, sync: {protocol: Switch, switchAfterSteps: 9, switchAfterPercent: 9}}" &&
        refused spec.sync "{$d, replicas: 2, sync: {protocol: ASP, localSteps: 9}}" &&
        refused spec.sync.stragglers "{$d, sync: {stragglers: Greedy}}" &&
        refused spec.sync.stragglers "{$d, replicas: 2, sync: {protocol: Local, stragglers: Elastic}}" &&
        refused spec.sync.maxStaleness "{$d, replicas: 2, sync: {protocol: Local, maxStaleness: 9}}" &&
        refused spec.sync.gradientPercent "{$d, replicas: 2, sync: {protocol: Local, gradientPercent: 9}}" &&
        refused spec.sync.gradientPercent "{$d, sync: {gradientPercent: 9}}" &&
        refused spec.sync.gradientPercent "{$d, replicas: 2, sync: {gradientPercent: 51}}" &&
        refused spec.sync.switchTo "{$d, replicas: 2, sync: {protocol: Local, switchTo: ASP}}" &&
        refused spec.sync.outerMomentum "{$d, replicas: 2, sync: {protocol: Local, outerMomentum: \"1\"}}" &&
        refused spec.placement.headroomPercent "{$d, placement: {headroomPercent: 401}}" &&
        refused spec.placement.strategy "{$d, placement: {strategy: Best}}" &&
        refused spec.placement.strategy "{$d, placement: {strategy: Manual}}" &&
        refused spec.placement.strategy "{$d, placement: {manual: {replicas: [{stages: [{layers: 4}]}]}}}" &&
        refused spec.placement.manual.replicas "{$d, placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 1, units: 2}]}]}}}" &&
        refused 'must all have layers' "{$d, placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 2}, {units: 6}]}]}}}" &&
        refused spec.placement.manual "{$d, placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 3}]}]}}}" &&
        refused spec.placement.manual "{$d, model: {preset: BertBase}, placement: {strategy: Manual, manual: {replicas: [{$one}]}}}" &&
        refused spec.placement.manual "{$d, model: {layers: 6}, placement: {strategy: Manual, manual: {replicas: [{stages: [{layers: 4}, {layers: 4}]}]}}}" &&
        refused spec.checkpoint.store "{$d, checkpoint: {store: {}}}" &&
        refused spec.checkpoint.store "{$d, checkpoint: {store: {peers: {}, persistentVolumeClaim: {claimName: a}}}}" &&
        refused spec.checkpoint.store "{$d, checkpoint: {store: {peers: {}, s3: {bucket: abc, credentialsSecret: a}}}}" &&
        refused spec.checkpoint.store.s3.bucket "{$d, checkpoint: {store: {s3: {bucket: a/b, credentialsSecret: a}}}}" &&
        refused credentialsSecret "{$d, checkpoint: {store: {s3: {bucket: abc}}}}" &&
        refused spec.checkpoint.store.s3.endpoint "{$d, checkpoint: {store: {s3: {bucket: abc, credentialsSecret: a, endpoint: host}}}}" &&
        refused spec.checkpoint.store.s3.prefix "{$d, checkpoint: {store: {s3: {bucket: abc, credentialsSecret: a, prefix: /a}}}}" &&
        refused spec.checkpoint.store.persistentVolumeClaim.path "{$d, checkpoint: {store: {persistentVolumeClaim: {claimName: a, path: /b}}}}" &&
        refused spec.resumeFrom.job "{$d, checkpoint: {store: {$claim}}, resumeFrom: {}}" &&
        refused spec.resumeFrom.job "{$d, checkpoint: {store: {$claim}}, resumeFrom: {job: ../b}}" &&
        refused 'spec.resumeFrom needs spec.checkpoint.store' "{$d, checkpoint: {store: {peers: {}}}, resumeFrom: {job: b}}" &&
        refused 'spec.resumeFrom needs spec.checkpoint.store' "{$d, resumeFrom: {job: b}}" &&
        refused spec.checkpoint.everySteps "{$d, checkpoint: {everySteps: 5, everySeconds: 60}}" &&
        refused spec.training.keepBest "{$d, $place, training: {evaluateEverySteps: 5, keepBest: f1x}}" &&
        refused 'need spec.training.evaluateEverySteps' "{$d, $place, training: {keepBest: accuracy}}" &&
        refused 'need spec.training.evaluateEverySteps' "{$d, training: {steps: 0, evaluateEverySteps: 5, earlyStopping: {patience: 2}}}" &&
        refused 'must be metrics of the task' "{$d, $place, training: {evaluateEverySteps: 5, keepBest: f1}}" &&
        refused 'must be metrics of the task' "{$d, training: {evaluateEverySteps: 5, earlyStopping: {patience: 2, metric: pearson}}}" &&
        refused spec.training.earlyStopping.metric "{$d, $place, training: {evaluateEverySteps: 5, keepBest: accuracy, earlyStopping: {patience: 2, metric: evalLoss}}}" &&
        refused spec.training.earlyStopping.patience "{$d, training: {evaluateEverySteps: 5, earlyStopping: {patience: 0}}}" &&
        refused spec.training.earlyStopping.patience "{$d, training: {evaluateEverySteps: 5, earlyStopping: {metric: accuracy}}}" &&
        refused spec.training.keepBest "{$d, output: {persistentVolumeClaim: {claimName: a}}, training: {evaluateEverySteps: 5, keepBest: accuracy}}" &&
        refused 'that all workers share' "{$d, output: {persistentVolumeClaim: {claimName: a}}, checkpoint: {store: {peers: {}}}, training: {evaluateEverySteps: 5, keepBest: accuracy}}" &&
        refused spec.output "{$d, output: {}}" &&
        refused spec.output.persistentVolumeClaim.claimName "{$d, output: {persistentVolumeClaim: {claimName: A}}}" &&
        refused spec.output.persistentVolumeClaim.path "{$d, output: {persistentVolumeClaim: {claimName: a, path: a/../..}}}" &&
        refused spec.data.source.persistentVolumeClaim.claimName '{data: {source: {persistentVolumeClaim: {claimName: a/b}}}}' &&
        refused spec.data.maskProbability '{data: {maskProbability: "0", source: {sample: MNLI}}}' &&
        refused spec.training.maxGradientNorm "{$d, training: {maxGradientNorm: \"1e7\"}}" &&
        refused spec.training.optimizer.weightDecay "{$d, training: {optimizer: {weightDecay: \"1.1\"}}}" &&
        refused spec.training.optimizer.momentum "{$d, training: {optimizer: {type: SGD, momentum: \"1.1\"}}}" &&
        refused spec.training.optimizer.beta1 "{$d, training: {optimizer: {beta1: \"1\"}}}" &&
        refused spec.model.from "{$d, model: {preset: BertTiny, from: {}}}" &&
        refused spec.model.hiddenSize "{$d, model: {preset: BertTiny, hiddenSize: 129}}" &&
        refused spec.model.hiddenSize "{$d, model: {attentionHeads: 3}}" &&
        refused spec.training.maxSequenceLength "{$d, training: {maxSequenceLength: 513}}" &&
        refused spec.training.microBatches "{$d, training: {microBatches: 0}}" &&
        refused spec.training.steps "{$d, training: {steps: 10, epochs: 1}}" &&
        refused spec.training.activations "{$d, training: {activations: Drop}}" &&
        refused spec.training.optimizer.momentum "{$d, training: {optimizer: {momentum: \"0.9\"}}}" &&
        refused 'beta1, beta2 and epsilon belong to AdamW' "{$d, training: {optimizer: {type: SGD, beta1: \"0.9\"}}}" &&
        refused spec.training.optimizer.beta2 "{$d, training: {optimizer: {beta2: \"1\"}}}" &&
        refused spec.training.optimizer.epsilon "{$d, training: {optimizer: {epsilon: \"0\"}}}" &&
        refused spec.training.optimizer.warmupRatio "{$d, training: {optimizer: {warmupRatio: \"2\"}}}" &&
        refused spec.data.files.dev '{data: {files: {dev: a/b}, source: {sample: MNLI}}}' &&
        refused spec.data.files.test '{data: {files: {test: ..}, source: {sample: MNLI}}}' &&
        refused spec.data.columns '{data: {columns: {text: a}, source: {sample: MNLI}}}' &&
        refused spec.data.columns "{data: {task: Regression, columns: {text: a}, $x}}" &&
        refused spec.data.labels "{data: {task: Classification, columns: {text: a, label: b}, $x}}" &&
        refused spec.data.labels "{data: {task: Regression, columns: {text: a, label: b}, labels: [x, y], $x}}" &&
        refused spec.data.source.sample '{data: {task: RTE, source: {sample: MNLI}}}' &&
        refused spec.placement.manual.replicas "{$d, placement: {strategy: Manual, manual: {replicas: [{$one}, {$one}]}}}" &&
        refused spec.ttlSecondsAfterFinished "{$d, ttlSecondsAfterFinished: -1}" &&
        refused spec.activeDeadlineSeconds "{$d, activeDeadlineSeconds: 0}" &&
        refused spec.failurePolicy.startDeadlineSeconds "{$d, failurePolicy: {startDeadlineSeconds: 0}}" &&
        refused spec.suspend "{$d, suspend: 1}" &&
        refused spec.managedBy "{$d, managedBy: queue}" &&
        refused 'keys of spec.worker.labels and spec.worker.annotations that begin with skyjob.dev' "{$d, worker: {labels: {skyjob.dev/job: x}}}" &&
        refused 'with which pods join a group' "{$d, worker: {labels: {kueue.x-k8s.io/pod-group-name: x}}}" &&
        refused spec.worker.labels "{$d, worker: {labels: {team: 7}}}" &&
        refused spec.worker.annotations "{$d, worker: {annotations: {app.kubernetes.io/name: x}}}" &&
        refused 'spec.worker.tolerations[0]' "{$d, worker: {tolerations: [{effect: NoSchedule}]}}" &&
        refused 'spec.worker.tolerations[0].effect' "{$d, worker: {tolerations: [{key: a, effect: Never}]}}" &&
        refused 'spec.worker.imagePullSecrets[1]' "{$d, worker: {imagePullSecrets: [{name: a}, {name: a}]}}" &&
        refused spec.nonsense "{$d, nonsense: 1}" &&
        refused metadata.name "{$d}" a-name-of-more-than-forty-characters-is-long &&
        refused metadata.name "{$d}" 1st
}
stays() { # stays PART CHANGE
    ! kubectl patch sj fixed --type merge -p "{\"spec\":{\"$1\":$2}}" 2>"$dir/text" && grep -q "spec.$1 is immutable" "$dir/text"
}
immutable() {
    job fixed '  placement: {minStages: 9, maxStages: 9}' && stays training '{"seed":9}' && stays model '{"layers":9}' &&
        stays data '{"files":{"dev":"x"}}' && stays wire '{"precision":"BF16"}' && stays resumeFrom '{"job":"x"}' && stays managedBy '"example.com/queue"' &&
        kubectl patch sj fixed --type merge -p '{"spec":{"failurePolicy":{"maxRestarts":1}}}'
}
invalid_for_the_parser() { # what the schema does not see: the sum of the units
    kubectl apply -f - <<'Y' >/dev/null
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: odd}
spec: {placement: {strategy: Manual, manual: {replicas: [{stages: [{units: 3}]}]}}, data: {source: {sample: MNLI}}}
Y
    until_true 10 is odd Accepted 'False InvalidSpec' && has_event 'InvalidSpec: .*add up to 3, the model has 11'
}
walks() { # every field with values of all kinds: what the API server takes is what the programs take
    printf '%s\n' 'apiVersion: skyjob.dev/v1alpha1' 'kind: SkyJob' 'metadata: {name: walk}' \
        'spec: {data: {source: {sample: MNLI}}, managedBy: example.com/nobody}' | kubectl apply -f - >/dev/null &&
        "$OUT/tests/support/spec-walk" --kubeconfig "$KUBECONFIG" walk
}
samples() { # what the repository shows is what the API server takes
    local file
    for file in manifests/samples/*.yaml; do kubectl create --dry-run=server -f "$file" || return; done
}
inits() { # the API server takes what init writes
    local task cli=$OUT/bin/kubectl-skyjob
    for task in MNLI STSB Classification Regression MaskedLM Pretraining; do
        "$cli" init --task $task --data pvc/texts/a --preset BertTiny --steps 5 --replicas Auto | kubectl create --dry-run=server -f - || return
    done
    "$cli" init --name on --from pvc/models/bert --output pvc/models -o "$dir/init.yaml" && kubectl create --dry-run=server -f "$dir/init.yaml" &&
        ! "$cli" init -o "$dir/init.yaml" 2>"$dir/text" && grep 'init.yaml exists' "$dir/text" &&
        ! "$cli" init --data texts 2>"$dir/text" && grep -- '--data: must be sample, configmap/NAME' "$dir/text"
}
explained() { kubectl explain sj.spec.training.microBatches | has 'Parts that a batch is cut into'; }

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
same_plan() { # `kubectl skyjob plan` asks the same API server, and must come to the same plan
    local plan="$OUT/bin/kubectl-skyjob plan -f $dir/planned.yaml"
    job planned "$stages3" && trains planned && kubectl get sj planned -o yaml >"$dir/planned.yaml" || return
    [ "$($plan -o json | jq -r '[.stages[].node] | join(",")')" = "$(field planned '{.status.placement.nodes}')" ] || return
    kubectl delete sj planned >/dev/null && until_true 20 no_pods
    kubectl cordon n1 >/dev/null && kubectl label node n2 skyjob.dev/gflops- >/dev/null
    $plan >"$dir/text" 2>&1
    local rc=$?
    kubectl uncordon n1 >/dev/null && kubectl label node n2 skyjob.dev/gflops=40 >/dev/null
    cat "$dir/text"
    [ "$rc" = 1 ] && grep -q 'n1: cordoned' "$dir/text" && grep -q 'n2: not measured yet' "$dir/text"
}
off_the_plan() { # what the nodes declare has nothing to do with what they can
    kubectl label node n1 n2 n3 skyjob.dev/gflops=3 --overwrite >/dev/null
    steps=8000 job drifts "$stages3" && until_true 60 has_event 'Stage[SF][a-z]*: Stage [0-2] (.*) on node n[1-3] has taken'
    local rc=$?
    kubectl label node n1 skyjob.dev/gflops=80 --overwrite >/dev/null && kubectl label node n2 skyjob.dev/gflops=40 --overwrite >/dev/null &&
        kubectl label node n3 skyjob.dev/gflops=20 --overwrite >/dev/null
    kubectl get sj drifts -o yaml | tail -n 60
    [ "$rc" = 0 ] && field drifts '{.status.stages[*].busyPercent}' | has -E '^[0-9]+ [0-9]+ [0-9]+$' &&
        field drifts '{.status.stages[*].drift.reported}' | has true && field drifts '{.status.progress.stepMilliseconds}' | has '^[0-9]' &&
        "$OUT/bin/kubectl-skyjob" status drifts | has 'step: .* ms predicted, .* ms measured'
}
first_step_in_time() { # Running is said within 5 s of the start of the last pod, on a busy machine 10
    kubectl delete sj prompt --ignore-not-found --timeout=60s
    job prompt "$stages3" && until_true 30 is prompt Running 'True Training' || return
    local last running
    last=$(kubectl get pods -o jsonpath='{range .items[*]}{.status.startTime}{"\n"}{end}' | sort | tail -n 1)
    running=$(field prompt '{.status.startTime}')
    echo "last pod $last, running $running"
    [ $(($(date -d "$running" +%s) - $(date -d "$last" +%s))) -le 10 ] && trains prompt
}
as_undisturbed() { # as_undisturbed JOB: it has left what one leaves that nothing happens to
    left_by "$1" >"$dir/left" || return
    [ -s "$dir/${calm:-undisturbed}" ] || { kept quiet && completes quiet && left_by quiet >"$dir/${calm:-undisturbed}"; } || return
    cmp "$dir/left" "$dir/${calm:-undisturbed}"
}
loses_pod() { # the other workers stay
    local uids
    kept loses && trains loses && uids=$(uids_of loses 0,2) || return
    kubectl delete "$(worker_pod loses 1)" --wait=false && until_true 20 revision_is loses 2 && has_event WorkerLost &&
        completes loses && [ "$(field loses '{.status.restarts}')" = 0 ] && field loses '{.status.revisionReason}' | grep 'deleted or evicted' || return
    workers_of loses
    [ "$(workers_of loses)" = 'w0-1 w1-2 w2-1 ' ] && [ "$(uids_of loses 0,2)" = "$uids" ] &&
        [ "$(kubectl get cm -l skyjob.dev/job=loses,skyjob.dev/revision -o name)" = "configmap/$(prefix loses)-r2" ] && as_undisturbed loses
}
# drained JOB SLOT [COMMAND...]: its node is cordoned, the pod evicted with its grace period, and the
# command run meanwhile
drained() {
    local node
    node=$(kubectl get "$(worker_pod "$1" "$2")" -o 'jsonpath={.spec.nodeName}') && kubectl cordon "$node" >/dev/null &&
        kubectl delete "$(worker_pod "$1" "$2")" --wait=false && "${@:3}" && until_true 30 has_document "$(prefix "$1")-r2"
    local rc=$?
    kubectl uncordon "$node" >/dev/null
    return "$rc"
}
has_document() { [ -n "$(document "$1" 2>/dev/null)" ]; }
# handed_over JOB: not a step was repeated, and nothing counts as a failure
handed_over() {
    has_event 'WorkerLeaving: Stage [0-9] on node n[0-9] is being drained' || return
    document "$(prefix "$1")-r2" | jq -c '{step, lineage, sources, leaving}' &&
        document "$(prefix "$1")-r2" | jq -e '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker") and (.leaving | length == 1)' &&
        completes "$1" && [ "$(field "$1" '{.status.revision} {.status.restarts}')" = '2 0' ] && workers_of "$1"
}
# on_alike_nodes COMMAND...: every node computes with one thread, so that all give the same bits
on_alike_nodes() {
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,1,2Gi,40' 'n2,1,2Gi,40' 'n3,1,2Gi,40'
    calm=undisturbed-alike steps=800 "$@"
    local rc=$?
    kubectl delete sj --all >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 n3 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
leaves() { # for each place in the pipeline: another node takes the units of a worker whose node is drained
    local slot other
    for slot in 0 1; do
        other=$((1 - slot))
        stages=$stages2 kept leaves && trains leaves && drained leaves "$slot" && handed_over leaves &&
            [ "$(workers_of leaves)" = "$(printf '%s\n' "w$other-1" "w$((64 + slot))-1" | sort | tr '\n' ' ')" ] && as_undisturbed leaves || return
        kubectl delete sj --all >/dev/null && until_true 20 no_pods || return
    done
}
leaves_meanwhile() { # the operator dies when it has created the new worker, or soon after
    stages=$stages2 kept alone && trains alone && drained alone 1 dies_after_start alone && handed_over alone &&
        [[ $(workers_of alone) =~ ^w0-1\ w65-[12]\ $ ]] && as_undisturbed alone
}
dies_after_start() {
    until_true 10 grep -q "\"msg\":\"created\".*\"name\":\"$(prefix "$1")-w65-1\"" "$dir/operator.log" && kill_operator KILL
    start_operator
}
leaves_neighbours() { # where no other node has room
    stages='  placement: {strategy: Even, minStages: 1, maxStages: 3}' kept shares && trains shares && drained shares 1 && handed_over shares &&
        [ "$(workers_of shares)" = 'w0-1 w2-1 ' ] && as_undisturbed shares
}
# rebalances: a node claims more than twice the speed of one that is like it, so the first cut is wrong; the next
# one follows from what is measured. The other job keeps the wrong cut to its end. A user asks, which needs a few
# samples only: what the operator does by itself takes a longer job (tests/e2e/test_rebalance.sh).
rebalances() {
    local rc
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,1,2Gi,90' 'n2,1,2Gi,40'
    uneven moves && trains moves && "$OUT/bin/kubectl-skyjob" replan moves &&
        until_true 60 has_event 'Rebalanced: Stage [01] on node n[12] takes .* a step should take [1-9][0-9]*% less' &&
        until_true 30 revision_is moves 2 && until_true 30 document "$(prefix moves)-r2" && document "$(prefix moves)-r2" >"$dir/r2" &&
        jq -e '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker") and .leaving == null and
            ([.plan.workers[] | "\(.slot)-\(.incarnation)"] == ["0-1", "1-1"])' "$dir/r2" && completes moves 120 &&
        [ "$(field moves '{.status.restarts}')" = 0 ] && [ "$(field moves '{.status.rebalance.moves}')" -ge 1 ] &&
        [ "$(workers_of moves)" = 'w0-1 w1-1 ' ] && left_by moves >"$dir/left" &&
        ! "$OUT/bin/kubectl-skyjob" replan moves 2>"$dir/text" && grep 'is Complete: ' "$dir/text" &&
        uneven stays && completes stays 120 && revision_is stays 1 && left_by stays >"$dir/stayed" && cmp "$dir/left" "$dir/stayed"
    rc=$?
    kubectl get sj moves stays -o jsonpath='{range .items[*]}{.status.rebalance}{"\n"}{end}'
    kubectl delete sj --all >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
# joins: a node is uncordoned while a job trains, and the job takes it; the other job never has it. It is so much
# faster that whatever is measured here it is worth its pod, perhaps that of n2 too.
joins() {
    local rc
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,1,2Gi,40' 'n2,1,2Gi,40' 'n3,1,2Gi,120' && until_true 20 kubectl cordon n3 &&
        stages="${stages2/maxStages: 2/maxStages: 3}" uneven grows && trains grows && [ "$(workers_of grows)" = 'w0-1 w1-1 ' ] &&
        kubectl uncordon n3 && until_true 60 n3_joins &&
        until_true 60 has_document "$(prefix grows)-r2" && document "$(prefix grows)-r2" >"$dir/r2" &&
        jq -e '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker" and .slot != 2) and .plan.workers[0].slot == 0 and
            ([.plan.workers[] | select(.node == "n3") | "\(.slot)-\(.incarnation)"] == ["2-1"])' "$dir/r2" && completes grows 120 &&
        [[ $(field grows '{.status.revision} {.status.restarts}') =~ ^[2-9]\ 0$ ]] && [[ $(workers_of grows) =~ ^w0-1\ (w1-1\ )?w2-1\ $ ]] &&
        has_event 'Rebalanced: .*Node n3 can join' && left_by grows >"$dir/left" &&
        uneven stays && completes stays 120 && revision_is stays 1 && left_by stays >"$dir/stayed" && cmp "$dir/left" "$dir/stayed"
    rc=$?
    kubectl get sj grows stays -o jsonpath='{range .items[*]}{.status.rebalance}{"\n"}{end}'
    kubectl delete sj --all >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 n3 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
# grows_pod: a node claims three times the speed of one that is like it, so the other one's pod is too small for
# its share. It gets a larger one. The job has many steps, for which that pays, and is not waited for.
grows_pod() {
    local rc bytes
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,1,2Gi,120' 'n2,1,2Gi,42'
    model='layers: 6, hiddenSize: 512, attentionHeads: 8,' steps=3000 job larger "$stages2" && trains larger 5 &&
        bytes=$(memory_on n2) && "$OUT/bin/kubectl-skyjob" replan larger &&
        until_true 60 has_event 'WorkersGrowing: .* node n2 must be started again with more memory, from a checkpoint' larger &&
        until_true 60 has_event 'Training: .* goes on from step [1-9][0-9]* (.*checkpoint)' larger &&
        [[ $(workers_of larger) =~ ^w0-(1 w1-2|2 w1-1)\ $ ]] && [ "$(memory_on n2)" -gt "$bytes" ] && trains larger 30 &&
        [ "$(field larger '{.status.revision} {.status.restarts}')" = '2 0' ]
    rc=$?
    field larger '{.status.rebalance}'
    kubectl delete sj --all >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
memory_on() { # memory_on NODE: of the only worker there, in bytes
    kubectl get pods -l skyjob.dev/slot -o "jsonpath={.items[?(@.spec.nodeName==\"$1\")].spec.containers[0].resources.limits.memory}"
}
n3_joins() { # a request that was answered before the node was known is made again
    has_event 'NodesJoining: .*Node n3 can join' && return
    [ "$(field grows '{.status.rebalance.lastReplan}')" != "$(field grows '{.metadata.annotations.skyjob\.dev/replan}')" ] ||
        "$OUT/bin/kubectl-skyjob" replan grows
    return 1
}
uneven() { stages=${stages:-$stages2} model='layers: 6,' steps=1000 kept "$1"; }
loses_link() { # all workers stay, and go on from the step that they have
    local uids
    kept cut && trains cut && uids=$(uids_of cut 0,1,2) || return
    kill -USR1 "$(worker_pid cut 1)" && until_true 30 revision_is cut 2 && has_event ConnectionLost && completes cut &&
        [ "$(field cut '{.status.restarts}')" = 0 ] && [ "$(uids_of cut 0,1,2)" = "$uids" ] &&
        [ "$(field cut '{.status.revisionStep}')" -gt 0 ] && as_undisturbed cut
}
ignores_strangers() { # no answer without the key, which is nowhere but in its Secret and the pods' files
    steps=400 job alien "$stages3" && trains alien || return
    local ip key order='{"revision":1}'
    for ip in $(kubectl get pods -o 'jsonpath={.items[*].status.podIP}'); do
        [ "$(curl -s "http://$ip:7070/v1/status")" = 'not authenticated' ] && curl -sf "http://$ip:7072/healthz" &&
            [ "$(curl -s -d "$order" "http://$ip:7070/v1/halt")" = 'not authenticated' ] &&
            [ "$(curl -s -d '' "http://$ip:7070/v1/end")" = 'not authenticated' ] || return
    done
    key=$(kubectl get secret alien-key -o 'jsonpath={.data.key}' | base64 -d)
    [ ${#key} = 64 ] && completes alien && revision_is alien 1 && ! grep -rq "$key" "$dir/operator.log" "$dir/agent/logs" &&
        ! kubectl get sj,pods,configmaps,events -o yaml | has "$key"
}
attacked_early() { # a revision of someone else comes first, and idle connections fill the control ports
    steps=60 job early "$stages3" && until_true 20 has_pods early 3 || return
    kill -STOP "$operator"
    local ip attackers=() rc=0
    until_true 20 have_addresses 3 || rc=1
    for ip in $(kubectl get pods -o 'jsonpath={.items[*].status.podIP}'); do
        until_true 10 curl -s -o /dev/null "http://$ip:7070/" || rc=1
        [ "$(curl -s -d '{"revision":{},"peers":[]}' "http://$ip:7070/v1/revision")" = 'not authenticated' ] || rc=1
        (for _ in {1..200}; do exec {fd}<>"/dev/tcp/$ip/7070"; done; sleep 60) 2>/dev/null &
        attackers+=($!)
    done
    kill -CONT "$operator"
    completes early && revision_is early 1 || rc=1
    kill "${attackers[@]}" 2>/dev/null
    return "$rc"
}
have_addresses() { [ "$(kubectl get pods -o 'jsonpath={.items[*].status.podIP}' | wc -w)" = "$1" ]; }
loses_key() { # a new worker cannot mount what is gone, and the others have the old one
    steps=1000 job keyless "$stages3" && trains keyless || return
    kubectl delete secret keyless-key && kubectl delete "$(worker_pod keyless 1)" --wait=false && until_true 20 revision_is keyless 2 &&
        completes keyless && [ "$(field keyless '{.status.restarts}')" = 0 ] && kubectl get secret keyless-key && [ "$(workers_of keyless)" = 'w0-1 w1-2 w2-1 ' ]
}
foreign_key() { # a Secret of that name that is not the job's is left alone
    kubectl create secret generic taken-key --from-literal=key=x && job taken "$stages3" || return
    until_true 20 grep -q 'secrets default/taken-key exists and does not belong' "$dir/operator.log" && no_pods &&
        kubectl delete secret taken-key && completes taken
}
loses_process() {
    steps=400 job crash "$stages3" && trains crash || return
    touch "$dir/agent/kill/$(prefix crash)-w2-1"
    until_true 20 revision_is crash 2 && has_event 'WorkerFailed: Stage 2' && [ "$(field crash '{.status.restarts}')" = 1 ] &&
        completes crash && has_event 'Recovering: Revision 2 goes on from step 0' && [ "$(workers_of crash)" = 'w0-1 w1-1 w2-2 ' ]
}
# twins NAME [SYNC]: a job of two replicas, the faster of which has three of four micro-batches
twins() {
    stages='  replicas: 2
  sync: {'${2:-protocol: BSP}'}
  placement: {minStages: 1, maxStages: 1, rebalance: "Off"}' kept "$1" '  checkpoint: {everySteps: 20, store: {persistentVolumeClaim: {claimName: out, path: twins}}}'
}
has_replicas() {
    twins whole && completes whole && field whole '{.status.placement.explanation}' && left_by whole >"$dir/whole" || return
    document "$(prefix whole)-r1" | jq -c '.plan | [.shares, [.workers[] | [.replica, .node, .unitCount]]]'
    document "$(prefix whole)-r1" | jq -e '.plan | .shares == [3, 1] and [.workers[].replica] == [0, 1]' || return
    twins half && trains half && until_true 60 has_checkpoint "$dir/agent/claims/out/twins/$(prefix half)" || return
    touch "$dir/agent/kill/$(prefix half)-w1-1"
    until_true 20 revision_is half 2 && completes half && workers_of half || return
    [ "$(workers_of half)" = 'w0-1 w1-2 ' ] && left_by half | diff - "$dir/whole"
}
protocol_is() { [ "$(field "$1" '{.status.progress.protocol}')" = "$2" ]; }
set_protocol() { kubectl patch sj "$1" --type merge -p "{\"spec\":{\"sync\":{\"protocol\":\"$2\"}}}" >/dev/null; }
changes_protocol() {
    local rc
    steps=100000 twins live && trains live && set_protocol live ASP && until_true 40 protocol_is live ASP && set_protocol live BSP &&
        until_true 40 protocol_is live BSP && [ "$(field live '{.status.revision} {.status.restarts}')" = '3 0' ] && [ "$(workers_of live)" = 'w0-1 w1-1 ' ] &&
        document "$(prefix live)-r3" | jq -e '.step > 0 and .plan.spec.sync.protocol == "BSP"'
    rc=$?
    kubectl delete sj live >/dev/null && until_true 20 no_pods
    return "$rc"
}
# The worker of a replica is drained: another node takes its place, and then none has room.
replica_leaves() {
    local spare
    twins calm && completes calm && left_by calm >"$dir/calm" && kubectl delete sj calm >/dev/null && until_true 20 no_pods &&
        twins moves && trains moves && drained moves 1 && handed_over moves && [ "$(workers_of moves)" = 'w0-1 w65-1 ' ] &&
        left_by moves | diff - "$dir/calm" && kubectl delete sj moves >/dev/null && until_true 20 no_pods || return
    twins alone && trains alone || return
    spare=$(comm -23 <(printf 'n1\nn2\nn3\n') <(kubectl get pods -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort))
    kubectl cordon "$spare" >/dev/null && drained alone 1 && handed_over alone && [ "$(workers_of alone)" = 'w0-1 ' ] &&
        document "$(prefix alone)-r2" | jq -e '.plan.shares == null' && has_event 'WorkerLeaving: .* the other replicas, which do without this one'
}
# A node goes for which there is no other, and comes back.
lacks_replica() {
    local rc points lineage # of the second revision: a new one, unless it goes on right behind a checkpoint
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,2,4Gi,80' 'n2,1,2Gi,40'
    steps=100000 twins fewer && trains fewer && points=$dir/agent/claims/out/twins/$(prefix fewer) && until_true 60 has_checkpoint "$points" &&
        kubectl cordon n2 >/dev/null && touch "$dir/agent/kill/$(prefix fewer)-w1-1" &&
        until_true 30 has_event 'ReplicaLost: The job goes on with 1 of 2 replicas' fewer && until_true 30 document "$(prefix fewer)-r2" &&
        document "$(prefix fewer)-r2" | jq -e '.step > 0 and (.plan.workers | length) == 1' && lineage=$(document "$(prefix fewer)-r2" | jq .lineage) &&
        until_true 30 is fewer Running 'True Training' &&
        kubectl uncordon n2 >/dev/null && until_true 90 has_event ReplicaReturns fewer && until_true 30 document "$(prefix fewer)-r3" &&
        document "$(prefix fewer)-r3" | jq -e --argjson lineage "$lineage" '.step > 0 and .lineage == $lineage and .plan.shares == [3, 1] and all(.sources[]; .from == "Worker")' &&
        until_true 30 is fewer Running 'True Training' && [ "$(workers_of fewer)" = 'w0-1 w1-3 ' ]
    rc=$?
    kubectl delete sj fewer >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
# The share of a replica on a node that claims three times the speed of one that is like it.
shares_again() {
    local rc
    kubectl delete node n1 n2 n3 >/dev/null && start_agent 'n1,1,2Gi,120' 'n2,1,2Gi,40'
    model='layers: 6,' batch=64 steps=1000 twins alike && trains alike 5 && document "$(prefix alike)-r1" | jq -e '.plan.shares == [3, 1]' && "$OUT/bin/kubectl-skyjob" replan alike &&
        until_true 60 has_event 'Rebalanced: .*With 2+2 of 4 micro-batches.* instead of 3+1' &&
        until_true 30 document "$(prefix alike)-r2" && document "$(prefix alike)-r2" >"$dir/r2" &&
        jq -e '.step > 0 and .lineage == 1 and all(.sources[]; .from == "Worker") and .plan.shares == [2, 2]' "$dir/r2" && trains alike 200 &&
        [ "$(field alike '{.status.restarts}')" = 0 ] && [ "$(workers_of alike)" = 'w0-1 w1-1 ' ]
    rc=$?
    field alike '{.status.rebalance}'
    kubectl delete sj alike >/dev/null && until_true 20 no_pods && kubectl delete node n1 n2 >/dev/null && start_agent "${nodes[@]}"
    return "$rc"
}
switches() { # and loses a worker while its replicas are free
    twins free 'protocol: Switch, switchAfterSteps: 10' && trains free && until_true 60 has_checkpoint "$dir/agent/claims/out/twins/$(prefix free)" || return
    touch "$dir/agent/kill/$(prefix free)-w1-1"
    until_true 20 revision_is free 2 && completes free && workers_of free || return
    [ "$(workers_of free)" = 'w0-1 w1-2 ' ] && grep -q '"msg":"asynchronous steps"' "$dir"/agent/logs/free-*
}
# Units of workers that are still at the checkpoint's step need not be read.
from_checkpoint() { has_event 'Training: .* goes on from step [1-9][0-9]* (.*checkpoint)' "$1"; } # from_checkpoint JOB
goes_back() { # to a checkpoint: when a worker is killed, and when all pods go at once
    local points
    kept saved '  checkpoint: {everySteps: 10, store: {persistentVolumeClaim: {claimName: out, path: points}}}' || return
    points=$dir/agent/claims/out/points/$(prefix saved)
    until_true 60 has_checkpoint "$points" || return
    touch "$dir/agent/kill/$(prefix saved)-w1-1"
    until_true 60 from_checkpoint saved &&
        [ "$(workers_of saved)" = 'w0-1 w1-2 w2-1 ' ] || return
    kubectl delete pods -l skyjob.dev/job=saved --wait=false && completes saved || return
    field saved '{.status.revision} {.status.revisionStep} {.status.revisionReason}'
    ls "$points"
    [ "$(field saved '{.status.revisionStep}')" -ge 10 ] && as_undisturbed saved
}
goes_on_from_another() { # which was deleted, on fewer nodes; one with other data is told which
    local store='store: {persistentVolumeClaim: {claimName: out, path: heirs}}' points
    kept first "  checkpoint: {everySteps: 10, $store}" || return
    points=$dir/agent/claims/out/heirs/$(prefix first)
    until_true 60 has_checkpoint "$points" && kubectl delete sj first && until_true 20 no_pods || return
    stages=$stages2 kept second "  checkpoint: {everySteps: 100, $store}
  resumeFrom: {job: first}" && completes second || return
    find "$dir/agent/claims/out/heirs" -maxdepth 2
    has_event 'Training: .* goes on from step [1-9][0-9]* (checkpoint)' && as_undisturbed second || return
    train=' seed: 9,' kept third "  checkpoint: {$store}
  resumeFrom: {job: first}" && kubectl wait --for=condition=Failed sj/third --timeout=30s || return
    field third '{.status.message}' | grep 'spec.training.seed is 42 there and 9 here'
}
on_command() { # also when the operator dies before it has told what became of it
    local text step points
    claim out ReadWriteMany && steps=700 job asked '  checkpoint: {keep: 9, store: {persistentVolumeClaim: {claimName: out, path: points}}}' && trains asked || return
    points=$dir/agent/claims/out/points/$(prefix asked)
    text=$("$OUT/bin/kubectl-skyjob" checkpoint asked) || return
    echo "$text"
    step=$(field asked '{.status.requestedCheckpoint.step}')
    [ "$text" = "The checkpoint of step $step is written." ] && has_event "CheckpointWritten: $text" && [ -e "$points/1-$step/config.json" ] || return
    kill_operator KILL
    kubectl annotate --overwrite sj asked skyjob.dev/checkpoint=2099-01-01T00:00:00Z
    start_operator
    until_true 20 written_later asked "$step" || return
    kill_operator KILL
    start_operator
    completes asked || return
    ls "$points"
    [ "$(find "$points" -mindepth 1 -maxdepth 1 | wc -l)" = 3 ] && # the last is of the last step
        ! "$OUT/bin/kubectl-skyjob" checkpoint asked 2>"$dir/text" && grep 'is Complete: there is nothing to write' "$dir/text" || return
    steps=300 job homeless '  checkpoint: {mode: Never}' && trains homeless && ! "$OUT/bin/kubectl-skyjob" checkpoint homeless 2>"$dir/text" &&
        grep 'the job has no store for them. Set spec.checkpoint.store' "$dir/text" && has_event CheckpointImpossible
}
written_later() { [ "$(field "$1" '{.status.requestedCheckpoint.step}')" -gt "$2" ]; }
ends_early() { # with a learning rate that is far too high
    steps=400 train=' evaluateEverySteps: 10, keepBest: accuracy, earlyStopping: {patience: 4},' rate=1e-2 \
        kept early '  checkpoint: {everySteps: 50, store: {persistentVolumeClaim: {claimName: out, path: points}}}' && completes early || return
    field early '{.status.progress}{"\n"}{.status.message}'
    local step best
    step=$(field early '{.status.progress.step}') best=$(field early '{.status.progress.best.step}')
    [ "$step" -lt 400 ] && [ "$(field early '{.status.progress.endedEarly} {.status.progress.totalSteps} {.status.progress.percentage}')" = "true $step 100" ] &&
        [ "$best" = $((step - 40)) ] && [ "$(field early '{.status.progress.best.metric}')" = accuracy ] &&
        field early '{.status.message}' | grep "Ended early: 4 evaluations in a row were not better. .* kept, was after step $best: accuracy 0" &&
        [ -e "$dir/agent/claims/out/points/$(prefix early)/1-$best/config.json" ] && [ -e "$dir/agent/claims/out/model/config.json" ]
}
has_copies() { # has_copies JOB: a checkpoint is whole without the disk of worker 1
    # shellcheck disable=SC2046 # names without spaces
    has_checkpoint $(find "$dir"/agent/*/checkpoints/"$(prefix "$1")" -maxdepth 0 ! -path "*/$(uids_of "$1" 1)/*")
}
goes_back_without_a_volume() { # to a checkpoint on the pods' own disks, one of which is lost
    local name
    kept disks '  checkpoint: {everySteps: 10, store: {peers: {}}}' || return
    name=$(prefix disks)
    until_true 60 has_copies disks || return
    touch "$dir/agent/kill/$name-w1-1"
    completes disks || return
    field disks '{.status.revision} {.status.revisionStep} {.status.revisionReason}'
    find "$dir/agent" -path '*/checkpoints/*' -name 'model*'
    from_checkpoint disks && [ "$(field disks '{.status.revisionStep}')" -ge 10 ] && as_undisturbed disks
}
has_bucket() { # has_bucket: sets $store
    [ -n "$bucket_pid" ] || {
        bucket_build && bucket_start "$dir/s3" &&
            kubectl create secret generic keys --from-literal=AWS_ACCESS_KEY_ID="$AWS_ACCESS_KEY_ID" \
                --from-literal=AWS_SECRET_ACCESS_KEY="$AWS_SECRET_ACCESS_KEY"
    } || return
    store="store: {s3: {bucket: runs, prefix: a/b, endpoint: \"$AWS_ENDPOINT_URL\", credentialsSecret: keys}}"
}
goes_back_to_a_bucket() { # the pod is lost with its disk
    local name store
    has_bucket || return
    kept bucket "  checkpoint: {everySteps: 10, $store}" || return
    name=$(prefix bucket)
    until_true 60 has_checkpoint "$dir/s3/disk/runs/a/b/$name" || return
    touch "$dir/agent/kill/$name-w1-1"
    completes bucket || return
    field bucket '{.status.revision} {.status.revisionStep} {.status.revisionReason}'
    find "$dir/s3/disk" -name 'model*'
    from_checkpoint bucket && [ "$(field bucket '{.status.revisionStep}')" -ge 10 ] && as_undisturbed bucket
}
goes_on_in_a_bucket() { # from another job's checkpoints, on fewer nodes
    local store points
    has_bucket || return
    kept giver "  checkpoint: {everySteps: 10, $store}" || return
    points=$dir/s3/disk/runs/a/b/$(prefix giver)
    until_true 60 has_checkpoint "$points" && kubectl delete sj giver && until_true 20 no_pods || return
    stages=$stages2 kept heir "  checkpoint: {everySteps: 100, $store}
  resumeFrom: {job: giver}" && completes heir || return
    find "$dir/s3/disk/runs/a/b" -maxdepth 2
    has_event 'Training: .* goes on from step [1-9][0-9]* (checkpoint)' && as_undisturbed heir
}
gives_up() {
    steps=4000 job hopeless "  failurePolicy: {maxRestarts: 0}" && trains hopeless || return
    touch "$dir/agent/kill/$(prefix hopeless)-w0-1"
    kubectl wait --for=condition=Failed sj/hopeless --timeout=30s && is hopeless Failed 'True RestartLimit' && until_true 10 none_run
}
suspend() { kubectl patch sj "$1" --type merge -p "{\"spec\":{\"suspend\":$2}}" >/dev/null; } # suspend JOB true|false
# gives_back JOB: all its pods go, once there is a checkpoint; but for those that have trained to the end meanwhile, which stay
# for their logs
gives_back() {
    suspend "$1" true && until_true 30 is "$1" Suspended 'True Suspended' && until_true 20 none_run && field "$1" '{.status.state}: {.status.message}' &&
        [ "$(field "$1" '{.status.stages}')" = '[]' ] && field "$1" '{.status.message}' | has '^Suspended with a checkpoint of step [1-9]'
}
suspended() { # twice, and the operator dies in between
    local step
    kept paused '  checkpoint: {everySteps: 1000, store: {persistentVolumeClaim: {claimName: out, path: points}}}' && trains paused && gives_back paused || return
    step=$(field paused '{.status.progress.step}')
    kill_operator KILL
    start_operator
    suspend paused false && trains paused "$step" && from_checkpoint paused && gives_back paused && suspend paused false && completes paused || return
    field paused '{.status.revision} {.status.restarts} {.status.revisionReason}'
    [ "$(field paused '{.status.restarts}')" = 0 ] && as_undisturbed paused
}
suspended_first() {
    job parked '  suspend: true' && until_true 10 is parked Suspended 'True Suspended' && no_pods &&
        "$OUT/bin/kubectl-skyjob" suspend parked | has 'is true already: Suspended before training has begun' &&
        "$OUT/bin/kubectl-skyjob" resume parked && completes parked &&
        [ "$(field parked '{.status.revision} {.status.restarts}')" = '1 0' ] &&
        ! "$OUT/bin/kubectl-skyjob" suspend parked 2>"$dir/text" && grep 'is Complete: there is nothing to suspend' "$dir/text"
}
not_suspended() { # its checkpoints would go with its pods
    steps=700 job homebound "$stages3" && trains homebound && ! "$OUT/bin/kubectl-skyjob" suspend homebound 2>"$dir/text" &&
        grep 'homebound cannot be suspended: The job trains on: .*spec.checkpoint.store' "$dir/text" && is homebound Suspended 'False CannotSuspend' &&
        has_event 'CannotSuspend: .*spec.checkpoint.store' && completes homebound
}
expires() { job brief '  ttlSecondsAfterFinished: 3' && completes brief && until_true 15 is_gone brief && until_true 10 nothing_of brief; }
is_gone() { [ -z "$(kubectl get sj "$1" -o name --ignore-not-found)" ]; }
misses_deadlines() {
    steps=9000 job slow '  activeDeadlineSeconds: 9' && trains slow && kubectl wait --for=condition=Failed sj/slow --timeout=30s &&
        is slow Failed 'True DeadlineExceeded' && until_true 10 none_run || return
    job lonely '  placement: {minStages: 9, maxStages: 9}
  failurePolicy: {startDeadlineSeconds: 3}' && kubectl wait --for=condition=Failed sj/lonely --timeout=30s &&
        is lonely Failed 'True StartDeadlineExceeded' && field lonely '{.status.message}' | grep 'nodes can be used'
}
managed_by_another() { # and this operator's own name changes nothing
    job theirs '  managedBy: example.com/queue' && job ours '  managedBy: skyjob.dev/operator' && completes ours && [ -z "$(field theirs '{.status}')" ]
}
none_run() { [ -z "$(kubectl get pods --field-selector status.phase=Running -o name)" ]; }
out_of_memory() {
    steps=400 job hungry "$stages3" && trains hungry || return
    touch "$dir/agent/oom/$(prefix hungry)-w1-1"
    until_true 20 revision_is hungry 2 && has_event 'WorkerOutOfMemory: Stage 1' && [ "$(field hungry '{.status.memoryScalePercent}')" = 150 ] &&
        completes hungry
}
wrong_configuration() { # the data's vocabulary is larger than the model's
    vocab=20 job small && kubectl wait --for=condition=Failed sj/small --timeout=30s && is small Failed 'True InvalidConfiguration' &&
        field small '{.status.message}' | has -i vocab
}
late_data() {
    source='configMap: {name: later}' job late && until_true 10 is late Placed 'False DataNotFound' && has_event 'DataNotFound: .*later' || return
    kubectl create configmap later --from-file="$dir/data" && completes late && kubectl delete configmap later
}
half_data() {
    kubectl create configmap half --from-file=train.tsv="$dir/data/train.tsv" && source='configMap: {name: half}' job half &&
        until_true 10 is half Placed 'False DataNotFound' && field half '{.status.message}' | grep 'no key "vocab.txt"' &&
        kubectl delete configmap half
}
late_claim() { # nothing is made before all claims are there, so that no node is held
    job unkept "  output: {persistentVolumeClaim: {claimName: late, path: model}}" &&
        until_true 10 is unkept Placed 'False ClaimNotFound' && has_event 'ClaimNotFound: .*"late" (spec.output.persistentVolumeClaim)' &&
        [ -z "$(kubectl get pods -l skyjob.dev/job=unkept -o name)" ] || return
    claim late ReadWriteMany && completes unkept
}
name_taken() { # by an object that is not ours
    kubectl create secret generic taken-key >/dev/null && job taken && until_true 20 is taken Stalled 'True NameTaken' &&
        field taken '{.status.message}' | grep 'secrets default/taken-key exists and does not belong' && has_event NameTaken &&
        kubectl delete secret taken-key >/dev/null && completes taken && is taken Stalled 'False NotStalled'
}
document() { kubectl get configmap "$1" -o 'jsonpath={.data.revision\.json}'; }
loses_revision() { # it is made again with the same bytes, and nothing else happens
    local map
    steps=700 job planless "$stages3" && trains planless && map=$(prefix planless)-r1 && document "$map" >"$dir/document" &&
        kubectl delete configmap "$map" >/dev/null && until_true 10 has_event RevisionRestored && document "$map" | cmp - "$dir/document" &&
        completes planless && [ "$(field planless '{.status.revision}')" = 1 ] && [ "$(workers_of planless)" = 'w0-1 w1-1 w2-1 ' ]
}
forgets_revision() { # the operator too: the next one follows from the reports of the workers
    local uids
    steps=700 job forgets "$stages3" && trains forgets && uids=$(uids_of forgets 0,1,2) || return
    kill_operator KILL
    kubectl delete configmap "$(prefix forgets)-r1" >/dev/null
    start_operator
    until_true 20 has_event RevisionLost && until_true 30 revision_is forgets 2 && completes forgets &&
        [ "$(field forgets '{.status.revision} {.status.restarts}')" = '2 0' ] && [ "$(uids_of forgets 0,1,2)" = "$uids" ] &&
        [ "$(field forgets '{.status.revisionStep}')" -gt 0 ]
}
why() { # why JOB: what explain prints, in $dir/text
    "$OUT/bin/kubectl-skyjob" explain "$1" >"$dir/text"
    local rc=$?
    cat "$dir/text"
    return "$rc"
}
lists_jobs() { # status: as a table, as JSON, and followed to the end
    local cli=$OUT/bin/kubectl-skyjob
    "$cli" status 2>&1 | has 'there are no SkyJobs in namespace default' && steps=4000 job listed "$stages3" && trains listed &&
        "$cli" status >"$dir/text" && cat "$dir/text" && grep -E '^NAME +STATE +STEP +TOTAL +PERCENT +LOSS +TOKENS/S +LEFT +AGE$' "$dir/text" &&
        grep -E '^listed +Running +[0-9]+ +4000 +[0-9]+% +[0-9.]+ +[0-9,-]+ +[0-9:-]+ +[0-9]+[sm]$' "$dir/text" &&
        "$cli" status -A | has -E '^default +listed +Running ' &&
        "$cli" status listed -o json | jq -e '.namespace == "default" and .totalSteps == 4000 and .status.revision == 1' &&
        "$cli" status -o json | jq -e '.items | map(.name) == ["listed"]' || return
    # Progress is written every 10 s.
    ! timeout -s INT 15 "$cli" status -f >"$dir/text" && cat "$dir/text" && [ "$(grep -c '^listed ' "$dir/text")" -ge 2 ] || return
    timeout 150 "$cli" status listed -f | has '^Complete after 4000 steps' && ! "$cli" status unlisted -f 2>"$dir/text" && grep 'there is no SkyJob unlisted' "$dir/text"
}
completes_lines() { # completion, sourced, and as kubectl runs it
    local cli=$OUT/bin/kubectl-skyjob
    "$cli" completion bash >"$dir/kubectl_complete-skyjob" && chmod +x "$dir/kubectl_complete-skyjob" && job typed '  suspend: true' || return
    [ "$(bash -c 'source "$1" && COMP_WORDS=(kubectl-skyjob status ty) COMP_CWORD=2 && _kubectl_skyjob && echo "${COMPREPLY[*]}"' x "$dir/kubectl_complete-skyjob")" = typed ] &&
        [ "$(PATH=$dir:$PWD/$OUT/bin:$PATH kubectl __complete skyjob explain '' 2>/dev/null | head -n 1)" = typed ] &&
        "$dir/kubectl_complete-skyjob" explain -n kube-system '' | has -x ':0' && ! "$dir/kubectl_complete-skyjob" explain -n kube-system '' | has typed &&
        "$dir/kubectl_complete-skyjob" nodes --measure n | has -x n2
}
no_image() {
    job image '  worker: {image: "missing:1"}' && until_true 20 is image Running 'False ImagePullFailed' && has_event ImagePullFailed && why image || return
    grep -E '^condition   Running is False for .*: ImagePullFailed: Node n[123] ' "$dir/text" && grep -E '^pod .* is Pending: ImagePullBackOff: ' "$dir/text" &&
        grep '^next        Correct spec.worker.image' "$dir/text" || return
    kubectl patch sj image --type merge -p '{"spec":{"worker":{"image":"worker:test"}}}' && completes image
}
few_nodes() {
    job many '  placement: {minStages: 4, maxStages: 4}' && until_true 10 is many Placed 'False InsufficientNodes' &&
        has_event 'InsufficientNodes: 3 of 3 nodes' && why many && grep '^state       Waiting: ' "$dir/text" &&
        grep -E '^event       [0-9]+s ago.*: Warning InsufficientNodes: 3 of 3 nodes' "$dir/text" && grep '^next        Free or add nodes' "$dir/text" || return
    kubectl patch sj many --type merge -p '{"spec":{"placement":{"minStages":2}}}' && completes many
}
cordoned() {
    kubectl cordon n1 n2 n3 >/dev/null && job waits && until_true 10 is waits Placed 'False InsufficientNodes' &&
        field waits '{.status.message}' | grep '3 cordoned' && kubectl uncordon n1 n2 n3 >/dev/null && completes waits
}
own_pods() { # its pods have what the spec says, and its nodes are those that it may have
    local own='labels: {team: nlp}, annotations: {example.com/note: "a b"}, nodeSelector: {disk: ssd}, priorityClassName: high, imagePullSecrets: [{name: pull}]'
    kubectl create priorityclass high --value=7 >/dev/null && kubectl label node n1 n2 disk=ssd >/dev/null &&
        kubectl taint node n1 gpu=yes:NoSchedule >/dev/null && steps=3000 job owned "$stages2"$'\n'"  worker: {$own}" &&
        until_true 10 is owned Placed 'False InsufficientNodes' && field owned '{.status.message}' | grep '1 tainted, 1 without the labels of spec.worker.nodeSelector' &&
        kubectl patch sj owned --type merge -p '{"spec":{"worker":{"tolerations":[{"key":"gpu","operator":"Exists"}]}}}' && trains owned &&
        [ "$(field owned '{.status.placement.nodes}')" = n1,n2 ] && kubectl get pods -l skyjob.dev/job=owned,team=nlp -o json >"$dir/pods" &&
        jq -e '[.items[] | .metadata.annotations["example.com/note"] == "a b" and .spec.nodeSelector == {disk: "ssd"} and .spec.priority == 7 and
            .spec.imagePullSecrets == [{name: "pull"}] and (.spec.tolerations | any(.key == "gpu"))] == [true, true]' "$dir/pods"
}
with_own_pods() {
    own_pods
    local rc=$?
    [ "$rc" = 0 ] || cat "$dir/pods"
    kubectl label node n1 n2 disk- >/dev/null && kubectl taint node n1 gpu- >/dev/null && return "$rc"
}
two_jobs() { # both want all nodes: the second waits for the first
    job first "$stages3" && until_true 20 is first Placed 'True PlanMade' && job second "$stages3" &&
        until_true 20 is second Placed 'False InsufficientNodes' && completes first && completes second &&
        [ "$(field second '{.status.revision}')" = 1 ]
}
loses_operator() {
    local delay
    steps=700 job steady "$stages3"
    for delay in 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.12 0.4 0.17; do # at many moments of its start, too
        sleep "$delay"
        kill_operator KILL
        start_operator
    done
    trains steady || return
    kill_operator KILL
    start_operator
    completes steady && [ "$(field steady '{.status.revision} {.status.restarts}')" = '1 0' ] &&
        [ "$(workers_of steady)" = 'w0-1 w1-1 w2-1 ' ]
}
start_later_operator() { local operator_options=(--worker-image missing:1) && start_operator; }
operator_away() { # a pod is lost, and the job ends, while nobody looks
    steps=300 job alone "$stages3" && trains alone || return
    kill_operator TERM
    kubectl delete "$(worker_pod alone 0)" --grace-period=1 >/dev/null
    start_later_operator
    until_true 30 revision_is alone 2 && until_true 30 is alone Running 'True Training' || return
    kill_operator KILL
    until_true 60 grep -q '"msg":"evaluated","step":300,' "$dir"/agent/logs/alone-* || return
    start_operator
    completes alone && [ "$(field alone '{.status.revision}')" = 2 ]
}
# --- the API server is away ---
pause() { hack/cluster/envtest.sh pause "$dir/api"; }
resume() { hack/cluster/envtest.sh resume "$dir/api"; }
hang() { kill -STOP "$(cat "$dir/api/kube-apiserver.pid")"; }
go_on() { kill -CONT "$(cat "$dir/api/kube-apiserver.pid")"; }
evaluations() { cat "$dir"/agent/logs/"$1"-* | awk '/"msg":"evaluated"/ { n++ } END { print n + 0 }'; }
evaluates_on() { [ "$(evaluations "$1")" -ge "$2" ]; }
away_for() { # away_for AWAY BACK: for some time, in which steps are done
    local n rc=0
    "$1"
    n=$(evaluations alone)
    until_true 60 evaluates_on alone $((n + 3)) && sleep "${AWAY_S:-5}" || rc=1
    "$2" && return "$rc"
}
long_one() { train='evaluateEverySteps: 100,' calm=undisturbed-long steps=2000 "$@"; }
without_api() {
    long_one kept alone && trains alone && away_for hang go_on && away_for pause resume || return
    completes alone 120 && [ "$(field alone '{.status.revision} {.status.restarts}')" = '1 0' ] && long_one as_undisturbed alone
}
# What cannot be written is an error after a while.
no_store() { # once the operator has listed all
    pause && API_OPTIONS='--request-timeout 2s' resume && trains alone "$(field alone '{.status.progress.step}')" &&
        kill -STOP "$(cat "$dir/api/etcd.pid")"
}
store_again() { # once the operator has seen it
    local rc=0
    was_refused '\(5..\)' || rc=1
    kill -CONT "$(cat "$dir/api/etcd.pid")" && until_true 30 kubectl get --raw /readyz && return "$rc"
}
was_refused() { until_true 60 grep -qE "\"patch [^\"]*($1)" "$dir/operator.log"; } # was_refused PATTERN: a write, with an error like this
refuses_writes() {
    long_one kept alone && trains alone && no_store && store_again && completes alone 120 &&
        [ "$(field alone '{.status.revision} {.status.restarts}')" = '1 0' ] && long_one as_undisturbed alone
}
version() { kubectl get --raw '/api/v1/namespaces?limit=1' | jq .metadata.resourceVersion -r; }
write_until() { # write_until VERSION
    local n=0
    while [ "$(version)" -le "$1" ]; do
        seq $((n + 1)) $((n += 200)) | jq '{apiVersion: "v1", kind: "ConfigMap", metadata: {name: "filler-\(.)"}}' | kubectl create -f - >/dev/null
    done
}
restore() { # the operator sees the server only once that has passed the version of what was lost
    local lost rc=0
    lost=$(version) && kill -STOP "$operator" || return
    pause && rm -rf "$dir/api/etcd" && mv "$dir/snapshot" "$dir/api/etcd" && resume && write_until "$lost" || rc=1
    kill -CONT "$operator" && return "$rc"
}
# In the older state the job has not lost the worker that it has lost since, and another job is not there yet.
# As if it had crashed then. A job may be done before the API server has been stopped and started again.
snapshot() {
    local etcd rc=0
    etcd=$(cat "$dir/api/etcd.pid") && rm -rf "$dir/snapshot" && kill -STOP "$etcd" || return
    cp -a "$dir/api/etcd" "$dir/snapshot" || rc=1
    kill -CONT "$etcd" && return "$rc"
}
restored() {
    stages=$stages2 long_one kept old && trains old && snapshot &&
        steps=20000 job young '  placement: {minStages: 1, maxStages: 1, rebalance: "Off"}' && trains young && kubectl delete "$(worker_pod old 1)" --wait=false &&
        until_true 30 revision_is old 2 && trains old 200 && restore &&
        until_true 60 no_workers_of young && completes old 180 && long_one as_undisturbed old
}
no_workers_of() { ! pgrep -f -- "skyjob-worker stage .*$dir/agent/[^ ]*$1"; }
# --- the operator dies at any call, and its watches are disturbed ---
run_noted() { # run_noted FILE: its calls are noted in the file
    export LD_PRELOAD=$PWD/$OUT/tests/support/fault_at.so FAULT_LOG=$1 FAULT_AT CLOCK_OFF_S
    run_operator
}
# What dies is started again, as its Deployment would do.
keep_operator() { # keep_operator POSITION: see tests/support/fault_at.c
    local at=$1 rc child
    trap 'kill "$child"; wait "$child"; exit' TERM
    while :; do
        FAULT_AT=$at run_noted "$dir/calls" &
        child=$!
        wait "$child"
        rc=$?
        [ "$rc" = 137 ] || exit "$rc"
        case $at in *' each') ;; *) at= ;; esac
    done
}
# life POSITION: a job of three workers that loses one. Prints what is there in the end, without what
# is the job's own in its names. The model is so small that workers wait more than they compute: lives
# may run side by side.
life() {
    local rc=0
    rm -f "$dir/calls" "$dir/calls.events"
    kill_operator TERM
    keep_operator "$1" 2>/dev/null &
    operator=$!
    { model='hiddenSize: 32, attentionHeads: 2, feedForwardSize: 64,' batch=8 steps=2000 job life "$stages3" && trains life &&
        kubectl delete "$(worker_pod life 1)" --wait=false && completes life; } >&2 || rc=1
    until_true 20 settled life >&2 || rc=1
    end_of life
    kubectl delete sj life --wait=false >&2
    until_true 20 no_pods >&2 || rc=1
    kill_operator TERM
    start_operator
    return "$rc"
}
# --- two operators ---
holder() { kubectl -n skyjob-system get lease skyjob-operator -o 'jsonpath={.spec.holderIdentity}' 2>/dev/null; }
leads_other() { [ -n "$(holder)" ] && [ "$(holder)" != "$1" ]; } # leads_other THAN
two_operators() { # the first leads
    kill_operator TERM
    operator_options=(--leader-election skyjob-system/skyjob-operator)
    rm -f "$dir/calls" "$dir/spare-calls"
    CLOCK_OFF_S=${first_off_s:-0} run_noted "$dir/calls" &
    operator=$!
    until_true 15 leads_other '' || return
    CLOCK_OFF_S=${second_off_s:-0} run_noted "$dir/spare-calls" &
    spare=$!
}
one_operator() {
    kill "$spare" "$operator" 2>/dev/null
    wait "$spare" "$operator" 2>/dev/null
    operator_options=()
    start_operator
}
# takes_over SIGNAL SECONDS: the leader gets the signal in mid-run, and the other one leads within that time.
takes_over() {
    local first
    two_operators && steps=${steps:-1200} job led "$stages3" && trains led && first=$(holder) && [ ! -e "$dir/spare-calls" ] && kill "-$1" "$operator" &&
        until_true "$2" leads_other "$first" && completes led && field led '{.status.revision} {.status.restarts}' | has '^1 0$' &&
        kubectl -n skyjob-system get events | has "$(holder) became leader"
}
checks_cluster() { # without a leader, by an account that may hardly read anything, and with a leader
    local rc=0 cli=$OUT/bin/kubectl-skyjob
    ! "$cli" check >"$dir/text" || rc=1
    cat "$dir/text"
    grep -x 'ok       crd        SkyJobs of v1alpha1 are served, with every field' "$dir/text" && grep '^problem  leader     no operator leads, ' "$dir/text" &&
        grep '^warning  operator   0 of 0 pods are ready' "$dir/text" && grep -x 'ok       create     you may create SkyJobs in the namespace default' "$dir/text" &&
        grep '^ok       capacity   3 of 3 nodes can have workers' "$dir/text" && grep '^ok       network ' "$dir/text" && grep '^ok       admission  4 ' "$dir/text" || rc=1
    ! "$cli" check --kubeconfig "$dir/operator.kubeconfig" >"$dir/text" || rc=1
    cat "$dir/text"
    grep '^unknown  crd        its schema may not be read, but ' "$dir/text" && grep '^unknown  leader ' "$dir/text" && grep '^unknown  operator ' "$dir/text" &&
        grep '^problem  create     you may not create SkyJobs in the namespace default' "$dir/text" && grep '^ok       nodes ' "$dir/text" &&
        grep '^unknown  admission ' "$dir/text" || rc=1
    two_operators && "$cli" check >"$dir/text" || rc=1
    cat "$dir/text"
    grep '^ok       leader     .* leads, by the Lease skyjob-system/skyjob-operator$' "$dir/text" || rc=1
    one_operator
    return "$rc"
}
killed_leader() { # neither clock is that of the API server, the workers and this script
    local rc=0
    first_off_s=3600 second_off_s=-3540 takes_over KILL 22 || rc=1
    one_operator
    return "$rc"
}
ended_leader() {
    local rc=0
    takes_over TERM 8 || rc=1
    one_operator
    return "$rc"
}
# It goes on without having noticed that it was stopped, while there is something to do.
stopped_leader() {
    local rc=0 calls
    takes_over STOP 22 || rc=1
    steps=4000 job busy "$stages3" && trains busy || rc=1
    calls=$(grep -cv leases "$dir/calls")
    kill -CONT "$operator"
    wait "$operator"
    [ $? = 1 ] || { echo 'the first operator did not fail'; rc=1; }
    [ "$(grep -cv leases "$dir/calls")" = "$calls" ] || { tail -n "+$calls" "$dir/calls"; rc=1; }
    one_operator
    return "$rc"
}
settled() { [ "$(kubectl get pods -l "skyjob.dev/job=$1" --field-selector status.phase=Running -o name | wc -l)" = 0 ]; }
end_of() {
    field "$1" '{.status.state} {.status.revision} {.status.restarts} {.status.progress.step} {.status.progress.loss} {.status.progress.metrics[*].value}{"\n"}'
    kubectl get pods,configmaps,secrets,networkpolicies -l "skyjob.dev/job=$1" -o name | sed -E "s/$1-[0-9a-f]{5}-/$1-/"
}
positions() { # positions LOG FAULT: every single call or event of the undisturbed life
    sort "$1" | uniq -c | while read -r n kind; do
        for ((i = 1; i <= (n > 40 ? 40 : n); i++)); do echo "$2 $i $kind"; done
    done
}
tell() { # also to who waits for all positions
    echo "$*"
    [ -z "${FAULTS:-}" ] || echo "$*" >>"$OUT/faults.log"
}
# ends_alike LOG FAULT...: the job ends alike, whichever call or event has the fault. How often it is asked for its
# status, say, differs from life to life, so one may end before a late position comes.
ends_alike() {
    local at n wrong=0 early=0
    if [ ! -s "$dir/unharmed" ]; then
        life '' >"$dir/unharmed" || { cat "$dir/unharmed"; return 1; }
        mv "$dir/calls" "$dir/unharmed-calls" && mv "$dir/calls.events" "$dir/unharmed-events"
    fi
    cat "$dir/unharmed"
    case ${FAULTS:-} in
    '') printf '%s each\n' "${@:2}" ;;
    *' '*) echo "$FAULTS" ;;
    *) echo "$FAULTS each" && positions "$1" "$FAULTS" ;;
    esac >"$dir/positions"
    while read -r at; do
        if life "$at" >"$dir/disturbed" && cmp "$dir/unharmed" "$dir/disturbed"; then
            n=$(grep -cE "^${at%% *} " "$dir/calls")
            tell "$at: as undisturbed, $n faults"
            case "$at $n" in
            *' each 0' | *' each 1') wrong=$((wrong + 1)) ;;
            *' 0') early=$((early + 1)) ;;
            esac
        else
            wrong=$((wrong + 1))
            tell "$at: NOT as undisturbed"
            cat "$dir/calls" "$dir/disturbed"
        fi
    done <"$dir/positions"
    tell "$(wc -l <"$dir/positions") lives, $wrong of them wrong, $early without the fault"
    [ "$wrong" = 0 ] && [ $((early * 10)) -lt "$(wc -l <"$dir/positions")" ]
}
dies_anywhere() { ends_alike "$dir/unharmed-calls" before after; }
sees_badly() { ends_alike "$dir/unharmed-events" repeat hold lose; }
deleted() {
    steps=4000 job gone "$stages3" && trains gone && ! "$OUT/bin/kubectl-skyjob" logs gone 2>"$dir/text" && # there is no kubelet to have them from
        grep "log of pod $(prefix gone)-w0-1 (slot 0): " "$dir/text" && grep '3 of 3 logs could not be read' "$dir/text" && "$OUT/bin/kubectl-skyjob" delete gone --wait --timeout 20 && no_pods && until_true 10 nothing_of gone &&
        until_true 5 no_workers && ! "$OUT/bin/kubectl-skyjob" delete gone 2>"$dir/text" && grep '"gone" not found' "$dir/text"
}
# ends JOB SECONDS [COMMAND...]: deleted, after the command. The garbage collector comes first, with the grace
# period of workers that are drained, and the kubelet that has begun with it takes no less.
ends() {
    local rc
    steps=4000 job "$1" "$stages3" && trains "$1" && touch "$dir/agent/first-grace" && "${@:3}" &&
        kubectl delete pods -l "skyjob.dev/job=$1" --wait=false && kubectl delete sj "$1" --wait=false && until_true "$2" no_pods
    rc=$?
    rm -f "$dir/agent/first-grace"
    return "$rc"
}
ends_at_once() { ends slow 10; }
ends_alone() {
    ends lonely 45 kill_operator TERM
    local rc=$?
    start_operator
    return "$rc"
}
no_workers() { ! pgrep -f -- "skyjob-worker stage .*$dir/agent"; }
nothing_of() { [ -z "$(kubectl get pods,networkpolicies,configmaps -l "skyjob.dev/job=$1" -o name)" ]; }
fenced() {
    job fenced "$stages3" && completes fenced && kubectl get networkpolicy fenced-workers -o yaml >"$dir/text" || return
    cat "$dir/text"
    [ "$(grep -cE '^    - port: 70(70|71|72)$|^      port: 70(70|71|72)$' "$dir/text")" = 3 ] &&
        grep -q 'kubernetes.io/metadata.name: skyjob-system' "$dir/text" &&
        [ "$(grep -c "skyjob.dev/job-uid: $(field fenced '{.metadata.uid}')" "$dir/text")" = 3 ]
}
unfenced() { # where the operator may not make any
    kubectl get clusterrole skyjob-operator -o json >"$dir/role" &&
        jq '.rules |= map(select(.apiGroups != ["networking.k8s.io"]))' "$dir/role" | kubectl apply -f - >/dev/null && sleep 2 || return
    job unfenced "$stages3" && completes unfenced
    local rc=$?
    kubectl apply -f manifests/operator.yaml >/dev/null && kubectl -n skyjob-system scale deployment --all --replicas=0 >/dev/null
    [ "$rc" = 0 ] && [ "$(has_event 'NoNetworkPolicy: .*networkpolicies' | wc -l)" = 1 ]
}
same_name() { # a new job of the same name has nothing to do with the old one's pods
    steps=4000 job twin "$stages3" && trains twin && kubectl delete sj twin --wait=false && until_true 10 test -z "$(field twin '{.metadata.name}' 2>/dev/null)"
    job twin "$stages3" && completes twin && [ "$(field twin '{.status.revision} {.status.restarts}')" = '1 0' ]
}
starts_from_model() { # every stage gets the volume, read-only, and is told where it is
    claim models ReadOnlyMany && model='from: {persistentVolumeClaim: {claimName: models, path: bert}},' job from "$stages3
  worker: {image: 'missing:1'}" && until_true 20 has_pods from 3 || return
    local pods='{range .items[*]}{.spec.volumes[?(@.name=="model")].persistentVolumeClaim.claimName}'
    pods+=' {.spec.containers[0].volumeMounts[?(@.name=="model")].mountPath}'
    pods+=' {.spec.containers[0].volumeMounts[?(@.name=="model")].subPath}'
    pods+=' {.spec.containers[0].volumeMounts[?(@.name=="model")].readOnly} {.spec.containers[0].command}{"\n"}{end}'
    pods=$(kubectl get pods -l skyjob.dev/job=from,skyjob.dev/slot -o "jsonpath=$pods")
    echo "$pods"
    [ "$(grep -c '^models /model bert true .*"--model","/model"' <<<"$pods")" = 3 ]
}
unsized() { # unsized NAME FOLDER [MODEL] [PLACEMENT]: a job whose model's own files have the sizes
    kubectl apply -f - <<Y
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: $1}
spec:
  model: {${3:-} from: {persistentVolumeClaim: {claimName: out, path: $2}}}
  data: {source: {configMap: {name: nli}}}
  training: {steps: 20, batchSize: 16, microBatches: 4, maxSequenceLength: 48}
  placement: {minStages: 2, maxStages: 2${4:-}}
Y
}
readers_of() { grep '"msg":"created"' "$dir/operator.log" | grep -c "\"name\":\"$1-[0-9a-f]*-model\""; }
reads_sizes() { # they come from the files, also for probes and a later operator, and contradictions are refused
    claim out ReadWriteMany && job begins "  output: {persistentVolumeClaim: {claimName: out, path: model}}
$stages3" && completes begins || return
    unsized reads model '' ', probePolicy: Always' && completes reads && [ "$(readers_of reads)" = 1 ] || return
    field reads '{.status.model}' && [ "$(field reads '{.status.model.hiddenSize} {.status.model.layers} {.status.model.vocabSize}')" = '128 2 3000' ] &&
        document "$(prefix reads)-r1" | jq -e '.plan.spec.model.hiddenSize == 128' &&
        [ -z "$(kubectl get pod "$(prefix reads)-model" -o name --ignore-not-found)" ] || return
    kubectl get sj reads -o yaml | sed '/^status:/,$d' >"$dir/reads.yaml"
    "$OUT/bin/kubectl-skyjob" plan -f "$dir/reads.yaml" -o json | jq -e '.stages | length == 2' || return
    sed 's/^  name: reads/  name: unread/' "$dir/reads.yaml" >"$dir/unread.yaml"
    ! "$OUT/bin/kubectl-skyjob" plan -f "$dir/unread.yaml" 2>"$dir/text" && grep 'sizes of the model in spec.model.from are not known: name a copy' "$dir/text" || return
    unsized differs model 'layers: 3, vocabSize: 9,' && until_true 30 is differs Accepted 'False InvalidSpec' &&
        has_event 'InvalidSpec: .*set spec.model.vocabSize to 3000 (is 9), spec.model.layers to 2 (is 3)'
}
no_sizes() { # what is wrong with the folder is reported, and read again once it is right
    claim out ReadWriteMany && unsized nothing empty && mkdir -p "$dir/agent/claims/out/empty" &&
        until_true 30 is nothing Placed 'False ModelNotRead' && has_event 'ModelNotRead: .*neither config.json nor bert_config.json'
}
fake_sizes() { # nothing but the pod that the operator has created is believed
    local role='skyjob.dev/role: model' sizes
    sizes=$(ended Succeeded 0 '{\"vocabSize\":9,\"hiddenSize\":8,\"layers\":1,\"attentionHeads\":1,\"feedForwardSize\":8,\"maxPositions\":64}')
    claim out ReadWriteMany && job begins "  output: {persistentVolumeClaim: {claimName: out, path: model}}
$stages3" && completes begins || return
    kill_operator KILL
    unsized tricked model && fake tricked "$(prefix tricked)-model" "$role" "$sizes"
    start_operator
    completes tricked && has_event "NameTaken: Pod $(prefix tricked)-model is not the reader" && [ "$(field tricked '{.status.model.hiddenSize}')" = 128 ]
}
has_pods() { [ "$(kubectl get pods -l "skyjob.dev/job=$1,skyjob.dev/slot" -o name | wc -l)" = "$2" ]; }
skips_steps() { # a decay of ten times the weights lets them grow until they overflow
    skip=Skip rate=10 decay=1 job wild "$stages3" && completes wild || return
    kubectl describe sj wild >"$dir/text"
    cat "$dir/text"
    grep -qE 'Skipped Steps: +[1-9]' "$dir/text" && grep -qE 'Warning +StepsSkipped' "$dir/text" &&
        grep -qE '^ +Message: .* skipped' "$dir/text"
}
cut_off_output() { # a job's own files, and weights that are kept
    claim out ReadWriteMany && job keeps "  output: {persistentVolumeClaim: {claimName: out, path: model}}
$stages3" && completes keeps && [ -s "$dir/agent/claims/out/model/config.json" ] &&
        [ -s "$dir/agent/claims/out/model/model.safetensors.index.json" ]
}
goes_on() { # a job that hardly learns judges like the one it starts from, cut another way
    local from='from: {persistentVolumeClaim: {claimName: out, path: model}},'
    claim out ReadWriteMany && job begins "  output: {persistentVolumeClaim: {claimName: out, path: model}}
$stages3" && completes begins && model=$from steps=1 rate=1e-9 job more '  placement: {minStages: 2, maxStages: 2}' && completes more || return
    field more '{.status.progress}'
    [ "$(judged begins)" = "$(judged more)" ] && [ -n "$(judged more)" ] && [ -z "$(field more '{.status.progress.randomlyInitialized}')" ] || return
    model=${from/model/nothing} job lost && kubectl wait --for=condition=Failed sj/lost --timeout=30s &&
        is lost Failed 'True InvalidConfiguration' && field lost '{.status.message}' | grep config.json
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
# fake JOB NAME LABELS STATUS [SPEC]: a pod that claims to be a part of the job, and has ended
fake() {
    kubectl create -f - >/dev/null <<Y || return
apiVersion: v1
kind: Pod
metadata:
  name: $2
  labels: {skyjob.dev/job: $1, skyjob.dev/job-uid: $(field "$1" '{.metadata.uid}'), $3}
  ownerReferences: [{apiVersion: skyjob.dev/v1alpha1, kind: SkyJob, name: $1, uid: $(field "$1" '{.metadata.uid}'), controller: true}]
  annotations: {skyjob.dev/probed-node: n1}
spec: {restartPolicy: Never, $(on_node n1), containers: [{name: worker, image: worker:test, resources: {limits: {cpu: 1m, memory: 1Mi}}}]}
Y
    kubectl patch pod "$2" --subresource=status --type merge -p "{\"status\":$4}" >/dev/null
}
on_node() {
    echo "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [$1]}]}]}}}"
}
probe_name() { # probe_name JOB NODE: with the hash of api/names.c
    local i h=$((0xcbf29ce484222325))
    for ((i = 0; i < ${#2}; i++)); do h=$(((h ^ $(printf %d "'${2:i:1}")) * 0x100000001b3)); done
    printf '%s-probe-%08x' "$(prefix "$1")" $((h & 0xffffffff))
}
measured() { kubectl get node "$1" -o jsonpath='{.metadata.labels.skyjob\.dev/measured-gflops}'; }
fake_workers() { # under a free name, as the next incarnation, and as one that is 32 bits away
    local status pod slot='skyjob.dev/role: worker, skyjob.dev/slot'
    status=$(ended Failed 2 '{\"state\":\"Failed\",\"cause\":\"Config\",\"error\":\"fake\"}')
    steps=1500 job robbed "$stages3" || return
    pod=$(prefix robbed)
    fake robbed fake "$slot: '1', skyjob.dev/incarnation: '1'" "$status" &&
        fake robbed "$pod-w1-2" "$slot: '1', skyjob.dev/incarnation: '2'" "$status" &&
        fake robbed "$pod-w0-2147483647" "$slot: '0', skyjob.dev/incarnation: '2147483647'" "$status" || return
    trains robbed 100 && [ "$(field robbed '{.status.revision}')" = 1 ] || return
    kubectl delete pod "$pod-w1-1" --wait=false >/dev/null && until_true 60 revision_is robbed 3 &&
        has_event "NameTaken: Pod $pod-w1-2 exists already" && completes robbed 240 &&
        [ "$(field robbed '{.status.revision} {.status.restarts}')" = '3 0' ]
}
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
idles() {
    local before after
    read_cpu() { awk '{print $14 + $15}' "/proc/$operator/stat"; }
    sleep 1
    before=$(read_cpu)
    sleep 10
    after=$(read_cpu)
    awk '/VmRSS/ {print $2 " KiB resident"; exit $2 > 51200}' "/proc/$operator/status" || return
    echo "$((after - before)) ticks of 10 ms in 10 s"
    [ $((after - before)) -lt 20 ] # 1% of a core is what it should be
}

# The garbage collector hears of a new kind of owner only every 30 s.
watch_garbage() {
    local uid
    job owner '  placement: {minStages: 64, maxStages: 64}' >/dev/null
    uid=$(field owner '{.metadata.uid}')
    kubectl apply -f - >/dev/null <<Y
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{apiVersion: skyjob.dev/v1alpha1, kind: SkyJob, name: owner, uid: $uid}]
Y
    kubectl delete sj owner >/dev/null
}
collects_garbage() { ! kubectl get configmap owned >/dev/null 2>&1; }

operator_set_up || exit 1
watch_garbage
nodes=('n1,2,4Gi,80' 'n2,1,2Gi,40' 'n3,500m,1Gi,20')
[ -z "${FAULTS:-}" ] || nodes[0]=n1,1,4Gi,80 # threads of several runs side by side would keep each other waiting
start_agent "${nodes[@]}"
start_operator
sleep 1
kill -0 "$operator" || { cat "$dir/operator.log"; exit 1; }

check 'a spec that breaks a rule is refused with the name of its field' bad_specs
check 'model, data and training cannot be changed, the rest can' immutable
check 'a spec that only the parser can see to be wrong is not accepted' invalid_for_the_parser
check 'every field has the same values for the API server and the programs' walks
check 'the samples are accepted' samples
check 'a manifest that init writes is accepted' inits
check 'kubectl explain describes the fields' until_true 20 explained # soon after the CRD is there
until_true 90 collects_garbage || exit 1
check 'workers are introduced within seconds of the last pod' twice first_step_in_time
check 'a plan made on the command line is the one that the operator makes' same_plan
check 'a stage that is off its plan is told, with both times' off_the_plan
check 'a worker pod that is deleted is replaced, and the others stay' loses_pod
check 'a link that breaks costs no pod and no step' loses_link
check 'a worker that is drained hands its units to one on another node, without losing a step' on_alike_nodes leaves
check 'nothing is lost when the operator dies meanwhile' on_alike_nodes leaves_meanwhile
check 'where no other node has room, the neighbours of a worker that is drained take its units' on_alike_nodes leaves_neighbours
check 'units move away from a node that is slower than planned, and the result stays the same' rebalances
check 'a worker whose pod is too small for its new share gets a larger one' grows_pod
check 'a node that comes back joins a job that trains, and the result stays the same' joins
check 'workers answer no request without the key of their job' ignores_strangers
check 'workers take a revision from their operator only' attacked_early
check 'a key that was deleted is made again for the next worker' loses_key
check 'a key of another owner is refused' foreign_key
check 'a job completes when a worker crashes' loses_process
check 'a job of two replicas trains, and loses nothing when a worker of one is lost' has_replicas
check 'a replica whose worker is drained goes on elsewhere, or is left out, and no step is lost' on_alike_nodes replica_leaves
check 'a job does without a replica that no node has room for, until one has' lacks_replica
check 'a replica that is not as fast as planned gets another share, and nothing is lost' shares_again
check 'the protocol of a job that trains is changed and changed back, with the same pods' changes_protocol
check 'replicas switch from BSP to ASP, and a worker that is lost then is replaced' switches
check 'a job goes back to its newest checkpoint when workers are lost, and when all are' goes_back
check 'a job goes on from the checkpoints of another one' goes_on_from_another
check 'a checkpoint is written on command, once, whatever happens to the operator' on_command
check 'a job ends when its evaluations no longer become better' ends_early
check 'a job without a volume goes on from copies when a pod is lost with its disk' goes_back_without_a_volume
check 'a job goes on from a bucket when a pod is lost with its disk' goes_back_to_a_bucket
check 'a job goes on from the checkpoints of another one in its bucket' goes_on_in_a_bucket
check 'a fake worker does not end a job, and names that are taken are told' fake_workers
check 'a job that may not restart fails, and leaves nothing running' gives_up
check 'a job that is suspended twice ends as one that is not' suspended
check 'a job that is suspended from the start makes no pod before it is resumed' suspended_first
check 'a job whose checkpoints go with its pods is not suspended, and says so' not_suspended
check 'a job that has ended is deleted after its time to live' expires
check 'a job that misses its deadlines fails' misses_deadlines
check 'a job that another controller manages is left alone' managed_by_another
check 'a worker out of memory gets half as much again' out_of_memory
check 'a configuration that can never work fails at once with the reason' wrong_configuration
check 'a job waits for its ConfigMap and goes on when it is there' late_data
check 'a ConfigMap without one of the files is named with the file' half_data
check 'a job waits for its claims without holding a node' late_claim
check 'a name that is taken is told, and used once it is free' name_taken
check 'a revision that is deleted is restored byte for byte, and training goes on' loses_revision
check 'workers go on from where they are when their revision is lost' forgets_revision
check 'jobs are listed as a table and as JSON, and followed to their end' lists_jobs
check 'names of jobs and nodes are completed' completes_lines
check 'an image that cannot be pulled is told, and a better one is taken' no_image
check 'too few nodes are told, and a smaller wish is granted' few_nodes
check 'a job waits for cordoned nodes' cordoned
check 'pods have what the spec says, on nodes that it selects or tolerates' with_own_pods
check 'two jobs that want the same nodes run one after the other' two_jobs
check 'the operator may be killed at any moment' loses_operator
check 'the operator may die before and after each kind of call' dies_anywhere
check 'events may come twice, late or not at all' sees_badly
check 'what happens while the operator is away is seen afterwards, and workers keep their image' operator_away
check 'a cluster is checked for what SkyJob needs' checks_cluster
check 'a leader that is killed is followed by the other operator, though their clocks are two hours apart' killed_leader
check 'a leader that ends is followed at once' ended_leader
check 'a leader that was stopped for a while ends, and calls nobody' stopped_leader
check 'workers train on while the API server hangs, and while it is away' without_api
check 'a job goes on while the API server can store nothing' refuses_writes
check 'a job goes on when the API server is restored to an older state, and one that it does not have ends' restored
check 'a job has a NetworkPolicy for its own pods and the operator' fenced
check 'a job trains without NetworkPolicy where that is refused, and says so' unfenced
check 'deleting a job leaves nothing behind' deleted
check 'the workers of a job that is deleted end at once, whatever their kubelet grants them' ends_at_once
check 'the workers of a job that is deleted while no operator runs end by themselves' ends_alone
check 'a job of the same name as a deleted one starts afresh' same_name
check 'every stage gets the model to start from' starts_from_model
check 'steps that are left out are counted, and kubectl describe shows it' skips_steps
check 'the weights are kept in the output volume' cut_off_output
check 'a job goes on from the model that another has left' goes_on
check 'the sizes of a model come from its own files' reads_sizes
check 'a model whose sizes cannot be read is reported' no_sizes
check 'fake sizes of a model are not believed' fake_sizes
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
check 'an idle operator needs hardly any CPU and less than 50 MiB' twice idles
tap_end
