/* run/queue.h - which SkyJob to look at next, and when.
 *
 * A set of keys with due times. Adding a key that is waiting only moves it earlier, so a thousand
 * events on one job cost one reconcile. A key that is in progress and is added again waits until
 * queue_done(), so a job is never reconciled twice at once. Time is handed in and never read.
 * Layer: run (may use base). Threads: one. Limit: QUEUE_KEYS_MAX keys; more are ERR_LIMIT.
 */
#ifndef RUN_QUEUE_H
#define RUN_QUEUE_H

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"

#define QUEUE_KEYS_MAX  65536
#define QUEUE_KEY_BYTES 320 /* "namespace/name" with the NUL */

struct queue_entry; /* private */

/* A zeroed struct is an empty queue. */
struct queue {
    struct map keys;           /* those that wait or are in progress */
    struct queue_entry **heap; /* those that wait, earliest first */
    size_t n_heap;
    size_t heap_slots;
};

void queue_deinit(struct queue *q);

/* Look at `key` at `due_ms`, or earlier if that was asked for already.
 * Returns ERR_INVALID for a key that is too long, ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code queue_add(struct queue *q, const char *key, int64_t due_ms,
                                   struct err *err);

/* Take the key that has been due longest.
 *
 * Returns true with the key copied to `out_key`: it is in progress and is not handed out again
 * before queue_done(). Returns false when nothing is due at `now_ms`; then *out_wait_ms is the time
 * to the next key, or -1 when none waits.
 */
bool queue_take(struct queue *q, int64_t now_ms, char out_key[static QUEUE_KEY_BYTES],
                int64_t *out_wait_ms);

/* How long the key that has been due longest has been so; 0: none is due. */
int64_t queue_late_ms(const struct queue *q, int64_t now_ms);

/* The key has been handled: forget it, unless it was added again meanwhile. */
void queue_done(struct queue *q, const char *key);

#endif
