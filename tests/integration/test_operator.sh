#!/bin/bash
# Jobs from their spec to their end, against a real API server and with the real worker: what is refused, what is
# waited for, what pods have, what commands say, what stays when a job is deleted.
#
#   OUT=build/release tests/integration/test_operator.sh [WORD...]    only checks that name a WORD
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/three_nodes.sh
. tests/support/three_nodes.sh

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
first_step_in_time() { # Running is said within 5 s of the start of the last pod, on a busy machine 10
    kubectl delete sj prompt --ignore-not-found --timeout=60s
    job prompt "$stages3" && until_true 30 is prompt Running 'True Training' || return
    local last running
    last=$(kubectl get pods -o jsonpath='{range .items[*]}{.status.startTime}{"\n"}{end}' | sort | tail -n 1)
    running=$(field prompt '{.status.startTime}')
    echo "last pod $last, running $running"
    [ $(($(date -d "$running" +%s) - $(date -d "$last" +%s))) -le 10 ] && trains prompt
}
ignores_strangers() { # no answer without the key, which is nowhere but in its Secret and the pods' files
    steps=700 job alien "$stages3" && trains alien || return
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
    job early "$stages3" && until_true 20 has_pods early 3 || return
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
foreign_key() { # a Secret of that name that is not the job's is left alone
    kubectl create secret generic taken-key --from-literal=key=x && job taken "$stages3" || return
    until_true 20 grep -q 'secrets default/taken-key exists and does not belong' "$dir/operator.log" && no_pods &&
        kubectl delete secret taken-key && completes taken
}
ends_early() { # with a learning rate that is far too high
    model='layers: 2,' batch=16 steps=400 train=' evaluateEverySteps: 10, keepBest: accuracy, earlyStopping: {patience: 4},' rate=1e-2 \
        kept early '  checkpoint: {everySteps: 50, store: {persistentVolumeClaim: {claimName: out, path: points}}}' && completes early || return
    field early '{.status.progress}{"\n"}{.status.message}'
    local step best
    step=$(field early '{.status.progress.step}') best=$(field early '{.status.progress.best.step}')
    [ "$step" -lt 400 ] && [ "$(field early '{.status.progress.endedEarly} {.status.progress.totalSteps} {.status.progress.percentage}')" = "true $step 100" ] &&
        [ "$best" = $((step - 40)) ] && [ "$(field early '{.status.progress.best.metric}')" = accuracy ] &&
        field early '{.status.message}' | grep "Ended early: 4 evaluations in a row were not better. .* kept, was after step $best: accuracy 0" &&
        [ -e "$dir/agent/claims/out/points/$(prefix early)/1-$best/config.json" ] && [ -e "$dir/agent/claims/out/model/config.json" ]
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
    steps=9000 job slow "$stages3
  activeDeadlineSeconds: 9" && trains slow && kubectl wait --for=condition=Failed sj/slow --timeout=30s &&
        is slow Failed 'True DeadlineExceeded' && until_true 10 none_run || return
    job lonely '  placement: {minStages: 9, maxStages: 9}
  failurePolicy: {startDeadlineSeconds: 3}' && kubectl wait --for=condition=Failed sj/lonely --timeout=30s &&
        is lonely Failed 'True StartDeadlineExceeded' && field lonely '{.status.message}' | grep 'nodes can be used'
}
managed_by_another() { # and this operator's own name changes nothing
    job theirs '  managedBy: example.com/queue' && job ours '  managedBy: skyjob.dev/operator' && completes ours && [ -z "$(field theirs '{.status}')" ]
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
    field reads '{.status.model}' && [ "$(field reads '{.status.model.hiddenSize} {.status.model.layers} {.status.model.vocabSize}')" = '32 2 3000' ] &&
        document "$(prefix reads)-r1" | jq -e '.plan.spec.model.hiddenSize == 32' &&
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
    completes tricked && has_event "NameTaken: Pod $(prefix tricked)-model is not the reader" && [ "$(field tricked '{.status.model.hiddenSize}')" = 32 ]
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
    local from="$small from: {persistentVolumeClaim: {claimName: out, path: model}},"
    claim out ReadWriteMany && job begins "  output: {persistentVolumeClaim: {claimName: out, path: model}}
$stages3" && completes begins && model=$from steps=1 rate=1e-9 job more '  placement: {minStages: 2, maxStages: 2}' && completes more || return
    field more '{.status.progress}'
    [ "$(judged begins)" = "$(judged more)" ] && [ -n "$(judged more)" ] && [ -z "$(field more '{.status.progress.randomlyInitialized}')" ] || return
    model=${from/model/nothing} job lost && kubectl wait --for=condition=Failed sj/lost --timeout=30s &&
        is lost Failed 'True InvalidConfiguration' && field lost '{.status.message}' | grep config.json
}
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

start_three_nodes || exit 1
check 'a spec that breaks a rule is refused with the name of its field' bad_specs
check 'model, data and training cannot be changed, the rest can' immutable
check 'a spec that only the parser can see to be wrong is not accepted' invalid_for_the_parser
check 'every field has the same values for the API server and the programs' walks
check 'the samples are accepted' samples
check 'a manifest that init writes is accepted' inits
check 'kubectl explain describes the fields' until_true 20 explained # soon after the CRD is there
check 'workers are introduced within seconds of the last pod' twice first_step_in_time
check 'a plan made on the command line is the one that the operator makes' same_plan
check 'workers answer no request without the key of their job' ignores_strangers
check 'workers take a revision from their operator only' attacked_early
check 'a key of another owner is refused' foreign_key
check 'a job ends when its evaluations no longer become better' ends_early
check 'a fake worker does not end a job, and names that are taken are told' fake_workers
check 'a job that is suspended from the start makes no pod before it is resumed' suspended_first
check 'a job whose checkpoints go with its pods is not suspended, and says so' not_suspended
check 'a job that has ended is deleted after its time to live' expires
check 'a job that misses its deadlines fails' misses_deadlines
check 'a job that another controller manages is left alone' managed_by_another
check 'a configuration that can never work fails at once with the reason' wrong_configuration
check 'a job waits for its ConfigMap and goes on when it is there' late_data
check 'a ConfigMap without one of the files is named with the file' half_data
check 'a job waits for its claims without holding a node' late_claim
check 'a name that is taken is told, and used once it is free' name_taken
check 'jobs are listed as a table and as JSON, and followed to their end' lists_jobs
check 'names of jobs and nodes are completed' completes_lines
check 'an image that cannot be pulled is told, and a better one is taken' no_image
check 'too few nodes are told, and a smaller wish is granted' few_nodes
check 'a job waits for cordoned nodes' cordoned
check 'pods have what the spec says, on nodes that it selects or tolerates' with_own_pods
check 'two jobs that want the same nodes run one after the other' two_jobs
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
check 'an idle operator needs hardly any CPU and less than 50 MiB' twice idles
tap_end
