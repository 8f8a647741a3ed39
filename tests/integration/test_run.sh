#!/bin/bash
# `kubectl-skyjob run`: the real worker binary as local processes over real websockets.
# Prints TAP. Arguments: only the checks whose sentence has one of these words.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
tap_only=("$@")
bin=${OUT:-build/release}/bin
work=$(mktemp -d)
# shellcheck source=tests/support/bucket.sh
. tests/support/bucket.sh
at_exit "bucket_stop; rm -rf $work"

# A short job with everything that could depend on the cut: dropout, warm-up, clipping.
cat >"$work/job.yaml" <<'E2'
apiVersion: skyjob.dev/v1alpha1
kind: SkyJob
metadata: {name: short}
spec:
  model: {preset: BertTiny, vocabSize: 512, maxPositions: 64}
  data: {task: MNLI, source: {sample: MNLI}}
  training:
    steps: 30
    batchSize: 32
    microBatches: 8
    maxSequenceLength: 64
    optimizer: {learningRate: "1e-3"}
E2
# On a slow network, so that a small job lasts until it is disturbed; links are cut by SIGUSR1.
support=$PWD/${OUT:-build/release}/tests/support
cat >"$work/worker" <<E2
#!/bin/sh
SEND_PAUSE_US=250 LD_PRELOAD=$support/cut_link.so:$support/slow_send.so exec "$PWD/$bin/skyjob-worker" "\$@"
E2
chmod +x "$work/worker"
export SKYJOB_WORKER=$work/worker
run() { # run NAME WORKERS [ARGUMENT...]
    local name=$1 workers=$2
    shift 2
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/job.yaml" --workers "$workers" \
        --data build/sample/mnli --output "$work/$name" "$@" >"$work/$name.log" 2>&1
}

last_loss() { grep -o '"loss":[^,}]*' "$work/$1.log" | tail -1; }
one() { run one cpu=1 || { cat "$work/one.log"; return 1; }; }
check 'a job runs on one worker' one
same() { # same NAME WORKERS STRATEGY [ARGUMENT...]
    run "$1" "$2" --strategy "${@:3}" || { cat "$work/$1.log"; return 1; }
    echo "$(weights_of "$work/one") / $(weights_of "$work/$1")"
    [ "$(weights_of "$work/one")" = "$(weights_of "$work/$1")" ]
}
check 'two workers give the same weights, bit for bit' same two cpu=1,cpu=1 Even
check 'three uneven workers give the same weights, bit for bit' same three cpu=0.3,cpu=0.6,cpu=1 Even
check 'three workers, one micro-batch at a time, give the same weights' same serial cpu=1,cpu=1,cpu=1 Even --serial
# The model moves while it is trained: workers come and go, and the first stage is another's.
revised() { # revised NAME STRATEGY [ARGUMENT...]: the weights, evaluations and losses of a run that is left alone
    same "$1" cpu=1,cpu=1,cpu=1,cpu=1 "${@:2}" --revise 7=0:2,1:5 --revise 15=3:1,2:3,1:3 --revise 22=3:4,0:3 || return
    cat "$work/$1.log"
    [ "$(grep -c '^revision [234] from step' "$work/$1.log")" = 3 ] && [ "$(judged "$1")" = "$(judged one)" ] &&
        [ "$(losses "$1")" = "$(losses one)" ] && [ "$(losses one | wc -l)" = 30 ]
}
losses() { jq -c 'select(.loss) | [.step, .loss]' "$work/$1/history.jsonl"; }
judged() { grep '^evaluated at step' "$work/$1.log" | tail -n 1 | sed 's/.*: //'; }
check 'a run whose model moves at steps 7, 15 and 22 ends with the same weights, losses and metrics' revised revised Even
has_shards() { [ "$(find "$work/three" -name 'model-*.safetensors' | wc -l)" = 3 ] &&
    grep -q 'classifier.weight' "$work/three/model.safetensors.index.json"; }
check 'every stage writes its shard and the head the index' has_shards

replaced() { # by a run that is cut another way: nothing of the old model stays
    cp -r "$work/three" "$work/over"
    run over cpu=1 || { cat "$work/over.log"; return 1; }
    find "$work/over"
    [ "$(find "$work/over" -name 'model*' -printf '%f ')" = 'model.safetensors ' ] &&
        [ -z "$(find "$work/over" -name '.skyjob-*-r*')" ] &&
        [ "$(weights_of "$work/over")" = "$(weights_of "$work/one")" ]
}
check 'a run replaces an older model as a whole' replaced

goes_on() { # a run that hardly learns judges like the one whose model it starts from
    sed -e 's/steps: 30/steps: 1/' -e 's/"1e-3"/"1e-9"/' -e 's/^  model: .*/  model: {}/' "$work/job.yaml" >"$work/more.yaml"
    grep -q 'model: {}' "$work/more.yaml" || return 1 # its sizes are those of the model
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/more.yaml" --workers cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --model "$work/one" >"$work/more.log" 2>&1
    cat "$work/more.log"
    [ "$(judged one)" = "$(judged more)" ] && [ -n "$(judged more)" ]
}
check 'a run goes on from the model that another has left' goes_on

fenced() { # another run claims the output while this one trains: the model stays aside, whole
    local pid
    sed 's/steps: 30/steps: 150/' "$work/job.yaml" >"$work/fenced.yaml"
    cp -r "$work/one" "$work/fenced"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/fenced.yaml" --workers cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/fenced" >"$work/fenced.log" 2>&1 &
    pid=$!
    until_true 60 grep -q '^step ' "$work/fenced.log"
    echo '{"uid": "another", "attempt": 1}' >"$work/fenced/.skyjob-revision"
    wait "$pid" && return 1
    cat "$work/fenced.log"
    find "$work/fenced"
    grep -q 'training is complete, but stage 0 could not save its output: another job (another)' "$work/fenced.log" &&
        [ "$(weights_of "$work/fenced")" = "$(weights_of "$work/one")" ] &&
        [ "$(find "$work/fenced" -path '*/.skyjob-*-r1/model-*' | wc -l)" = 2 ]
}
check 'a run does not write over the output of a newer one' fenced

evaluates() { # steps: 0, with data that have no training file
    mkdir "$work/held" && cp build/sample/mnli/{dev_matched.tsv,vocab.txt} "$work/held" &&
        cut -f1-10 build/sample/mnli/dev_matched.tsv | head -n 21 >"$work/held/test_matched.tsv"
    sed 's/steps: 30/steps: 0/' "$work/job.yaml" >"$work/nosteps.yaml"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/nosteps.yaml" --workers cpu=1,cpu=1 --strategy Even \
        --data "$work/held" --model "$work/one" --output "$work/judged" >"$work/judged.log" 2>&1
    cat "$work/judged.log"
    ls "$work/judged"
    [ "$(judged one)" = "$(judged judged)" ] && grep '^done: 0 steps in' "$work/judged.log" || return
    [ "$(wc -l <"$work/judged/MNLI-m.tsv")" -ge 20 ] && [ "$(weights_of "$work/judged")" = "$(weights_of "$work/one")" ]
}
check 'without steps a model is evaluated and predicts, and stays as it is' evaluates

shows_evaluations() { # as they happen, at the end in one line, and all of them in a file
    local line
    sed 's/steps: 30/steps: 30\n    evaluateEverySteps: 10/' "$work/job.yaml" >"$work/often.yaml"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/often.yaml" --workers cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/often" >"$work/often.log" 2>&1
    cat "$work/often.log"
    [ "$(grep -cE '^evaluated at step [123]0: accuracy [0-9.]+, evalLoss [0-9.]+$' "$work/often.log")" = 3 ] || return
    line="model in $work/often"
    tail -n 1 "$work/often.log" | grep -E "^done: 30 steps in [0-9:]+, [0-9,]+ tokens/s, loss [0-9.]+, $(judged often), $line\$" || return
    [ "$(jq -cs '[map(select(.loss)), map(select(.metrics.accuracy))] | map(length)' "$work/often/history.jsonl")" = '[30,3]' ]
}
check 'a run shows every evaluation, sums up in a line and keeps the history' shows_evaluations

# Links are cut while the job trains, on either end: nobody dies, and no step is lost.
sed -e 's/steps: 30/steps: 300/' -e 's/batchSize: 32/batchSize: 8/' -e 's/microBatches: 8/microBatches: 4/' "$work/job.yaml" >"$work/longer.yaml"
recovers() {
    local pid run slot n
    for n in whole cut; do
        timeout 120 "$bin/kubectl-skyjob" run -f "$work/longer.yaml" --workers cpu=1,cpu=1,cpu=1 \
            --strategy Even --data build/sample/mnli --output "$work/$n" >"$work/$n.log" 2>&1 &
        pid=$!
        until_true 60 grep -q '^step ' "$work/$n.log"
        run=$(pgrep -P "$pid") # $pid is timeout's
        for slot in 1 0 2; do
            [ $n = whole ] || pkill -USR1 -P "$run" -f -- "--slot $slot"
            sleep 0.7
        done
        wait "$pid" || { cat "$work/$n.log"; return 1; }
    done
    cat "$work/cut.log"
    [ "$(grep -c '^revision [0-9]* from step [1-9]' "$work/cut.log")" -ge 2 ] && ! grep -q '^revision' "$work/whole.log" &&
        [ "$(weights_of "$work/cut")" = "$(weights_of "$work/whole")" ] && [ "$(losses cut)" = "$(losses whole)" ]
}
check 'a run goes on from the step at which a link was cut' recovers

# Workers are killed, each in turn: each is started anew, and all go back to the newest checkpoint.
sed -e 's/^  training:/&\n    evaluateEverySteps: 50/' -e 's/^spec:/spec:\n  checkpoint: {everySteps: 10}/' "$work/longer.yaml" >"$work/saved.yaml"
begin_saved() { # begin_saved NAME [ARGUMENT...]: sets $pid, timeout's, and $run, its child's
    local name=$1
    shift
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1,cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/$name" --checkpoints "$work/$name.points" "$@" >"$work/$name.log" 2>&1 &
    pid=$!
    until_true 60 has_checkpoint "$work/$name.points" || return
    run=$(pgrep -P "$pid")
}
is_whole() { # is_whole NAME: the result of the run that was left alone
    echo "$(weights_of "$work/$1") / $(weights_of "$work/whole")"
    [ "$(weights_of "$work/$1")" = "$(weights_of "$work/whole")" ] && [ "$(losses "$1")" = "$(losses whole)" ]
}
killed() {
    local pid run slot n=0
    begin_saved killed || return
    for slot in 1 0 2; do
        pkill -KILL -P "$run" -f -- "--slot $slot"
        until_true 60 has_revisions killed $((++n)) || break
    done
    wait "$pid" || { cat "$work/killed.log"; return 1; }
    cat "$work/killed.log"
    find "$work/killed.points"
    [ "$(grep -c '^revision [0-9]* from step [1-9].*signal 9' "$work/killed.log")" -ge 3 ] && is_whole killed
}
has_revisions() { [ "$(grep -c '^revision' "$work/$1.log")" -ge "$2" ]; } # has_revisions NAME NUMBER: after the first
check 'a run goes on from a checkpoint when workers are killed' killed

# Two replicas, each of which has one of two micro-batches, wherever their stages are.
replicas() { # replicas NAME [SLOT...]: kills those workers, one after the other
    local name=$1 pid run slot n=0
    shift
    sed -e 's/^spec:/spec:\n  replicas: 2/' -e 's/microBatches: 4/microBatches: 2/' \
        -e 's/^  training:/  placement: {minStages: 2, maxStages: 2}\n&/' "$work/saved.yaml" >"$work/replicas.yaml"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/replicas.yaml" --workers cpu=1,cpu=1,cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/$name" >"$work/$name.log" 2>&1 &
    pid=$!
    until_true 60 grep -q '^step ' "$work/$name.log"
    run=$(pgrep -P "$pid")
    for slot; do
        sleep 1
        pkill -KILL -P "$run" -f -- "--slot $slot"
        until_true 60 has_revisions "$name" $((++n)) || break
    done
    wait "$pid"
}
replicas_killed() {
    replicas replicas || { cat "$work/replicas.log"; return 1; }
    replicas fewer 3 0 || { cat "$work/fewer.log"; return 1; }
    cat "$work/fewer.log"
    grep -q 'with 2 replicas of 2 and 2 stages, which compute 1 and 1 of 2 micro-batches' "$work/fewer.log" &&
        [ "$(grep -c '^revision' "$work/fewer.log")" -ge 2 ] && [ "$(weights_of "$work/fewer")" = "$(weights_of "$work/replicas")" ] &&
        [ "$(losses fewer)" = "$(losses replicas)" ] && [ "$(losses replicas | wc -l)" = 300 ]
}
check 'two replicas go on when workers of either are killed, with the same weights and losses' replicas_killed

# Replicas that are out of step after 100 of 300 steps, with the second one at a third of the speed of the
# first. The bits depend on who is first, so the loss is compared with that of the start.
free() { # free NAME SYNC [SLOT]: kills that worker when replicas are free
    local name=$1 pid run
    sed -e "s/^spec:/spec:\\n  sync: {protocol: Switch, switchAfterSteps: 100, $2}\\n  replicas: 2/" -e 's/everySteps: 10/everySteps: 50/' "$work/saved.yaml" >"$work/free.yaml"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/free.yaml" --workers cpu=0.9,cpu=0.3 --strategy Even \
        --data build/sample/mnli --output "$work/$name" >"$work/$name.log" 2>&1 &
    pid=$!
    until_true 60 grep -qE '^evaluated at step 1[2-9]' "$work/$name.log"
    run=$(pgrep -P "$pid")
    if [ $# -gt 2 ]; then pkill -KILL -P "$run" -f -- "--slot $3"; fi
    wait "$pid"
}
is_free() { # is_free NAME: it has all steps, and has learned
    losses "$1" | jq -s -e '.[-1][0] == 300 and (map(.[1]) | min) < .[0][1]' && ls "$work/$1"/model*.safetensors
}
replicas_free() {
    free "$1" "$2" || { cat "$work/$1.log"; return 1; }
    cat "$work/$1.log"
    is_free "$1"
}
local='switchTo: Local, localSteps: 20'
check 'two replicas switch from BSP to ASP, and the job ends with all of its steps' replicas_free free 'switchTo: ASP'
check 'two replicas switch from BSP to Local, and the job ends with all of its steps' replicas_free local "$local"
check 'two replicas that send a fiftieth of their gradients end with all steps as well' replicas_free sparse 'gradientPercent: 2'
free_killed() { # free_killed NAME SYNC
    free "$1" "$2" 1 || { cat "$work/$1.log"; return 1; }
    cat "$work/$1.log"
    has_revisions "$1" 1 && is_free "$1"
}
check 'a worker of a free replica is killed, and the job goes on from a checkpoint' free_killed free.killed 'switchTo: ASP'
check 'a worker of a replica that trains alone is killed, and the job goes on from a checkpoint' free_killed local.killed "$local"

# A node is lost: a worker, and its disk with its own checkpoints and copies of another worker's.
sed 's/{everySteps: 10}/{everySteps: 10, store: {peers: {}}}/' "$work/saved.yaml" >"$work/peers.yaml"
loses_node() {
    local pid run
    mkdir "$work/tmp"
    TMPDIR=$work/tmp timeout 120 "$bin/kubectl-skyjob" run -f "$work/peers.yaml" --workers cpu=1,cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/lost" >"$work/lost.log" 2>&1 &
    pid=$!
    until_true 60 has_copies || return
    run=$(pgrep -P "$pid")
    pkill -KILL -P "$run" -f -- "--slot 1"
    rm -rf "$work"/tmp/skyjob-*/run.*/worker-1-checkpoints
    wait "$pid" || { cat "$work/lost.log"; return 1; }
    cat "$work/lost.log"
    find "$work/tmp"
    grep -q '^revision 2 from step [1-9].*signal 9' "$work/lost.log" && is_whole lost && [ -z "$(ls "$work"/tmp/skyjob-*)" ]
}
has_copies() { has_checkpoint "$work"/tmp/skyjob-*/run.*/worker-[02]-checkpoints; } # without those of worker 1
check 'a run without a volume goes on from copies when a node is lost' loses_node

# The same with a bucket, on a real S3 server.
begin_in_bucket() { # begin_in_bucket NAME: sets $pid, timeout's, and $run, its child's
    [ -n "$bucket_pid" ] || { bucket_build && bucket_start "$work/s3"; } || return
    mkdir "$work/$1.tmp"
    TMPDIR=$work/$1.tmp timeout 180 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1,cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --output "$work/$1" --checkpoints "s3://runs/of/$1" >"$work/$1.log" 2>&1 &
    pid=$!
    until_true 60 has_checkpoint "$work/s3/disk/runs/of/$1" || return
    run=$(pgrep -P "$pid")
}
loses_disk() {
    local pid run
    begin_in_bucket spared || return
    pkill -KILL -P "$run" -f -- "--slot 1"
    rm -rf "$work"/spared.tmp/skyjob-*/run.*/worker-1-checkpoints
    wait "$pid" || { cat "$work/spared.log"; return 1; }
    cat "$work/spared.log"
    find "$work/s3/disk" -path '*/of/*'
    grep -q '^revision 2 from step [1-9].*signal 9' "$work/spared.log" && is_whole spared &&
        [ "$(find "$work/s3/disk/runs/of/spared" -mindepth 1 -maxdepth 1 -type d -exec test -e {}/config.json \; -print | wc -l)" -le 3 ]
}
check 'a run goes on from a bucket when a worker and its disk are lost' loses_disk
resumed_from_bucket() { # on other disks, and other workers
    local pid run rc
    begin_in_bucket again || return
    kill -KILL "$run"
    wait "$pid"
    timeout 60 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1 --data build/sample/mnli \
        --checkpoints s3://runs/of/again >"$work/again.log" 2>&1
    rc=$?
    cat "$work/again.log"
    [ $rc = 2 ] && grep -q 'is not empty: add --resume' "$work/again.log" || return
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1,cpu=1 --strategy Even --resume \
        --data build/sample/mnli --output "$work/again" --checkpoints s3://runs/of/again >"$work/again.log" 2>&1
    rc=$?
    cat "$work/again.log"
    [ $rc = 0 ] && grep -q '^revision 2 from step [1-9][0-9]* on 2 workers' "$work/again.log" && is_whole again
}
check 'an interrupted run goes on from a bucket, on empty disks' resumed_from_bucket
bucket_refuses() {
    [ -n "$bucket_pid" ] || { bucket_build && bucket_start "$work/s3"; } || return
    AWS_SECRET_ACCESS_KEY=other refused 2 'the secret access key is wrong' -f "$work/job.yaml" --workers cpu=1 \
        --data build/sample/mnli --checkpoints s3://runs/x &&
        refused 2 'there is no such bucket' -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --checkpoints s3://none/x &&
        AWS_ACCESS_KEY_ID='' refused 2 'set AWS_ACCESS_KEY_ID' -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --checkpoints s3://runs/x
}
mixed() {
    local job=(-f "$work/saved.yaml" --workers cpu=1 --data build/sample/mnli)
    AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secret refused 2 'must be in the bucket of --checkpoints, runs: copy' "${job[@]}" --checkpoints s3://runs/x --resume-from s3://other/y &&
        refused 2 'must be an s3:// URL, as --checkpoints is: copy' "${job[@]}" --checkpoints s3://runs/x --resume-from "$work/first.points" &&
        refused 2 'must be a folder, as --checkpoints is: copy' "${job[@]}" --checkpoints "$work/mixed.points" --resume-from s3://runs/x
}
keeps_two() { # of the last lineage, of which one is the last step
    local last
    last=$(find "$work/killed.points" -mindepth 1 -maxdepth 1 -name '*-300')
    find "$work/killed.points"
    [ "$(find "$work/killed.points" -mindepth 1 -maxdepth 1 | wc -l)" -le 3 ] && is_model "$last" && is_model "$work/killed"
}
header_of() { head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9; } # header_of FILE.safetensors
is_model() { # is_model FOLDER: what from_pretrained needs to load all of it; tensors of the optimizer it leaves alone
    local file
    for file in "$1"/model-0*.safetensors; do
        header_of "$file" | jq -e '.__metadata__.format == "pt"' >/dev/null || return
        header_of "$file" | jq -r --arg file "${file##*/}" 'keys[] | select(test("^(__|optimizer)") | not) | "\(.) \($file)"'
    done | sort >"$work/tensors"
    jq -r '.weight_map | to_entries[] | "\(.key) \(.value)"' "$1/model.safetensors.index.json" | sort | cmp - "$work/tensors" &&
        [ "$(wc -l <"$work/tensors")" = 41 ] && # 5 of the embeddings, 16 a layer, 2 each of pooler and classifier
        jq -e '.architectures == ["BertForSequenceClassification"] and .num_hidden_layers == 2 and .vocab_size == 512 and (.id2label | length) == 3' "$1/config.json"
}
check 'only the newest checkpoints are kept, and each is a model' keeps_two

# SIGUSR1 to the run asks for a checkpoint: of a job that would write none for minutes.
sed 's/{everySteps: 10}/{keep: 9}/' "$work/saved.yaml" >"$work/rarely.yaml"
commanded() { # commanded NAME [ARGUMENT...]: asked when it trains
    local name=$1 pid run
    shift
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/rarely.yaml" --workers "${workers:-cpu=1,cpu=1,cpu=1}" --strategy Even \
        --data build/sample/mnli "$@" >"$work/$name.log" 2>&1 &
    pid=$!
    until_true 60 grep -q '^step ' "$work/$name.log" || return
    run=$(pgrep -P "$pid")
    kill -USR1 "$run"
    wait "$pid"
}
on_command() { # a single worker has none to keep its checkpoints for it
    local step
    commanded commanded --checkpoints "$work/commanded.points" --output "$work/commanded" || { cat "$work/commanded.log"; return 1; }
    workers=cpu=1 commanded without || { cat "$work/without.log"; return 1; }
    cat "$work/commanded.log" "$work/without.log"
    ls "$work/commanded.points"
    step=$(sed -n 's/^checkpoint of step \([0-9]*\) written$/\1/p' "$work/commanded.log")
    [ "$step" -lt 300 ] && [ -e "$work/commanded.points/1-$step/model-00003-of-00003.json" ] && is_whole commanded &&
        [ "$(find "$work/commanded.points" -mindepth 1 -maxdepth 1 | wc -l)" = 2 ] && # the other is of the last step
        grep -q '^no checkpoint: this run has no place for them; start it with --checkpoints DIR' "$work/without.log"
}
check 'a checkpoint is written on command, once' on_command

resumed() { # the run itself is killed, and its workers with it
    local pid run rc
    begin_saved resumed || return
    kill -KILL "$run"
    wait "$pid"
    timeout 60 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1 --data build/sample/mnli \
        --checkpoints "$work/resumed.points" >"$work/resumed.log" 2>&1
    rc=$?
    cat "$work/resumed.log"
    [ $rc = 2 ] && grep -q 'is not empty: add --resume' "$work/resumed.log" || return
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1,cpu=1 --strategy Even --resume \
        --data build/sample/mnli --output "$work/resumed" --checkpoints "$work/resumed.points" >"$work/resumed.log" 2>&1
    rc=$?
    cat "$work/resumed.log"
    [ $rc = 0 ] && grep -q '^revision 2 from step [1-9][0-9]* on 2 workers' "$work/resumed.log" && is_whole resumed
}
check 'an interrupted run goes on from its last checkpoint, on other workers' resumed

# Another job goes on from what one has left that was interrupted, in a folder of its own.
heir() { # heir NAME [ARGUMENT...]: from the checkpoints in first.points
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/${job:-saved}.yaml" --workers cpu=1,cpu=1 --strategy Even --data build/sample/mnli \
        --output "$work/$1" --checkpoints "${points:-$work/$1.points}" --resume-from "${from_url:-$work/${from:-first}.points}" >"$work/$1.log" 2>&1
}
inherited() {
    local pid run
    begin_saved first || return
    kill -KILL "$run"
    wait "$pid"
    find "$work/first.points" -type f | sort | xargs sha256sum >"$work/first.sums"
    heir second || { cat "$work/second.log"; return 1; }
    cat "$work/second.log"
    find "$work/first.points" -type f | sort | xargs sha256sum | cmp - "$work/first.sums" &&
        grep -q '^revision 2 from step [1-9][0-9]* on 2 workers' "$work/second.log" && is_whole second
}
check 'a run goes on from the checkpoints of another one, on fewer workers, and leaves those alone' inherited
longer() { # and trains on where that has ended
    sed 's/steps: 300/steps: 320/' "$work/saved.yaml" >"$work/further.yaml"
    job=further from=second heir third || { cat "$work/third.log"; return 1; }
    cat "$work/third.log"
    grep -q '^revision 2 from step 300 ' "$work/third.log" && grep -q '^done: 320 steps' "$work/third.log" && [ "$(losses third | wc -l)" = 320 ]
}
check 'a run trains on where another one has ended' longer
disinherited() {
    sed -e 's/batchSize: 8/batchSize: 16/' -e 's/^  training:/&\n    seed: 9/' "$work/saved.yaml" >"$work/unlike.yaml"
    job=unlike heir unlike
    cat "$work/unlike.log"
    grep -q 'spec.training.batchSize is 8 there and 16 here, spec.training.seed is 42 there and 9 here' "$work/unlike.log" || return
    from=none heir none
    cat "$work/none.log"
    grep -q -- '--resume-from: .*none.points' "$work/none.log"
}
check 'a run does not go on from the checkpoints of another one with other data, and names the fields' disinherited

# The same in a bucket, where the first job's checkpoints are under another prefix.
inherited_in_bucket() { # as from a folder: what the first job has left is there, too
    local sums=$work/s3.sums
    [ -n "$bucket_pid" ] || { bucket_build && bucket_start "$work/s3"; } || return
    [ -e "$work/first.points" ] || inherited || return
    mkdir -p "$work/s3/disk/runs/heirs" && cp -r "$work/first.points" "$work/s3/disk/runs/heirs/first" || return
    find "$work/s3/disk/runs/heirs/first" -type f | sort | xargs sha256sum >"$sums"
    points=s3://runs/heirs/fourth from_url=s3://runs/heirs/first heir fourth || { cat "$work/fourth.log"; return 1; }
    cat "$work/fourth.log"
    find "$work/s3/disk/runs/heirs"
    echo "$(weights_of "$work/second") / $(weights_of "$work/fourth")"
    find "$work/s3/disk/runs/heirs/first" -type f | sort | xargs sha256sum | cmp - "$sums" &&
        [ "$(grep -o '^revision 2 from step [0-9]*' "$work/fourth.log")" = "$(grep -o '^revision 2 from step [0-9]*' "$work/second.log")" ] &&
        [ "$(weights_of "$work/second")" = "$(weights_of "$work/fourth")" ] && is_whole fourth
}
check 'a run goes on from the checkpoints of another one in its bucket, with the same weights as from a folder' inherited_in_bucket

damaged() { # wrong bytes in the newest checkpoint: it is set aside, and the one before is used
    local point step
    cp -r "$work/killed.points" "$work/damaged.points"
    point=$(find "$work/damaged.points" -mindepth 1 -maxdepth 1 -name '*-300')
    ls "$work/damaged.points"
    printf '\377%.0s' {1..16} | dd of="$point/model-00002-of-00003.safetensors" bs=1 seek=100000 conv=notrunc 2>/dev/null
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/saved.yaml" --workers cpu=1,cpu=1 --strategy Even --resume \
        --data build/sample/mnli --output "$work/damaged" --checkpoints "$work/damaged.points" >"$work/damaged.log" 2>&1 || {
        cat "$work/damaged.log"
        return 1
    }
    cat "$work/damaged.log"
    step=$(sed -n 's/^revision [0-9]* from step \([0-9]*\) .*/\1/p' "$work/damaged.log" | tail -n 1)
    [ "$step" -lt 300 ] && [ -e "$(echo "$work"/killed.points/*"-$step")" ] && [ -e "$point.refused" ] && is_whole damaged
}
check 'a damaged checkpoint is set aside, and the one before is used' damaged

# The learning rate is far too high, so evaluations are at their best long before the end.
mkdir "$work/tested" && cp build/sample/mnli/* "$work/tested" &&
    cut -f1-10 build/sample/mnli/dev_matched.tsv | head -n 21 >"$work/tested/test_matched.tsv"
sed -e 's/steps: 30/steps: 300/' -e 's/"1e-3"/"1e-2", learningRateSchedule: Constant, warmupRatio: "0"/' \
    -e 's/^  training:/&\n    evaluateEverySteps: 10/' "$work/job.yaml" >"$work/last.yaml"
sed -e 's/^  training:/&\n    keepBest: accuracy/' -e 's/^spec:/&\n  checkpoint: {everySteps: 40, keep: 1}/' \
    "$work/last.yaml" >"$work/best.yaml"
sed 's/^  training:/&\n    earlyStopping: {patience: 3}/' "$work/best.yaml" >"$work/early.yaml"
judge() { # judge NAME FILE [ARGUMENT...]
    local name=$1 file=$2
    shift 2
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/$file.yaml" --workers cpu=1,cpu=1 --strategy Even --data "$work/tested" \
        --output "$work/$name" "$@" >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; return 1; }
}
evaluations() { jq -cs "map(select(.metrics) | [.step, .metrics.accuracy]) | $2" "$work/$1/history.jsonl"; } # evaluations NAME FILTER
best_of() { evaluations "$1" 'sort_by(-.[1])[0][0]'; } # of equal ones the earliest: the sort is stable
has_best_of() { # has_best_of NAME STEP: the weights and predictions of a run of so many steps
    [ -e "$work/until-$2" ] || {
        sed "s/steps: 300/steps: $2/" "$work/last.yaml" >"$work/until.yaml"
        judge "until-$2" until || return
    }
    echo "$(weights_of "$work/$1") / $(weights_of "$work/until-$2")"
    [ "$(weights_of "$work/$1")" = "$(weights_of "$work/until-$2")" ] && cmp "$work/$1/MNLI-m.tsv" "$work/until-$2/MNLI-m.tsv"
}
keeps_best() {
    judge best best --checkpoints "$work/best.points" || return
    cat "$work/best.log"
    evaluations best .
    best=$(best_of best)
    [ "$best" -lt 250 ] && has_best_of best "$best" && grep "best evaluation .* at step $best$" "$work/best.log" &&
        [ "$(find "$work/best.points" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort)" = "$(printf '%s\n' "1-$best" 1-280 1-300 | sort)" ] &&
        grep '^done: 300 steps' "$work/best.log"
}
check 'a run keeps the weights of its best evaluation' keeps_best
ends_early() {
    judge early early --checkpoints "$work/early.points" || return
    cat "$work/early.log"
    evaluations early .
    local last
    last=$(evaluations early 'last[0]')
    [ "$last" -lt 300 ] && [ "$last" = $(($(best_of early) + 30)) ] && has_best_of early "$(best_of early)" &&
        grep "^done: $last steps" "$work/early.log" && grep "ended early .*at step $last:" "$work/early.log" &&
        [ -e "$work/early.points/1-$last" ]
}
check 'a run ends after three evaluations that are not better' ends_early
begin_judged() { # begin_judged NAME: sets $pid and $run; returns after the evaluation behind the best
    judge "$1" best --checkpoints "$work/$1.points" &
    pid=$!
    until_true 60 grep -q "^evaluated at step $((best + 10)):" "$work/$1.log" || return
    run=$(pgrep -f -- "^[^ ]*kubectl-skyjob run .* --output $work/$1 ")
}
best_survives() { # the leader's death behind the best evaluation, and with it that of the records
    local pid run
    begin_judged lost && pkill -KILL -P "$run" -f -- '--slot 0' && wait "$pid" || return
    cat "$work/lost.log"
    grep -q '^revision 2 from step [1-9]' "$work/lost.log" && [ "$(evaluations lost .)" = "$(evaluations best .)" ] &&
        has_best_of lost "$best"
}
check 'the best weights survive a leader that is killed' best_survives
best_resumed() { # on one worker instead of two
    local pid run
    begin_judged again || return
    kill -KILL "$run"
    wait "$pid"
    timeout 120 "$bin/kubectl-skyjob" run -f "$work/best.yaml" --workers cpu=1 --data "$work/tested" --resume \
        --output "$work/again" --checkpoints "$work/again.points" >"$work/again.log" 2>&1 || { cat "$work/again.log"; return 1; }
    cat "$work/again.log"
    grep -q '^revision 2 from step [1-9]' "$work/again.log" && has_best_of again "$best"
}
check 'the best weights survive an interrupted run' best_resumed
early_is_final() { # a run that has ended early and is resumed does not train on
    local last
    last=$(evaluations early 'last[0]')
    judge early early --checkpoints "$work/early.points" --resume || return
    cat "$work/early.log"
    grep "^done: $last steps" "$work/early.log" && has_best_of early "$(best_of early)"
}
check 'a run that has ended early does not go on when it is resumed' early_is_final

of_another_model() { # nothing is lost
    sed 's/vocabSize: 512/vocabSize: 513/' "$work/saved.yaml" >"$work/other.yaml"
    refused 2 'has F32 \[513, 128\].*give the job a checkpoint folder of its own' -f "$work/other.yaml" --workers cpu=1 --data build/sample/mnli \
        --checkpoints "$work/resumed.points" --resume && [ -z "$(find "$work/resumed.points" -name '*.refused')" ]
}
dies_again() {
    local rc
    cat >"$work/dying" <<E2
#!/bin/sh
[ "\$1" = stage ] && kill -KILL \$\$
exec "$PWD/$bin/skyjob-worker" "\$@"
E2
    chmod +x "$work/dying"
    SKYJOB_WORKER=$work/dying timeout 120 "$bin/kubectl-skyjob" run -f "$work/job.yaml" --workers cpu=1 \
        --data build/sample/mnli >"$work/dying.log" 2>&1
    rc=$?
    cat "$work/dying.log"
    [ $rc = 1 ] && grep -q 'no progress after step 0: .* was ended by signal 9' "$work/dying.log"
}
check 'a worker that is killed again and again ends the run with exit code 1' dies_again

refused() { # refused CODE WORDS ARGUMENT...
    local code=$1 words=$2 out rc
    shift 2
    out=$(timeout 60 "$bin/kubectl-skyjob" run "$@" 2>&1)
    rc=$?
    echo "exit $rc: $out"
    [ "$rc" -eq "$code" ] && grep -q -- "$words" <<<"$out"
}
check 'checkpoints of another model are refused, and stay' of_another_model
check 'a bucket that cannot be used is named, with the reason' bucket_refuses
over_tls() ( # a server of its own, whose certificate only the second run trusts
    bucket_pid=
    trap bucket_stop EXIT
    bucket_build && bucket_start "$work/tls" tls &&
        refused 2 'SSL certificate problem' -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --checkpoints s3://runs/x || exit
    AWS_CA_BUNDLE=$work/tls/cert.pem run over_tls cpu=1,cpu=1 --strategy Even --checkpoints s3://runs/x || { cat "$work/over_tls.log"; exit 1; }
    has_checkpoint "$work/tls/disk/runs/x"
)
check 'a bucket is reached over TLS with a certificate that is trusted, and with no other' over_tls
check 'a run does not go on from a bucket in a folder, from a folder in a bucket, or from another bucket' mixed
check 'a job file that is not there is refused by name' refused 2 none.yaml -f "$work/none.yaml" --workers cpu=1
sed 's/batchSize: 32/batchSize: 30/' "$work/job.yaml" >"$work/odd.yaml"
check 'a field that breaks a rule is refused by name' refused 2 spec.training.batchSize -f "$work/odd.yaml" --workers cpu=1
check 'the best weights need a place until the end' refused 2 'keepBest: needs .*--checkpoints DIR' -f "$work/best.yaml" --workers cpu=1 --data build/sample/mnli --output "$work/none"
check 'the best weights need an output' refused 2 'keepBest: needs .*--output DIR' -f "$work/best.yaml" --workers cpu=1 --data build/sample/mnli --checkpoints "$work/none"
check 'a cut without all units is refused' refused 2 'has 6 units, the model has 7' -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --revise 7=0:6
check 'a cut that comes too late fails the run' refused 2 'the job ended after step 30' -f "$work/job.yaml" --workers cpu=1,cpu=1 --data build/sample/mnli --revise 31=0:7
check 'workers that cannot be read are refused' refused 2 fast -f "$work/job.yaml" --workers cpu=fast
sed 's/maxPositions: 64/&, from: {persistentVolumeClaim: {claimName: bert}}/' "$work/job.yaml" >"$work/from.yaml"
check 'a model that is in a cluster is asked for' refused 2 '"bert" .* --model DIR' -f "$work/from.yaml" --workers cpu=1
check 'a model folder that is not there is named' refused 2 "--model: $work/nowhere" -f "$work/from.yaml" --workers cpu=1 --model "$work/nowhere"
mkdir "$work/empty" "$work/named"
check 'a model folder without a config is named' refused 2 'neither config.json nor' -f "$work/from.yaml" --workers cpu=1 --model "$work/empty"
cp "$work/one/config.json" "$work/named"
touch "$work/file"
check 'an output that is not a folder is refused at once' refused 2 "--output: write to $work/file" -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --output "$work/file"
too_small() { # found before the first step; only root can mount a small file system
    mkdir "$work/small"
    mount -t tmpfs -o size=8m none "$work/small" || return 0
    refused 1 "$work/small: . MiB are free, .* MiB are needed" -f "$work/job.yaml" --workers cpu=1 --data build/sample/mnli --output "$work/small"
    local rc=$?
    umount "$work/small"
    return $rc
}
check 'an output without enough space is found before the first step' too_small
# A worker that only measures, and then writes down how it was started. The first that ends would end
# the run, so each waits for the other.
cat >"$work/noting" <<E2
#!/bin/sh
[ "\$1" = probe ] && exec "$PWD/$bin/skyjob-worker" "\$@"
echo "\$*" >>"$work/started"
for _ in \$(seq 100); do
    [ "\$(wc -l <"$work/started")" -ge 2 ] && break
    sleep 0.1
done
exit 2
E2
chmod +x "$work/noting"
started() { # from a job on standard input
    SKYJOB_WORKER=$work/noting refused 2 'exit code 2' -f - --workers cpu=1,cpu=1 --strategy Even \
        --data build/sample/mnli --model "$work/named" <"$work/from.yaml" || return
    cat "$work/started"
    [ "$(grep -c -- "--model $work/named" "$work/started")" = 2 ]
}
check 'every worker gets the folder of the model' started
check 'a folder without data is named' refused 1 vocab.txt -f "$work/job.yaml" --workers cpu=1 --data "$work/empty"
sed 's/vocabSize: 512/vocabSize: 20/' "$work/job.yaml" >"$work/small.yaml"
check 'a vocabulary larger than the model is refused with the number to set' refused 2 spec.model.vocabSize -f "$work/small.yaml" --workers cpu=1 --data build/sample/mnli

# A vocabulary of one's own: every word of the corpus can be spelt with it.
own() {
    mkdir "$work/own" && cp build/sample/mnli/*.tsv "$work/own" &&
        cut -f9,10 build/sample/mnli/train.tsv | tr '\t' '\n' >"$work/corpus.txt" &&
        "$bin/skyjob-import" vocabulary --size 150 --out "$work/own/vocab.txt" "$work/corpus.txt" || return
    [ "$(wc -l <"$work/own/vocab.txt")" = 150 ] || return
    run trained cpu=1 --data "$work/own" || { cat "$work/trained.log"; return 1; }
}
check 'a job trains on a vocabulary built from its text' own
too_few() {
    local out
    out=$("$bin/skyjob-import" vocabulary --size 10 --out "$work/none.txt" "$work/corpus.txt" 2>&1)
    [ $? = 2 ] && [ ! -e "$work/none.txt" ] && grep 'ask for at least' <<<"$out"
}
check 'a vocabulary smaller than the alphabet is refused' too_few

# A checkpoint of TensorFlow, here the tiny one that its own Saver wrote.
imported() {
    cp -r tests/golden/bundle/two "$work/tf" && head -n 11 build/sample/mnli/vocab.txt >"$work/tf/vocab.txt" &&
        "$bin/skyjob-import" model --from "$work/tf" --out "$work/hf" || return
    [ -s "$work/hf/model.safetensors" ] && grep BertForPreTraining "$work/hf/config.json"
}
check 'a checkpoint of TensorFlow becomes a Hugging Face directory' imported
not_imported() { # one line, and nothing that looks like a model
    local out
    truncate -s -1 "$work/tf/bert_model.ckpt.data-00001-of-00002"
    out=$("$bin/skyjob-import" model --from "$work/tf" --out "$work/hf-none" 2>&1)
    [ $? = 2 ] && [ ! -e "$work/hf-none/model.safetensors" ] && [ "$(wc -l <<<"$out")" = 1 ] &&
        grep 'data-00001-of-00002: tensor ".*" lies outside of 379 bytes; the file is truncated' <<<"$out"
}
check 'a checkpoint that is cut off is refused by file and tensor' not_imported
tap_end
