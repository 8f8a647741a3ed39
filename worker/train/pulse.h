/* train/pulse.h - notices that the trainer has stopped making progress.
 *
 * Links and ports have threads of their own. They answer even while the trainer hangs, as in a read
 * of a file system that does not answer, so that its neighbours would wait for ever. The trainer
 * beats between two pieces of work, and while it waits for others; a thread watches. It counts its
 * own ticks, not time: a machine that was suspended has not stalled.
 * Layer: train (may use base). Threads: the trainer's and its own.
 */
#ifndef TRAIN_PULSE_H
#define TRAIN_PULSE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* Is called once, by the thread that watches. */
typedef void pulse_stalled(void *ctx, int64_t still_ms);

struct pulse { /* all fields private */
    atomic_uint beats;
    unsigned seen;    /* of them, at the last tick */
    int64_t still_ms; /* of ticks since the last beat */
    int64_t limit_ms;
    pulse_stalled *on_stall;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stops;
};

/* Watch until pulse_stop(): without a beat for `limit_ms`, call on_stall. ERR_NO_MEMORY. */
MUST_CHECK enum err_code pulse_start(struct pulse *p, int64_t limit_ms, pulse_stalled *on_stall,
                                     void *ctx, struct err *err);
/* What the thread does at every tick: returns how long there has been no beat. */
int64_t pulse_tick(struct pulse *p, int64_t tick_ms);
/* Only after pulse_start(). */
void pulse_stop(struct pulse *p);

static inline void pulse_beat(struct pulse *p)
{
    atomic_fetch_add_explicit(&p->beats, 1, memory_order_relaxed);
}

#endif
