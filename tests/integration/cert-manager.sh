#!/bin/bash
# Certificates of a CA that the real cert-manager keeps, as the chart has it with tls.certManager. Two minutes;
# `make test-cert-manager`.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
operator_options=(--authority skyjob-system/skyjob-ca)
at_exit finish
manager=0
finish() {
    [ "$manager" = 0 ] || { kill "$manager"; wait "$manager"; } 2>/dev/null
    operator_finish
}

# Rights and policies are as with these values, too.
chart() {
    helm template skyjob charts/skyjob --namespace skyjob-system --kube-version 1.34 --skip-tests --set tls.certManager=true | install_operator
}
start_manager() {
    "$BIN/cert-manager" "$KUBECONFIG" >"$dir/cert-manager.log" 2>&1 &
    manager=$!
}
ca() { kubectl -n skyjob-system get secret skyjob-ca -o json | jq -r '.data["tls.crt"]'; }
trusted() { kubectl get secret "$1-certificates" -o json | jq -r '.data["ca.crt"]' | base64 -d; } # trusted JOB

waits() { # the operator would not make one that is cert-manager's to keep
    job first "$stages2" && sleep 8 && ! kubectl -n skyjob-system get secret skyjob-ca && no_pods && grep -c 'CA not read' "$dir/operator.log"
}
trains_with_it() {
    start_manager
    until_true 60 ca && completes first 120 && kubectl -n skyjob-system get secret skyjob-ca -o jsonpath='{.type}' | has '^kubernetes.io/tls$' &&
        [ "$(trusted first)" = "$(ca | base64 -d)" ]
}
# As `cmctl renew` does: the same key, another certificate.
renewed() {
    local before pods
    steps=100000 job long "$stages2" && trains long && before=$(ca) && pods=$(uids_of long 0,1) &&
        kubectl -n skyjob-system patch certificate skyjob-ca --subresource=status --type merge -p \
            '{"status":{"conditions":[{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}' &&
        until_true 30 is_another "$before" && until_true 150 is_trusted long && trains long "$(($(field long '{.status.progress.step}') + 100))" &&
        [ "$(uids_of long 0,1)" = "$pods" ] && [ "$(field long '{.status.revision}')" = 1 ]
}
is_another() { [ "$(ca)" != "$1" ]; }
is_trusted() { trusted "$1" | has "$(ca | base64 -d | sed -n 2p)"; }

operator_set_up && add_crds "$CACHE/gomod/github.com/cert-manager/cert-manager@$CERT_MANAGER_VERSION/deploy/crds" && chart && start_agent 'n1,1,1Gi,50' 'n2,1,1Gi,50' && start_operator || exit 1
check 'without a CA no worker starts, and the operator makes none' waits
check 'a job trains with certificates of the CA that cert-manager has made' trains_with_it
check 'when cert-manager renews it, workers get certificates of the new one while they train' renewed
tap_end
