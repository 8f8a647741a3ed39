/* run/secret.h - the key that a job's workers and the operator share.
 *
 * It lives in a Secret that the SkyJob owns and its pods mount, and in the operator's memory, and
 * nowhere else: not in a status, an event, a log or a command line.
 * Layer: run. Threads: one.
 */
#ifndef RUN_SECRET_H
#define RUN_SECRET_H

#include "control/observed.h"
#include "run/store.h"

/* The body of a Secret with a new key for the job, to be created. ERR_IO without random numbers. */
MUST_CHECK enum err_code secret_write(const struct observed *seen, struct buf *out,
                                      struct err *err);

/* Take the key from the Secret, whose owner has been checked, into the store's job. Only
 * KUBE_ADDED. ERR_INVALID when there is no key in it. */
MUST_CHECK enum err_code secret_take(struct store *s, enum kube_change change,
                                     const struct json *object, struct err *err);

#endif
