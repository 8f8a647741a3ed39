/* run/apply.h - take the steps of a decision, then write the status.
 *
 * Steps are safe to take twice: creating what is there is fine when it is ours, deleting what is
 * gone is fine too. What the API server answers goes into the store at once, so that the next
 * decision does not wait for the watch to repeat it.
 * Layer: run. Threads: one. Calls wait for the API server; callbacks of watches run meanwhile.
 */
#ifndef RUN_APPLY_H
#define RUN_APPLY_H

#include "control/decide.h"
#include "kube/client.h"
#include "kube/event.h"
#include "run/store.h"
#include "run/workers.h"

extern const struct kube_resource apply_skyjobs;

struct apply {
    struct kube_client *client;
    struct kube_recorder *recorder;
    struct store *store;
    struct workers *workers;
};

/* Take all steps of `d`, which was decided from `seen`; `version` is the job's resourceVersion
 * then.
 *
 * Returns ERR_OK; ERR_CONFLICT when the job has changed meanwhile or a name of its children is
 * taken by another object; else the first error of a step, or that of writing the status. What a
 * step failed with is kept in the job's `problem` until no step fails, so that decisions can show
 * it.
 */
MUST_CHECK enum err_code apply_decision(struct apply *a, const struct observed *seen,
                                        const struct decision *d, const char *version,
                                        struct err *err);

#endif
