/* run/certificates.h - a certificate for each pod of a job, in its Secret "<job>-certificates".
 *
 * The Secret has ca.crt and, for each worker, "w<slot>-<incarnation>.crt" and ".key"; all probes
 * share those of NAMES_PROBE_DNS. If workers serve metrics, their ports for that share metrics.crt
 * and metrics.key. A pod mounts only its own, and these. They are there before the pod is
 * created, and are issued again before they end, or when the CA changes: the kubelet then renews
 * the files in the pod. Those of pods that have been replaced are removed.
 *
 * What the Secret holds is remembered with the job; a new operator reads it once.
 * Layer: run. Threads: one. Waits for the API server; callbacks of watches run meanwhile.
 */
#ifndef RUN_CERTIFICATES_H
#define RUN_CERTIFICATES_H

#include "control/decide.h"
#include "run/issuer.h"
#include "run/store.h"

/* Have the Secret hold what the pods that were seen need, and those that `d` creates. Without any
 * that speak TLS this does nothing. ERR_INVALID when some do and there is no issuer (NULL);
 * ERR_CONFLICT when a Secret of this name is not the job's; else the errors of calls to the API
 * server and of issuer_issue(). */
MUST_CHECK enum err_code certificates_ensure(struct kube_client *client, struct issuer *issuer,
                                             struct store *store, const struct observed *seen,
                                             const struct decision *d, struct err *err);

#endif
