# shellcheck shell=bash
# Checks of a test script, printed as TAP. Sourced.
#
#   check SENTENCE COMMAND...   one result; what a failed command has printed follows as comments
#   twice COMMAND...            once more when it fails: for what depends on how busy the machine is
#   ... | has PATTERN           is it there? Reads to the end, as `grep -q` does not: with pipefail, a
#                               writer that is cut off makes a match a failure
#   tap_end                     the plan; fails when a check has failed, or none ran
#   at_exit COMMAND             when the script ends, also by a signal
#
# tap_only holds words: when there are any, only sentences with one of them are checked. A script
# may define after_failure to say more, and after_check, whose failure is one of the sentence.
tap_n=0 tap_failed=0 tap_only=()
tap_log=$(mktemp)

after_failure() { :; }
after_check() { :; }

tap_is_wanted() { # tap_is_wanted SENTENCE
    local word
    [ "${#tap_only[@]}" -gt 0 ] || return 0
    for word in "${tap_only[@]}"; do [[ $1 != *"$word"* ]] || return 0; done
    return 1
}

# The command runs in this shell: it may start what later checks stop.
check() {
    local sentence=$1 rc=0 start=$SECONDS
    shift
    tap_is_wanted "$sentence" || return 0
    tap_n=$((tap_n + 1))
    "$@" >"$tap_log" 2>&1 || rc=1
    after_check >>"$tap_log" 2>&1 || rc=1
    if [ "$rc" -eq 0 ]; then
        echo "ok $tap_n - $sentence # $((SECONDS - start)) s"
        return
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_n - $sentence"
    { cat "$tap_log"; after_failure 2>&1; } | sed 's/^/# /'
}

twice() {
    "$@" && return
    echo '... once more'
    "$@"
}

at_exit() {
    tap_at_exit=$1
    trap tap_exits EXIT
    trap "exit 130" INT TERM
}
tap_exits() {
    local shell=$BASHPID # first, as bash takes the first command here for failed in a child
    [ "$shell" != $$ ] || eval "$tap_at_exit" # a child that was ended before it reset the traps of this shell
}

has() { grep "$@" >/dev/null; }

tap_end() {
    rm -f "$tap_log"
    echo "1..$tap_n"
    [ "$tap_failed" -eq 0 ] && [ "$tap_n" -gt 0 ]
}

until_true() { # until_true SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within the time: $*"; return 1; }
        sleep 0.2
    done
}

# For tests of training: the data of all shards in a folder, one behind the other. In front of each
# are 8 bytes of length and that much JSON.
weights_of() { # weights_of FOLDER
    local file length
    for file in "$1"/model*.safetensors; do
        length=$(od -An -tu8 -N8 "$file")
        tail -c +$((length + 9)) "$file"
    done | sha256sum
}

# For tests of checkpoints: one of the first revision has all its parts, wherever they are. A folder
# alone says nothing: parts are written side by side, and a stage may be done with the next one's.
has_checkpoint() { # has_checkpoint FOLDER...
    local point parts count
    for point in $(find "$@" -maxdepth 1 -name '1-*' -printf '%f\n' 2>/dev/null | sort -u); do
        parts=$(find "$@" -path "*/$point/model-*-of-*.json" -printf '%f\n' 2>/dev/null | sort -u)
        count=${parts##*-of-}
        [ -n "$parts" ] && [ "$(wc -l <<<"$parts")" -eq $((10#${count%.json})) ] && return
    done
    return 1
}
