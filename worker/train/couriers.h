/* train/couriers.h - what a ticket changes goes to the homes of units, and their weights come back.
 *
 * The part of asynchronous replicas (train/tickets.h) that push; the homes' part is
 * train/pushes.h. For each home of this worker's units there is a courier, a thread: behind a
 * ticket it takes the gradients there, in falling order of units, and brings the weights, in
 * rising order, while units before them compute already. A courier for the units at home here does
 * both on the spot: a ticket needs weights that do not change.
 *
 * A home that does not respond for longer than it ever takes is not waited for: tickets go on with
 * the weights that are here, and their gradients are added up until the home responds. So a replica
 * that stands still for a while does not stop the others, unless it is the decider's.
 *
 * Layer: train (may use wire api base). Threads: the trainer's and its own.
 */
#ifndef TRAIN_COURIERS_H
#define TRAIN_COURIERS_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/exchange.h"
#include "train/pushes.h"
#include "train/weights.h"

/* A home is late that takes twice as long as it did lately at most, and longer than this. */
#define COURIERS_PATIENCE_MS 250

struct courier {
    struct couriers *all;
    const struct home_edges *edges; /* NULL: the units are at home here */
    struct exchange exchange;
    float *leaving; /* a piece */
    pthread_t thread;
    int first, n_units; /* of the stage */
    int64_t n_pushes;   /* that it has begun */
    int64_t slowest_ms; /* of this push: the longest time at the link */
    /* Under the lock: */
    bool is_busy; /* with a push: */
    struct message_push how;
    int64_t away_ms;  /* since when it is at the link, where it touches no tensor; 0: it is not */
    int64_t usual_ms; /* that it is there, at most; 0: not known yet */
    bool is_shut_out; /* the trainer does not wait for it: it may touch no tensor, and ... */
    bool has_missed;  /* ... has not taken all gradients of this push: they are left to the next */
    int64_t n_missed; /* tickets */
};

struct couriers { /* all fields private */
    const struct plan *plan;
    const struct weights *weights; /* of the stage */
    struct pushes *pushes;
    atomic_bool stops;
    int n;
    struct courier couriers[SPEC_STAGES_MAX + 1];
    struct courier *of_unit[MODEL_UNITS_MAX]; /* [unit of the stage] */
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_weights[MODEL_UNITS_MAX]; /* [unit of the stage] */
};

/* A round begins: start the threads, on an exchange whose failure (`other`) is set. Everything is
 * borrowed; the weights are those of the round's first ticket. ERR_NO_MEMORY. */
MUST_CHECK enum err_code couriers_open(struct couriers *c, const struct plan *plan, int worker,
                                       const struct weights *weights, struct pushes *pushes,
                                       const struct exchange *x, struct err *err);
/* A zeroed one is fine. */
void couriers_close(struct couriers *c);

/* A ticket has ended, and all gradients are complete: push them, and pull the weights unless it is
 * the last one, of which all homes have everything on return. Gradients that are not to be applied
 * are zero already. Errors of exchange_check(). */
MUST_CHECK enum err_code couriers_push(struct couriers *c, const struct message_push *how,
                                       const struct exchange *x, struct err *err);

/* Wait until the weights of unit `i` of the stage are here, or its home is late; until all are, and
 * all gradients have left. At once without a round. Errors of exchange_check(). */
MUST_CHECK enum err_code couriers_wait_weights(struct couriers *c, int i, const struct exchange *x,
                                               struct err *err);
MUST_CHECK enum err_code couriers_wait(struct couriers *c, const struct exchange *x,
                                       struct err *err);

#endif
