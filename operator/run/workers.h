/* run/workers.h - calls to the workers of running jobs, without ever waiting for one.
 *
 * A request is started and its answer ends up in the store: who has accepted which revision, what
 * the workers hold, and the leader's last status. A worker that hangs delays nothing but its own
 * answer: at most WORKERS_CALLS_MAX calls are under way at a time, a fraction of what the http loop
 * can carry, so calls to the API server always find room. A worker that did not answer is asked
 * again after a pause that doubles each time, and all such workers share half of the calls, so that
 * any number of them leaves room for the others (fleet/fleet.h). An answer, or a pod that becomes
 * ready, ends its pauses. Layer: run. Threads: those of the http loop.
 */
#ifndef RUN_WORKERS_H
#define RUN_WORKERS_H

#include "control/observed.h"
#include "run/issuer.h"
#include "run/store.h"

#define WORKERS_CALLS_MAX    128
#define WORKERS_RETRY_MAX_MS 30000 /* between two calls to a worker that does not answer */
#define WORKERS_BUSY_MS      1000  /* no call is free, or allowed */
#define WORKERS_HALT_MS      1000
#define WORKERS_KEPT_JOBS    30 /* with more that train, only connections to leaders are kept */

/* All are borrowed. The store's listener is called when a job should be reconciled again, also one
 * that is gone, whose workers are to end. */
struct workers {
    struct fleet *fleet;
    struct store *store;
    struct issuer *issuer; /* NULL: no worker speaks TLS */
    /* Asked before each call; NULL: always. A leader that was stopped for a while may not have
     * noticed yet that it leads no more (kube/lease.h). */
    bool (*may_call)(void *ctx);
    void *ctx;
};

/* Send a worker's pod the observed revision, as it was written, and the addresses of all its
 * workers, unless it is on its way already. */
MUST_CHECK enum err_code workers_post_revision(const struct workers *w, const struct observed *seen,
                                               const char *pod, struct err *err);
/* Order a worker's pod to halt this revision and older ones; or release it, in RECOVER_END. Not
 * more often than every WORKERS_HALT_MS when it has taken the order. */
MUST_CHECK enum err_code workers_post_halt(const struct workers *w, const struct observed *seen,
                                           const char *pod, int revision, struct err *err);
/* Order the workers to end that are left of jobs of this key that are gone or being deleted: each
 * until it takes the order or refuses it, or its pod is gone. */
void workers_order_ends(const struct workers *w, const char *job_key);
/* Order a checkpoint from the leader's pod, unless it has taken that order. */
MUST_CHECK enum err_code workers_order_checkpoint(const struct workers *w,
                                                  const struct observed *seen, const char *pod,
                                                  int64_t order, struct err *err);
/* Ask all workers that run for their reports, except those that were asked less than `age_ms` ago.
 */
MUST_CHECK enum err_code workers_ask_reports(const struct workers *w, const struct observed *seen,
                                             int64_t age_ms, struct err *err);
/* Send a probe the table of its partners, likewise. */
MUST_CHECK enum err_code workers_post_probe_peers(const struct workers *w,
                                                  const struct observed *seen, const char *pod,
                                                  struct err *err);
/* Ask the leader for its status, unless that was done less than `age_ms` ago. */
MUST_CHECK enum err_code workers_ask_status(const struct workers *w, const struct observed *seen,
                                            int64_t age_ms, struct err *err);

#endif
