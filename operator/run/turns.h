/* run/turns.h - when a job may look for a plan.
 *
 * A search may take seconds, and all jobs share a core with it. So all searches together have a
 * third of the time at most: jobs that train come first. And however many jobs one namespace has,
 * another one that has not searched for TURNS_FRESH_MS is next.
 *
 * Layer: run (may use base). Threads: one; pure.
 */
#ifndef RUN_TURNS_H
#define RUN_TURNS_H

#include "base/map.h"

#define TURNS_LONG_MS        10 /* a shorter search counts for nothing */
#define TURNS_FRESH_MS       10000
#define TURNS_NAMESPACES_MAX 1000 /* then all are forgotten */

/* Times before which there is no other search; zeroed at first. */
struct turns {
    int64_t after_ms;      /* of any namespace that is not fresh */
    struct map namespaces; /* name to its own, a number; missing: it has not searched for long */
};

void turns_deinit(struct turns *t);

/* How long a job of this namespace has to wait; 0: it may search. */
int64_t turns_wait_ms(const struct turns *t, const char *namespace, int64_t now_ms);

/* It has searched until `now_ms`, for `took_ms`. */
void turns_add(struct turns *t, const char *namespace, int64_t took_ms, int64_t now_ms);

#endif
