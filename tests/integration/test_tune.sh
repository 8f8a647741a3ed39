#!/bin/bash
# `kubectl-skyjob tune`: real runs of tiny jobs. No accuracy is left to chance: the jobs that count learn next to
# nothing, so that all protocols end with the same one, and only margin and runs decide.
# Prints TAP. Arguments: only the checks whose sentence has one of these words.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/tap.sh
. tests/support/tap.sh
tap_only=("$@")
bin=${OUT:-build/release}/bin
work=$(mktemp -d)
at_exit "rm -rf $work"
mkdir "$work/tmp"
export TMPDIR=$work/tmp

job() { # job NAME TRAINING [LINE...]
    local name=$1 training=$2
    shift 2
    printf '%s\n' 'apiVersion: skyjob.dev/v1alpha1' 'kind: SkyJob' "metadata: {name: $name, namespace: nlp, labels: {team: a}}" 'spec:' \
        '  model: {preset: BertTiny, vocabSize: 512, maxPositions: 64}' '  data: {task: MNLI, source: {sample: MNLI}}' \
        "  training: {batchSize: 16, microBatches: 8, maxSequenceLength: 64, $training}" "$@" >"$work/$name.yaml"
}
tune() { # tune NAME [ARGUMENT...]: its output in NAME.out and NAME.log
    timeout 120 "$bin/kubectl-skyjob" tune -f "$work/$1.yaml" --workers cpu=0.5,cpu=0.5 --data build/sample/mnli "${@:2}" \
        >"$work/$1.out" 2>"$work/$1.log"
    local rc=$?
    cat "$work/$1.out" "$work/$1.log"
    return $rc
}
is_clean() { [ -z "$(find "$work/tmp" -mindepth 2)" ]; } # no run has left anything

idle='optimizer: {learningRate: "1e-9"}'
job plain "steps: 20, seed: 7, $idle" '  replicas: 2'
cheapest() {
    tune plain --margin 50 --runs 2 --output "$work/plain.json" && is_clean || return
    [ "$(grep -c '  seed [78]  accuracy 0\.[0-9]*  0:' "$work/plain.out")" = 4 ] &&
        has '^ASP  *2 .* good enough$' <"$work/plain.out" && has '^6% BSP, then ASP  *0 .* not tested$' <"$work/plain.out" &&
        has '^chosen: ASP: less than 50 points worse than BSP$' <"$work/plain.out" &&
        has '^cost: 4 runs, ' <"$work/plain.out" && has '^  sync: {protocol: ASP}$' <"$work/plain.out" &&
        has -F "kubectl patch sj plain -n nlp --type merge -p '{\"spec\":{\"sync\":{\"protocol\":\"ASP\"}}}'" <"$work/plain.out"
}
check 'the cheapest protocol is chosen as soon as the last pair shows that it is within the margin' cheapest
manifest() { # of the user's, which is left as it is
    jq -c . "$work/plain.json"
    [ "$(jq -c .metadata "$work/plain.json")" = '{"name":"plain","namespace":"nlp","labels":{"team":"a"}}' ] &&
        [ "$(jq -c '.spec.sync, .spec.training.seed, .spec.training.steps, .spec.checkpoint' "$work/plain.json" | tr '\n' ' ')" = '{"protocol":"ASP"} 7 20 null ' ] &&
        timeout 60 "$bin/kubectl-skyjob" plan -f "$work/plain.json" --workers cpu=0.5,cpu=0.5
}
check 'the job is written with the result and all that it had' manifest

# Everything that runs on this machine cannot have as it is, or that belongs to one protocol.
job full "epochs: 9, keepBest: accuracy, evaluateEverySteps: 10, $idle" '  replicas: 2' \
    '  sync: {protocol: Switch, switchAfterSteps: 9, switchTo: Local, localSteps: 4, stragglers: Elastic}' \
    '  checkpoint: {everySteps: 5, store: {persistentVolumeClaim: {claimName: points}}}' \
    '  output: {persistentVolumeClaim: {claimName: models}}'
none() {
    tune full --margin 0 --runs 2 --steps 20 --json && is_clean || return
    [ "$(jq -c '[.chosenPercent, (.runs | length), .steps, .savedSecondsPerJob]' "$work/full.out")" = '[100,12,20,0]' ] &&
        [ "$(jq -c '[.runs[] | [.percent, .seed]]' "$work/full.out")" = '[[100,42],[100,43],[0,42],[0,43],[6,42],[6,43],[12,42],[12,43],[25,42],[25,43],[50,42],[50,43]]' ] &&
        [ "$(jq -c '[.candidates[].result] | unique' "$work/full.out")" = '["undecided"]' ] &&
        [ "$(jq -c .sync "$work/full.out")" = '{"protocol":"BSP","stragglers":"Elastic"}' ] &&
        [ "$(jq -c .patch.spec.sync "$work/full.out")" = '{"protocol":"BSP","switchAfterSteps":null,"switchTo":null,"localSteps":null}' ]
}
check 'BSP stays where no candidate is shown to be better, and its runs are used for all' none

# Weights that shrink by a third in a step of BSP, and grow to twice the size in one of Local.
job wild 'steps: 60, maxGradientNorm: "0", optimizer: {type: SGD, momentum: "0", learningRate: "0.3", weightDecay: "1", learningRateSchedule: Constant}' \
    '  replicas: 2' '  sync: {protocol: Local, localSteps: 1, outerRate: "10", outerMomentum: "0.99"}'
diverges() {
    tune wild --margin 100 --runs 2 && is_clean || return
    has '^Local  *seed 42  failed after .*: the loss or a gradient is not finite' <"$work/wild.out" &&
        has '^Local  *1 .* failed to train$' <"$work/wild.out"
}
check 'a protocol that fails to train is worse at once' diverges
sed 's/"0.3"/"10"/' "$work/wild.yaml" >"$work/hopeless.yaml"
hopeless() {
    local rc
    tune hopeless
    rc=$?
    [ $rc = 2 ] && has '^kubectl-skyjob: BSP, seed 42: worker-.*: the loss or a gradient is not finite' <"$work/hopeless.log" &&
        has "logs are in $work/tmp" <"$work/hopeless.log" && rm -rf "$work"/tmp/*
}
check 'a job that fails to train with BSP is not tuned' hopeless

job long "steps: 5000, $idle" '  replicas: 2'
interrupted() {
    local pid rc
    timeout 60 "$bin/kubectl-skyjob" tune -f "$work/long.yaml" --workers cpu=0.5,cpu=0.5 --data build/sample/mnli >"$work/long.log" 2>&1 &
    pid=$!
    until_true 30 pgrep -f -- "skyjob-worker stage .*$work/tmp" || return
    kill -INT "$(pgrep -P "$pid")"
    wait "$pid"
    rc=$?
    cat "$work/long.log"
    [ $rc = 130 ] && grep '^kubectl-skyjob: interrupted$' "$work/long.log" && ! pgrep -f -- "skyjob-worker .*$work/tmp" && is_clean
}
check 'an interrupt ends the tuning, its workers and their folder' interrupted

refused() { # refused WORDS NAME [ARGUMENT...]
    local words=$1 rc
    shift
    tune "$@"
    rc=$?
    [ "$rc" -eq 2 ] && has -- "$words" <"$work/$1.log" && ! has measuring <"$work/$1.out"
}
job single "steps: 20, $idle"
check 'a job with one pipeline is refused' refused 'spec.replicas: must be 2 or more, not 1:' single
job auto "steps: 20, $idle" '  replicas: Auto'
check 'a job that may get one pipeline is refused' refused 'spec.replicas: must be 2 or more, not Auto' auto
job still 'steps: 0' '  replicas: 2'
check 'a job that trains nothing is refused' refused 'spec.training.steps: must be above 0' still
job short "steps: 19, $idle" '  replicas: 2'
check 'a job with too few steps is refused' refused '19 steps are too few' short
job heir "steps: 20, $idle" '  replicas: 2' '  resumeFrom: {job: other}' '  checkpoint: {store: {persistentVolumeClaim: {claimName: points}}}'
check 'a job that goes on from another is refused' refused 'spec.resumeFrom: .* leave it out' heir
check 'a margin below 0 is refused' refused '--margin: must be a number from 0 to 100' plain --margin -1
check 'a margin that is no number is refused' refused '--margin: must be a number from 0 to 100, not "1%"' plain --margin 1%
check 'a single pair of runs is refused' refused '--runs: must be a number from 2 to 32' plain --runs 1
check 'half a pair of runs is refused' refused '--runs: must be a whole number' plain --runs 2.5
check 'too few steps are refused' refused '--steps: must be a number from 20' plain --steps 19
check 'a folder that is not there is refused for the output' refused '--output: write .*/nowhere/x: No such file' plain --output "$work/nowhere/x"
mkdir "$work/untested" && cp build/sample/mnli/{train.tsv,vocab.txt} "$work/untested"
check 'data without a dev set are refused' refused 'spec.data: there is no dev set in' plain --data "$work/untested"
tap_end
