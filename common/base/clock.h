/* base/clock.h - the two clocks, points in time as text, and the pace of retries and calls.
 *
 * Durations and deadlines use the monotonic clock; only timestamps for people or the API server use
 * the wall clock. Pure code never calls these: it gets `now_ms` as an argument.
 * Layer: base. Threads: any.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CLOCK_TEXT_BYTES 32

int64_t clock_now_ms(void);  /* monotonic */
int64_t clock_now_ns(void);  /* monotonic */
int64_t clock_cpu_ns(void);  /* that this process used, all threads */
int64_t clock_wall_ms(void); /* since 1970, UTC */

/* RFC 3339 in UTC with whole seconds: "2026-11-21T08:00:00Z". */
void clock_format(int64_t wall_ms, char out[static CLOCK_TEXT_BYTES]);
/* Reads what the API server writes (UTC, with or without a fraction). ERR_INVALID otherwise. */
MUST_CHECK enum err_code clock_parse(const char *text, int64_t *out_wall_ms, struct err *err);

/* The pause after `n_failures` in a row: 0 without a failure, `first_ms` after the first, then
 * doubled with each, up to `max_ms`. Pure. */
int64_t backoff_ms(int n_failures, int64_t first_ms, int64_t max_ms);

/* A token bucket: a burst at once, then one per `refill_ms`. Full when `full_ms` is 0. Pure. */
struct bucket {
    int64_t burst;     /* at least 1 */
    int64_t refill_ms; /* for one token */
    int64_t full_ms;   /* when it will be full again */
};

/* Take one token; false when there is none. */
bool bucket_take(struct bucket *b, int64_t now_ms);
/* How long until there is a token; 0: there is one. */
int64_t bucket_wait_ms(const struct bucket *b, int64_t now_ms);

#endif
