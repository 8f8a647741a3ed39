#!/bin/bash
# A storm: a random fault every few minutes strikes a job that trains for half an hour. It must be
# Complete in the end, with the very weights and metrics of an undisturbed run, and with at least 85%
# of its speed. Prints a table. Takes about twice STORM_MINUTES, since the undisturbed run is a whole one.
#
#   STORM_MINUTES=30 STORM_EVERY=120 tests/integration/storm.sh    every so many seconds
#   STORM_SEED=1        the same seed gives the same faults
#   STORM_STORE=claim   or peers: where the checkpoints are
#   STORM_CALM=DIR      keep there what the undisturbed run leaves, or take it from there: a storm with
#                       another seed is then compared with the same run
#   STORM_FAULTS=4      a short one: so many faults, some steps apart, and speed is not judged
#   KEEP=1              leave the logs
#
# Take 70 seconds or more between two faults: a job that is struck again within a minute of training waits
# longer each time.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
set +o pipefail
minutes=${STORM_MINUTES:-30} every=${STORM_EVERY:-120} seed=${STORM_SEED:-1} store=${STORM_STORE:-claim}
calm=${STORM_CALM:-$dir/calm} faults=${STORM_FAULTS:-0}
batch=200 often='everySeconds: 10' steps_apart=150
[ "$faults" = 0 ] || batch=64 often='everySteps: 100'
patience=400 # seconds until training goes on after any of the faults: the longest pause between restarts is 300

at_exit operator_finish
fail() {
    echo "storm: $*" >&2
    { kubectl get sj,pods -o wide; kubectl get events --sort-by=.lastTimestamp | tail -n 30; tail -n 10 "$dir/operator.log"; } 2>&1 | cut -c1-300 >&2
    exit 1
}
now() { echo "${EPOCHREALTIME/./}"; } # in microseconds
seconds() { printf '%d.%d' $(($1 / 1000000)) $(($1 / 100000 % 10)); }

# --- the faults, each of which strikes a stage ---
fault_names=(
    'worker killed' 'worker frozen' 'pod deleted' 'all pods deleted' 'link cut' 'operator away for 10 s'
    'leader and operator killed' 'node drained'
)
case $store in
claim) checkpoints='{persistentVolumeClaim: {claimName: out, path: points}}' ;;
peers) # of which one may be lost
    checkpoints='{peers: {}}'
    unset 'fault_names[3]'
    ;;
*) echo "STORM_STORE: claim or peers, not $store" >&2 && exit 2 ;;
esac
fault_names=("${fault_names[@]}")

stage_field() { field storm "{.status.stages[$1].$2}"; } # stage_field STAGE FIELD
stage_pid() { pgrep -f -- "--control $(kubectl get pod "$(stage_field "$1" pod)" -o 'jsonpath={.status.podIP}'):7070"; }
strike() { # strike FAULT STAGE
    case $1 in
    'worker killed') kill -KILL "$(stage_pid "$2")" ;;
    'worker frozen') kill -STOP "$(stage_pid "$2")" ;;
    'pod deleted') kubectl delete pod "$(stage_field "$2" pod)" --wait=false --grace-period=1 ;;
    'all pods deleted') kubectl delete pods -l skyjob.dev/job=storm --wait=false --grace-period=1 ;;
    'link cut') kill -USR1 "$(stage_pid "$2")" ;;
    'operator away for 10 s')
        kill_operator KILL
        operator_due_us=$(($(now) + 10000000))
        ;;
    'leader and operator killed')
        kill -KILL "$(stage_pid 0)"
        kill_operator KILL
        start_operator
        ;;
    'node drained') # the node is there again when training has gone on
        kubectl cordon "$(stage_field "$2" node)" && kubectl delete pod "$(stage_field "$2" pod)" --wait=false
        ;;
    esac >/dev/null
}
operator_due_us=0 # when one is to be started, if any
return_operator() {
    [ "$operator_due_us" -gt 0 ] && [ "$(now)" -ge "$operator_due_us" ] || return 0
    operator_due_us=0
    start_operator
}
is_felt() { [ "$1" != 'operator away for 10 s' ]; } # by the workers, which then get another revision

# A generator of its own: bash's RANDOM is not the same in all versions.
draw() { # draw N: sets drawn to a number below N
    seed_state=$(((seed_state * 1103515245 + 12345) & 0x7fffffff))
    drawn=$(((seed_state >> 8) % $1))
}
draw_fault() { # sets fault and stage: each fault once, in random order, then again
    if [ "${#bag[@]}" = 0 ]; then bag=("${fault_names[@]}"); fi
    draw "${#bag[@]}"
    fault=${bag[drawn]}
    unset "bag[$drawn]"
    bag=("${bag[@]}")
    draw 3
    stage=$drawn
    if [ "$fault" = 'leader and operator killed' ]; then stage=0; fi
}
restart_draw() { seed_state=$seed bag=(); }

# --- what the workers say ---
# The leader's own record of its steps, which is in memory: the status is up to 10 s late.
last_step() { # of any worker that runs; fails when there is none
    local pid record
    for pid in $(pgrep -f -- "skyjob-worker stage .*$dir/agent"); do
        record=$(find "/proc/$pid/fd" -lname '*memfd:history*' -print -quit 2>/dev/null)
        if [ -n "$record" ]; then tail -c 400 "$record" 2>/dev/null | grep -ao '"step":[0-9]*'; fi
    done | sed 's/.*://' | sort -n | tail -n 1 | grep .
}
began() { grep -aho '"msg":"stage ready","stage":0,"revision":[0-9]*,"step":[0-9]*' "$dir"/agent/logs/storm-* | tr -dc '0-9,\n' | cut -d, -f 3,4 | sort -n; }
last_revision() { began | tail -n 1 | cut -d, -f 1; } # in which the first stage has begun to train
halted_at() { grep -aho "\"msg\":\"halted\",\"worker\":[0-9]*,\"revision\":$1,\"step\":[0-9]*" "$dir"/agent/logs/storm-* | sed 's/.*://' | sort -n | tail -n 1; } # halted_at REVISION
went_back_to() { began | awk -F, -v after="$1" '$1 > after' | cut -d, -f 2 | sort -n | head -n 1; } # went_back_to REVISION: in a later one

# --- the two runs ---
run_job() { # run_job NAME: until its first step
    model='layers: 2,' steps=$total kept "$1" "  checkpoint: {$often, store: $checkpoints}
  failurePolicy: {maxRestarts: 1000}" >/dev/null && until_true 120 last_step
    last_step >/dev/null || fail "the job $1 does not begin to train"
    start_us=$(now)
}
is_trained() { # is_trained NAME: its last step is done
    local step
    if step=$(last_step); then [ "$step" -ge "$total" ]; else ended "$1"; fi
}
ended() { [[ $(field "$1" '{.status.state}') =~ ^(Complete|Failed)$ ]]; }
complete() { # complete NAME FILE: what it leaves, bit for bit
    until ended "$1"; do sleep 1; done
    [ "$(field "$1" '{.status.state}')" = Complete ] || fail "the job $1 has failed: $(field "$1" '{.status.message}')"
    { left_by "$1" && losses; } >"$2" || fail "no weights of the job $1"
}
losses() { jq -c 'del(.seconds, .tokensPerSecond, .stepMilliseconds)' "$dir/agent/claims/out/model/history.jsonl"; }
# undisturbed FOLDER: the number of steps, their time in microseconds, and what is left
undisturbed() {
    run_job calm
    until is_trained calm; do sleep 0.2; done
    echo "$total $(($(now) - start_us))" >"$dir/figures"
    complete calm "$dir/left"
    kubectl delete sj calm >/dev/null
    until_true 30 no_pods || fail 'the pods of the undisturbed run are not gone'
    mkdir -p "$1" && cp "$dir/left" "$dir/figures" "$1"
}

# suffer NUMBER: the fault, and what follows until there is a step that had not been done before
suffer() {
    local before revision reached step struck_us last_us gap_us longest_us=0 again=0
    before=$(last_revision) revision=$before
    reached=$(last_step) || return 0 # done meanwhile
    struck_us=$(now) last_us=$struck_us
    strike "$fault" "$stage" || fail "cannot strike: $fault, stage $stage"
    until is_trained storm; do
        return_operator
        step=$(last_step) || step=0
        if [ "$step" -gt "$reached" ]; then
            gap_us=$(($(now) - last_us)) last_us=$(now)
            [ "$gap_us" -le "$longest_us" ] || longest_us=$gap_us
            revision=$(last_revision)
            if [ "$operator_due_us" = 0 ] && { ! is_felt "$fault" || [ "$revision" -gt "$before" ]; }; then break; fi
            reached=$step
        fi
        [ $(($(now) - struck_us)) -lt $((patience * 1000000)) ] || fail "no new step within $patience s of: $fault, stage $stage"
        sleep 0.1
    done
    while [ "$operator_due_us" -gt 0 ]; do return_operator; sleep 0.1; done
    if [ "$fault" = 'node drained' ]; then kubectl uncordon "${nodes[@]%%,*}" >/dev/null; fi
    if [ "$revision" -gt "$before" ]; then
        step=$(halted_at "$before") # some may have been done between two looks
        [ "${step:-0}" -le "$reached" ] || reached=$step
        again=$((reached - $(went_back_to "$before")))
        [ "$again" -ge 0 ] || again=0
    fi
    lost_us=$((lost_us + longest_us)) repeats=$((repeats + again)) struck=$((struck + 1))
    row "$1" "$(seconds $((struck_us - start_us)))" "$fault" "$stage" "$revision" "$reached" "$again" "$(seconds "$longest_us")"
}
row() { printf '| %3s | %8s | %-26s | %5s | %8s | %12s | %8s | %14s |\n' "$@"; }

is_due() { # is_due NUMBER: that fault
    local step
    if [ "$faults" = 0 ]; then
        [ $(($(now) - start_us)) -ge $(($1 * every * 1000000)) ]
    else
        step=$(last_step) && [ "$1" -le "$faults" ] && [ "$step" -ge $(($1 * steps_apart)) ]
    fi
}
storm() {
    local number=0
    lost_us=0 repeats=0 struck=0
    row '' seconds fault stage revision 'step reached' repeated 'seconds lost'
    row --: --: --- --: --: --: --: --:
    run_job storm
    restart_draw
    while ! is_trained storm; do
        if is_due $((number + 1)); then
            number=$((number + 1))
            draw_fault
            suffer "$number"
        else
            sleep 0.3
        fi
    done
    storm_us=$(($(now) - start_us))
    complete storm "$dir/struck"
}

operator_set_up || exit 1
nodes=('n1,1,2Gi,40' 'n2,1,2Gi,40' 'n3,1,2Gi,40' 'n4,1,2Gi,40' 'n5,1,2Gi,40') # alike, with one thread: all give the same bits
pause_us=0 # its steps have their own size
start_agent "${nodes[@]}"
start_operator
sleep 1
kill -0 "$operator" || fail 'the operator has ended'

echo "seed $seed:"
restart_draw
for ((i = 1; i <= (faults > 0 ? faults : minutes * 60 / every); i++)); do
    draw_fault
    echo "$i. $fault, stage $stage"
done
if [ "$faults" -gt 0 ]; then
    total=$(((faults + 1) * steps_apart))
    undisturbed "$calm"
elif [ ! -s "$calm/figures" ]; then
    total=300
    undisturbed "$dir/pace"
    read -r total calm_us <"$dir/pace/figures"
    total=$((minutes * 51 * 1000000 / (calm_us / total))) # 85% of the time
    undisturbed "$calm"
fi
read -r total calm_us <"$calm/figures"
echo "$total steps, undisturbed: $(seconds "$calm_us") s"
storm
echo "$total steps, $struck faults: $(seconds "$storm_us") s, of which $(seconds "$lost_us") s without a new step; $repeats steps repeated"
goodput=$((calm_us * 1000 / storm_us))
echo "goodput: $((goodput / 10)).$((goodput % 10))%"
cmp "$calm/left" "$dir/struck" || fail 'weights, metrics or losses are not those of the undisturbed run'
echo 'weights, metrics and losses: equal to those of the undisturbed run, bit for bit'
if [ "$faults" -gt 0 ]; then
    [ "$struck" = "$faults" ] || fail "struck by $struck faults of $faults"
else
    [ "$goodput" -ge 850 ] || fail 'goodput is below 85%'
fi
