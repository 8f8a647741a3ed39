/* run/writers.h - threads that reconcile, since a job's calls to the API server take their time one
 * after the other, and many jobs may be due.
 *
 * They share the http loop (http_share()), so what they do is done by one thread at a time but for
 * the calls that wait: in these the other writers and the loop go on. Each has room for a decision
 * of its own.
 *
 * Layer: run (may use http). Threads: their own; the functions here are for the thread that polls.
 */
#ifndef RUN_WRITERS_H
#define RUN_WRITERS_H

#include "http/http.h"
#include "run/solver.h"

#define WRITERS_MAX 4 /* with calls of 20 ms this makes twice the calls that are allowed */

struct writers_task {
    char key[QUEUE_KEY_BYTES];
    bool is_decided;       /* `c` is; else it is room for a decision */
    struct solver_case *c; /* belongs to the writers */
};

struct writers;

/* `work` runs in the threads, in the shared loop. ERR_NO_MEMORY. */
MUST_CHECK enum err_code writers_new(struct http *http,
                                     void (*work)(void *ctx, const struct writers_task *task),
                                     void *ctx, struct writers **out, struct err *err);
/* Only when none is at work; NULL is allowed. */
void writers_free(struct writers *w);

int writers_n_busy(const struct writers *w);

/* Have a task done. There is a writer free. For a case that is decided, its own is returned, to
 * decide another one in; else NULL. */
struct solver_case *writers_give(struct writers *w, const char *key, struct solver_case *decided);

#endif
