#!/bin/bash
# Jobs that lose workers, links, nodes, replicas or all pods, and end as if nothing had happened; and what is made for
# that: checkpoints, and the units of those that leave.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/three_nodes.sh
. tests/support/three_nodes.sh
# shellcheck source=tests/support/bucket.sh
. tests/support/bucket.sh
at_exit "bucket_stop; operator_finish"

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
loses_link() { # all workers stay, and go on from the step that they have
    local uids
    kept cut && trains cut && uids=$(uids_of cut 0,1,2) || return
    kill -USR1 "$(worker_pid cut 1)" && until_true 30 revision_is cut 2 && has_event ConnectionLost && completes cut &&
        [ "$(field cut '{.status.restarts}')" = 0 ] && [ "$(uids_of cut 0,1,2)" = "$uids" ] &&
        [ "$(field cut '{.status.revisionStep}')" -gt 0 ] && as_undisturbed cut
}
loses_key() { # a new worker cannot mount what is gone, and the others have the old one
    steps=1000 job keyless "$stages3" && trains keyless || return
    kubectl delete secret keyless-key && kubectl delete "$(worker_pod keyless 1)" --wait=false && until_true 20 revision_is keyless 2 &&
        completes keyless && [ "$(field keyless '{.status.restarts}')" = 0 ] && kubectl get secret keyless-key && [ "$(workers_of keyless)" = 'w0-1 w1-2 w2-1 ' ]
}
loses_process() {
    steps=700 job crash "$stages3" && trains crash || return
    touch "$dir/agent/kill/$(prefix crash)-w2-1"
    until_true 20 revision_is crash 2 && has_event 'WorkerFailed: Stage 2' && [ "$(field crash '{.status.restarts}')" = 1 ] &&
        completes crash && has_event 'Recovering: Revision 2 goes on from step 0' && [ "$(workers_of crash)" = 'w0-1 w1-1 w2-2 ' ]
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
    claim out ReadWriteMany && steps=700 job asked "$stages3
  checkpoint: {keep: 9, store: {persistentVolumeClaim: {claimName: out, path: points}}}" && trains asked || return
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
    steps=700 job homeless "$stages3
  checkpoint: {mode: Never}" && trains homeless && ! "$OUT/bin/kubectl-skyjob" checkpoint homeless 2>"$dir/text" &&
        grep 'the job has no store for them. Set spec.checkpoint.store' "$dir/text" && has_event CheckpointImpossible
}
written_later() { [ "$(field "$1" '{.status.requestedCheckpoint.step}')" -gt "$2" ]; }
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
    steps=4000 job hopeless "$stages3
  failurePolicy: {maxRestarts: 0}" && trains hopeless || return
    touch "$dir/agent/kill/$(prefix hopeless)-w0-1"
    kubectl wait --for=condition=Failed sj/hopeless --timeout=30s && is hopeless Failed 'True RestartLimit' && until_true 10 none_run
}
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
out_of_memory() {
    steps=700 job hungry "$stages3" && trains hungry || return
    touch "$dir/agent/oom/$(prefix hungry)-w1-1"
    until_true 20 revision_is hungry 2 && has_event 'WorkerOutOfMemory: Stage 1' && [ "$(field hungry '{.status.memoryScalePercent}')" = 150 ] &&
        completes hungry
}

start_three_nodes || exit 1
check 'a worker pod that is deleted is replaced, and the others stay' loses_pod
check 'a link that breaks costs no pod and no step' loses_link
check 'a worker that is drained hands its units to one on another node, without losing a step' on_alike_nodes leaves
check 'nothing is lost when the operator dies meanwhile' on_alike_nodes leaves_meanwhile
check 'where no other node has room, the neighbours of a worker that is drained take its units' on_alike_nodes leaves_neighbours
check 'a key that was deleted is made again for the next worker' loses_key
check 'a job completes when a worker crashes' loses_process
check 'a job of two replicas trains, and loses nothing when a worker of one is lost' has_replicas
check 'a replica whose worker is drained goes on elsewhere, or is left out, and no step is lost' on_alike_nodes replica_leaves
check 'a job does without a replica that no node has room for, until one has' lacks_replica
check 'the protocol of a job that trains is changed and changed back, with the same pods' changes_protocol
check 'replicas switch from BSP to ASP, and a worker that is lost then is replaced' switches
check 'a job goes back to its newest checkpoint when workers are lost, and when all are' goes_back
check 'a job goes on from the checkpoints of another one' goes_on_from_another
check 'a checkpoint is written on command, once, whatever happens to the operator' on_command
check 'a job without a volume goes on from copies when a pod is lost with its disk' goes_back_without_a_volume
check 'a job goes on from a bucket when a pod is lost with its disk' goes_back_to_a_bucket
check 'a job goes on from the checkpoints of another one in its bucket' goes_on_in_a_bucket
check 'a job that may not restart fails, and leaves nothing running' gives_up
check 'a job that is suspended twice ends as one that is not' suspended
check 'a worker out of memory gets half as much again' out_of_memory
tap_end
