/* train/copies.h - copies of a checkpoint's shards on another node, so that any one may be lost.
 *
 * Where checkpoints lie in workers' own stores, a stage sends each shard that it has written to its
 * keeper (plan_keepers()), which writes it to its own store and answers once it is synced. The
 * copies have edges of their own, and threads: one for each stage whose keeper this one is. So
 * tensors do not wait for them, and a copy over a slow link pauses for most of the time, to leave
 * it to the tensors. A copy that fails is no failure of the session.
 *
 * At the end of a session everyone sends that it has no more copies, and waits for the same from
 * the stages that it keeps for: their last ones are complete then.
 * Layer: train (may use files wire api base). Threads: copies_send() has one, the others share one.
 */
#ifndef TRAIN_COPIES_H
#define TRAIN_COPIES_H

#include <pthread.h>
#include <stdatomic.h>

#include "files/store.h"
#include "train/exchange.h"

struct copies;

/* What one stage sends. */
struct copies_kept {
    struct copies *owner;
    struct copy_edges edges;
    pthread_t thread;
    struct store_receiver *receiver; /* of the shard that arrives; NULL: none, or it has failed */
    struct err failure;              /* code ERR_OK: none */
};

struct copies { /* all fields private */
    const struct store *store;
    struct link *link;
    const struct edges *edges;
    bool is_open;
    atomic_bool stops;
    atomic_bool hurries;     /* there are no more tensors for which a copy should pause */
    pthread_mutex_t sending; /* held by copies_send() */
    int n_threads;
    struct copies_kept kept[PLAN_KEPT_MAX];
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int n_running; /* threads */
};

/* Begin to receive; all is borrowed. The link is ready. ERR_NO_MEMORY; the caller then calls
 * copies_stop() too. */
MUST_CHECK enum err_code copies_open(struct copies *c, const struct store *store,
                                     const struct exchange *x, struct err *err);

/* Send the files of a shard that has been written, and wait until the copy is complete. ERR_OK also
 * when there is no other node. ERR_GONE when the copies were stopped; ERR_IO when the keeper could
 * not write it; errors of files and of the link. */
MUST_CHECK enum err_code copies_send(struct copies *c, const struct store_shard *shard,
                                     struct err *err);

/* Training is over: from now on copies do not pause. */
void copies_hurry(struct copies *c);
/* The session has no more copies: wait until the other stages have none. Errors of
 * exchange_check(). */
MUST_CHECK enum err_code copies_finish(struct copies *c, const struct exchange *x, struct err *err);

/* End all threads and sends; the link can be closed then. A zeroed one, and one that is stopped,
 * are fine. */
void copies_stop(struct copies *c);

#endif
