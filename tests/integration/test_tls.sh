#!/bin/bash
# Jobs whose workers have certificates, on a real API server with the operator's own rights.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
operator_options=(--authority skyjob-system/skyjob-ca)
at_exit operator_finish

members() { kubectl get secret "$1-certificates" -o json | jq -r '.data | keys | join(" ")'; } # members JOB
ip_of() { kubectl get "$(worker_pod "$1" "$2")" -o 'jsonpath={.status.podIP}'; }              # ip_of JOB SLOT
is_measured() { kubectl get node "$1" -o json | grep -q bytesPerSecond; }
probes() { # both nodes are measured before the first plan, with their links
    steps=60 job first "$stages2" && until_true 60 is_measured n1 && completes first
}
is_issued() { [[ " $(members first) " == ' ca.crt w0-1.crt w0-1.key w1-1.crt w1-1.key ' ]]; }
strangers() {
    local ip
    steps=100000 job long "$stages2" && trains long && ip=$(ip_of long 0) || return
    ! curl -s --max-time 5 "http://$ip:7070/v1/status" && ! curl -s --insecure --max-time 5 "https://$ip:7070/v1/status" &&
        ! curl -s --insecure --max-time 5 "https://$ip:7071/skyjob" && curl -s --max-time 5 "http://$ip:7072/readyz"
}
own_files() {
    kubectl get "$(worker_pod long 1)" -o json |
        jq -e '[.spec.volumes[] | select(.name == "tls").secret.items[].key] == ["ca.crt", "w1-1.crt", "w1-1.key"]'
}
is_replaced() { [ "$(workers_of long)" = 'w0-1 w1-2 ' ] && [[ " $(members long) " == *' w0-1.key w1-2.crt w1-2.key '* ]]; }
replaced() {
    kill -KILL "$(worker_pid long 1)" && until_true 60 is_replaced && trains long "$(field long '{.status.progress.step}')"
}
restarted() {
    local before
    before=$(uids_of long 0,1) && kill_operator TERM && start_operator && trains long "$(($(field long '{.status.progress.step}') + 20))" &&
        [ "$(uids_of long 0,1)" = "$before" ]
}
ca_is_there() { kubectl -n skyjob-system get secret skyjob-ca -o json | jq -e '.data | keys == ["ca.crt", "tls.crt", "tls.key"]'; }

operator_set_up && start_agent 'n1,1,1Gi' 'n2,1,1Gi' && start_operator || exit 1
check 'nodes are measured and a job is trained with certificates' probes
check 'the operator has made a CA' ca_is_there
check 'there is a certificate for each pod' is_issued
check 'a stranger gets no answer but from the health port' strangers
check 'each pod mounts its own certificate only' own_files
check 'a worker that is replaced gets a certificate, and the old one is removed' replaced
check 'another operator goes on with the workers that run' restarted
tap_end
