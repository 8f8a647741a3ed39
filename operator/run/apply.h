/* run/apply.h - take the steps of a decision, then write the status.
 *
 * Steps are safe to take twice: creating what is there is fine when it is ours, deleting what is
 * gone is fine too. What the API server answers goes into the store at once, so that the next
 * decision does not wait for the watch to repeat it.
 * Layer: run. Threads: those of the http loop. Calls wait for the API server; callbacks of watches
 * run meanwhile.
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
    struct issuer *issuer; /* NULL: pods have no certificates */
};

/* Take all steps of `d`, which was decided from `seen`.
 *
 * Returns ERR_OK; ERR_CONFLICT when the job has changed meanwhile or a name of its children is
 * taken by another object; else the first error of a step, or that of writing the status. The error
 * of a step is kept in the job's `problem` until no step fails, so that decisions can show it.
 */
MUST_CHECK enum err_code apply_decision(struct apply *a, const struct observed *seen,
                                        const struct decision *d, struct err *err);

/* Delete the pods that are left of jobs of this key that are gone, at once, and order their workers
 * to end, also those of a job that is being deleted. Errors of kube_delete(). */
MUST_CHECK enum err_code apply_orphans(struct apply *a, const char *key, struct err *err);

/* The key that a job's workers and the operator share lives in a Secret that the SkyJob owns and
 * its pods mount, and in the operator's memory, and nowhere else: not in a status, an event, a log
 * or a command line. The body of a Secret with this key or, for NULL, with a new one, to be
 * created. ERR_IO without random numbers.
 */
MUST_CHECK enum err_code secret_write(const struct observed *seen, const struct hmac_key *known,
                                      struct buf *out, struct err *err);
/* Take the key from the Secret, whose owner has been checked, into the store's job. ERR_INVALID
 * when there is no key in it. */
MUST_CHECK enum err_code secret_take(struct store *s, const struct json *object, struct err *err);

#endif
