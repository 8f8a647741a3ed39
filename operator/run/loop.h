/* run/loop.h - the operator: watch, and reconcile every job that has changed.
 *
 * One thread does everything: the watches enqueue the jobs that have changed, and one job at a time
 * is taken from the queue, observed, decided and acted upon. Nothing is decided before all watches
 * have reported a whole list. The health port is served from a thread of its own.
 *
 * The loop stands still while a decision searches for a plan (control/decide.h), 20 to 100 ms on 64
 * nodes, and while a call to the API server waits, which lets watches go on. Searches take a third
 * of its time at most, and jobs get 100 ms before watches have their turn. loop_stop() ends a call
 * after HTTP_STOP_MS and begins no other job.
 *
 * With a lease, only the operator that leads reconciles; the others watch, ready to take over.
 * Layer: run. Threads: one; only loop_stop() may come from elsewhere.
 */
#ifndef RUN_LOOP_H
#define RUN_LOOP_H

#include "control/observed.h"
#include "kube/client.h"
#include "kube/lease.h"

struct loop_options {
    const char *const *namespaces; /* whose jobs are looked after, NULL at the end; NULL: all */
    struct settings settings;
    const char *health_address; /* "0.0.0.0:8081"; NULL: none */
    const struct lease *lease;  /* NULL: this is the only operator */
};

struct loop;

/* `client` is borrowed; so are the texts in `options`. */
MUST_CHECK enum err_code loop_new(struct kube_client *client, const struct loop_options *options,
                                  struct loop **out, struct err *err);
void loop_free(struct loop *l); /* NULL is allowed */

/* Returns ERR_OK after loop_stop(), or what made it impossible to go on: ERR_DENIED when it leads
 * no more. */
MUST_CHECK enum err_code loop_run(struct loop *l, struct err *err);

/* Safe from signal handlers. */
void loop_stop(struct loop *l);

#endif
