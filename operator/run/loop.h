/* run/loop.h - the operator: watch, and reconcile every job that has changed.
 *
 * The watches enqueue the jobs that have changed, and writers (run/writers.h) take them from the
 * queue, observe, decide and act. All of that is done by one thread at a time, but for calls to the
 * API server: while one waits, watches and other jobs go on. Nothing is decided before all watches
 * have reported a whole list. Plans are searched for in a thread of their own (run/solver.h), one
 * at a time; the next search begins when the store shows what the last plan takes. The health port
 * and the metrics' port have threads, too. loop_stop() ends calls after HTTP_STOP_MS and begins no
 * other job.
 *
 * With a lease, only the operator that leads reconciles; the others watch and read the CA, ready to
 * take over.
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
    const char *health_address;         /* "0.0.0.0:8081"; NULL: none */
    const char *metrics_address;        /* "0.0.0.0:8443"; NULL: none */
    struct kube_client *metrics_client; /* for that, with a loop of its own; borrowed */
    const struct lease *lease;          /* NULL: this is the only operator */
    const char *authority_namespace;    /* of the Secret with the CA of all jobs ... */
    const char *authority_name;         /* ... and its name; NULL: pods have no certificates */
    const char *reader_namespace;       /* of the Secret for who reads workers' metrics ... */
    const char *reader_name;            /* ... and its name; NULL: none is made */
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
