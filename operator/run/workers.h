/* run/workers.h - calls to the workers of running jobs, without ever waiting for one.
 *
 * A request is started and its answer ends up in the store: which worker has the peer table, and
 * the leader's last report. A worker that hangs delays nothing but its own answer: at most
 * WORKERS_CALLS_MAX calls are under way at a time, a fraction of what the http loop can carry, so
 * calls to the API server always find room. A worker that did not answer is asked again after a
 * pause that doubles each time, and all such workers share half of the calls, so that any number of
 * them leaves room for the others (fleet/fleet.h). An answer, or a pod that becomes ready, ends
 * its pauses. Layer: run. Threads: one, that of the http loop.
 */
#ifndef RUN_WORKERS_H
#define RUN_WORKERS_H

#include "control/observed.h"
#include "http/http.h"
#include "run/store.h"

#define WORKERS_CALLS_MAX    128
#define WORKERS_RETRY_MAX_MS 30000 /* between two calls to a worker that does not answer */
#define WORKERS_BUSY_MS      1000  /* no call is free */

/* Called when a job should be reconciled again, after `delay_ms`. */
struct workers_listener {
    void *ctx;
    void (*on_again)(void *ctx, const char *job_key, int64_t delay_ms);
};

struct workers;

/* `http` and `store` are borrowed. ERR_NO_MEMORY. */
MUST_CHECK enum err_code workers_new(struct http *http, struct store *store,
                                     struct workers_listener listener, struct workers **out,
                                     struct err *err);
/* Cancels what is under way. NULL is allowed. */
void workers_free(struct workers *w);

/* Send the peer table to the worker of `stage`, unless it is on its way already. */
MUST_CHECK enum err_code workers_post_peers(struct workers *w, const struct observed *seen,
                                            int stage, struct err *err);
/* Send a probe the table of those that it meets, likewise. */
MUST_CHECK enum err_code workers_post_probe_peers(struct workers *w, const struct observed *seen,
                                                  const char *pod, struct err *err);
/* Ask the leader for its status, unless that was done less than `age_ms` ago. */
MUST_CHECK enum err_code workers_ask_status(struct workers *w, const struct observed *seen,
                                            int64_t age_ms, struct err *err);

#endif
