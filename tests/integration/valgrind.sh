#!/bin/bash
# The operator under valgrind: jobs are planned by hand, train, lose a worker and are deleted, until a thousand
# reconciles are done. Neither an invalid access nor a leak. Four minutes on two cores; `make valgrind`.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
at_exit operator_finish
n_reconciles=${RECONCILES:-1000} port=$((20000 + RANDOM % 10000)) n=0
operator_options=(--metrics-address "127.0.0.1:$port")
# A search for a plan takes fifty times as long as usual.
by_hand='  placement: {strategy: Manual, manual: {replicas: [{stages: [{units: 3}, {units: 4}]}]}}'

reconciles() { metrics_at "$port" | awk '$1 == "skyjob_reconcile_seconds_count" { print $2 }'; }
are_done() { [ "$(reconciles)" -ge "$n_reconciles" ] 2>/dev/null; }
cat >"$dir/operator" <<S
#!/bin/bash
exec valgrind --leak-check=full --errors-for-leak-kinds=definite --error-exitcode=99 --log-file="$dir/valgrind.log" "$PWD/$OUT/bin/skyjob-operator" "\$@"
S
chmod +x "$dir/operator"
OPERATOR=$dir/operator
under_valgrind() {
    operator_set_up && start_agent 'n1,2,4Gi,100' 'n2,2,4Gi,100' && start_operator || return
    until are_done; do
        n=$((n + 1))
        steps=300 job "runs$n" "$by_hand" && trains "runs$n" && kubectl delete "$(worker_pod "runs$n" 1)" --wait=false && completes "runs$n" 300 &&
            kubectl delete sj "runs$n" || return
    done
    kill "$operator" && wait "$operator" || return
    grep -A99 'HEAP SUMMARY' "$dir/valgrind.log"
}
check "$n_reconciles reconciles under valgrind leak nothing" under_valgrind
tap_end
