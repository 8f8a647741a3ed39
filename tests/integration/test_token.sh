#!/bin/bash
# What can be done with the token of the operator's account, beyond what the operator does: nothing. A real API
# server with the rights and the admission policies of manifests/operator.yaml.
set -u
cd "$(dirname "$0")/../.."
# shellcheck source=tests/support/operator.sh
. tests/support/operator.sh
tap_only=("$@")
at_exit operator_finish

thief() { kubectl --kubeconfig "$dir/operator.kubeconfig" "$@"; }
patch_node() { # patch_node JSON: by the thief, who may not get a node first as kubectl does
    local server token
    server=$(sed -n 's/.*server: //p' "$dir/operator.kubeconfig") token=$(sed -n 's/.*{token: \(.*\)}/\1/p' "$dir/operator.kubeconfig")
    curl --silent --show-error --fail-with-body --cacert "$dir/api/certs/apiserver.crt" -H "Authorization: Bearer $token" \
        -X PATCH -H 'Content-Type: application/merge-patch+json' --data "$1" "$server/api/v1/nodes/n1"
}
# refused SENTENCE COMMAND...: by the policy that says so, and not for another reason
refused() {
    local sentence=$1; shift
    ! "$@" >"$dir/text" 2>&1 && cat "$dir/text" && grep -qF "$sentence" "$dir/text"
}
# pod JQ: one that the operator could have made, but for this change
pod() {
    jq -c "$1" <<J | thief create -f -
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": [{"apiVersion": "skyjob.dev/v1alpha1", "kind": "SkyJob",
   "name": "mnli", "uid": "$uid", "controller": true}]},
 "spec": {"automountServiceAccountToken": false, "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
   "containers": [{"name": "worker", "image": "w", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
   "volumes": [{"name": "key", "secret": {"secretName": "mnli-key"}}, {"name": "tls", "secret": {"secretName": "mnli-certificates"}}, {"name": "tmp", "emptyDir": {}}]}}
J
}
pods_of_others() {
    refused 'that a SkyJob controls' pod 'del(.metadata.ownerReferences)' && refused 'that a SkyJob controls' pod '.metadata.ownerReferences[0].kind = "Job"' &&
        refused 'that a SkyJob controls' pod 'del(.metadata.ownerReferences[0].controller)'
}
privileged_pods() {
    local change
    for change in '.spec.containers[0].securityContext.runAsUser = 0' 'del(.spec.securityContext)' \
        '.spec.containers[0].securityContext.allowPrivilegeEscalation = true' '.spec.containers[0].securityContext.capabilities.add = ["NET_ADMIN"]' \
        '.spec.securityContext.seccompProfile.type = "Unconfined"' '.spec.containers[0].ports = [{"containerPort": 80, "hostPort": 80}]' \
        'del(.spec.containers[0].securityContext)'; do
        refused 'the restricted standard' pod "$change" || return
    done
    for change in '.spec.hostNetwork = true' '.spec.hostPID = true' '.spec.hostIPC = true' '.spec.nodeName = "n1"'; do
        refused 'nothing of their host' pod "$change" || return
    done
    refused 'one container' pod '.spec.initContainers = [.spec.containers[0] | .name = "first"]' && refused 'one container' pod '.spec.containers += [.spec.containers[0] | .name = "more"]'
}
pods_with_accounts() {
    refused 'no account and no token' pod 'del(.spec.automountServiceAccountToken)' && refused 'no account and no token' pod '.spec.automountServiceAccountToken = true' &&
        refused 'no account and no token' pod '.spec.serviceAccountName = "admin"'
}
pods_with_volumes() {
    local volume
    for volume in '{"hostPath": {"path": "/"}}' '{"secret": {"secretName": "other"}}' '{"nfs": {"server": "s", "path": "/"}}' \
        '{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}' '{"projected": {"sources": [{"secret": {"name": "other"}}]}}'; do
        refused 'have volumes only of' pod ".spec.serviceAccountName = \"default\" | .spec.volumes += [{\"name\": \"more\"} + $volume]" || return
    done
}
deletes() {
    kubectl run other --image=w >/dev/null && kubectl create configmap other >/dev/null || return
    refused 'that a SkyJob controls' thief delete pod other && refused 'that a SkyJob controls' thief delete configmap other &&
        refused 'that have spec.ttlSecondsAfterFinished' thief delete sj mnli
}
node_spec() {
    refused 'nothing of nodes but labels and annotations' patch_node '{"spec":{"unschedulable":true}}' &&
        refused 'nothing of nodes but labels and annotations' patch_node '{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}' &&
        refused 'nothing of nodes but labels and annotations' patch_node '{"metadata":{"finalizers":["a.b/c"]}}'
}
node_keys() {
    kubectl label node n1 team=a >/dev/null && kubectl annotate node n1 note=b >/dev/null || return
    refused 'only labels of nodes' patch_node '{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}' &&
        refused 'only labels of nodes' patch_node '{"metadata":{"labels":{"team":"b"}}}' &&
        refused 'only labels of nodes' patch_node '{"metadata":{"labels":{"team":null}}}' &&
        refused 'only annotations of nodes' patch_node '{"metadata":{"annotations":{"note":null}}}' &&
        patch_node '{"metadata":{"labels":{"skyjob.dev/measured-gflops":"1"},"annotations":{"skyjob.dev/probe":"{}"}}}' &&
        patch_node '{"metadata":{"labels":{"skyjob.dev/measured-gflops":null}}}'
}
owned() { # owned KIND NAME JOB
    printf '{"apiVersion": "%s", "kind": "%s", "metadata": {"name": "%s", "ownerReferences": [{"apiVersion": "skyjob.dev/v1alpha1", "kind": "SkyJob", "name": "%s", "uid": "%s", "controller": true}]}}' \
        v1 "$1" "$2" "$3" "$uid" | thief create -f -
}
objects() {
    refused 'that a SkyJob controls' thief create configmap free && refused 'that a SkyJob controls' thief create secret generic free &&
        refused 'has no Secrets but the key' owned Secret other mnli && refused 'has no Secrets but the key' owned Secret mnli-key2 mnli &&
        owned ConfigMap mnli-probe mnli && thief delete configmap mnli-probe
}
# Certificates are renewed; the key is not, and another's Secret is not made one of a job.
patches() {
    local body='{"stringData":{"a":"b"}}'
    owned Secret mnli-certificates mnli && thief patch secret mnli-certificates --type merge -p "$body" && owned Secret mnli-key mnli &&
        kubectl create secret generic other >/dev/null || return
    refused 'changes no Secret but the certificates' thief patch secret mnli-key --type merge -p "$body" &&
        refused 'changes no Secret but the certificates' thief patch secret mnli-certificates --type merge -p '{"metadata":{"ownerReferences":[{"apiVersion":"skyjob.dev/v1","kind":"SkyJob","name":"mnli","uid":"x","controller":true}]}}' &&
        refused 'that a SkyJob controls' thief patch secret other --type merge -p "$body" || return
    refused 'has no Secrets but' thief patch secret other --type merge \
        -p '{"metadata":{"ownerReferences":[{"apiVersion":"skyjob.dev/v1alpha1","kind":"SkyJob","name":"mnli","uid":"'"$uid"'","controller":true}]}}'
}
ca() {
    kubectl -n skyjob-system create secret generic skyjob-other >/dev/null || return
    thief -n skyjob-system create secret generic skyjob-ca && thief -n skyjob-system patch secret skyjob-ca --type merge -p '{"stringData":{"a":"b"}}' &&
        refused 'that a SkyJob controls' thief create secret generic skyjob-ca &&
        refused 'that a SkyJob controls' thief -n skyjob-system patch secret skyjob-other --type merge -p '{"stringData":{"a":"b"}}'
}
as_operator() { # the pod as it is, which the operator could make
    pod . && thief delete pod p
}

operator_set_up && start_agent 'n1,1,1Gi,20' && until_true 20 kubectl get node n1 >/dev/null && job mnli '  suspend: true' >/dev/null || exit 1
uid=$(field mnli '{.metadata.uid}')
in_force() { ! thief create configmap probe --dry-run=server >/dev/null 2>&1; }
until_true 30 in_force
check 'a pod like those that the operator makes is admitted, and deleted again' as_operator
check 'no pod that a SkyJob does not control' pods_of_others
check 'no pod with more rights than the restricted standard has, or a host' privileged_pods
check 'no pod with an account or a token' pods_with_accounts
check 'no volume of a host, a network, a token, or of another Secret' pods_with_volumes
check 'nothing is deleted that is not of a SkyJob, and no SkyJob without a time to live' deletes
check 'nothing of a node changes but labels and annotations' node_spec
check 'of those only keys of skyjob.dev change' node_keys
check 'no other object but of a SkyJob, and no Secret but its key and certificates' objects
check 'no Secret changes but the certificates of a job, and not their owner' patches
check 'of its own namespace the CA alone is made and changed' ca
tap_end
