/* train/desk.h - where asynchronous replicas return tickets and get the next ones.
 *
 * The decider's part of a round (train/tickets.h). Each of the other replicas is served by a thread
 * of its own, since the decider's trainer is busy with a ticket most of the time; the decider's
 * replica is served by a call. With a ticket comes what its replica has summed up; back goes how
 * its gradients are to be applied, and the next ticket. When the round is over, the desk has what
 * ends a step for all.
 *
 * The weights are never updated by more than the loss and the gradients of one ticket say, so all
 * that a synchronous step decides is decided for each ticket: clipping by its own norm, and whether
 * it is left out because something is not finite.
 * Layer: train (may use wire api base). Threads: the decider's trainer, and its own.
 */
#ifndef TRAIN_DESK_H
#define TRAIN_DESK_H

#include <pthread.h>

#include "train/exchange.h"
#include "train/tickets.h"

/* What the decider makes of a step, or of a share of its batch, from all sums. The gradients of a
 * share are divided by it: an update expects the size of a whole step's. Pure. */
struct step_end desk_decide(const struct plan *plan, const struct message_facts *facts,
                            int64_t step, int64_t updates, double share,
                            const struct message_sum *sum);

struct desk_params {
    const struct plan *plan;
    const struct message_facts *facts;
    int64_t first_step, end_step; /* of the round */
    int64_t updates;              /* of the weights before it */
};

struct desk_clerk {
    struct desk *desk;
    int replica;
    pthread_t thread;
};

struct desk { /* all fields private */
    struct desk_params p;
    int n_units;
    int n_replicas;
    struct exchange exchange;
    atomic_bool stops;
    int n_clerks;
    struct desk_clerk clerks[PLAN_REPLICAS_MAX];
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tickets tickets;
    struct message_sum last[PLAN_REPLICAS_MAX]; /* of each replica ... */
    double batches_ms[PLAN_REPLICAS_MAX];       /* ... and over all its tickets: batch_ms ... */
    int n_batches[PLAN_REPLICAS_MAX];           /* ... and how many had one */
    struct message_loss loss;                   /* since the leader was told last ... */
    int64_t n_tokens;                           /* ... likewise */
    int64_t told_steps;                         /* steps done then ... */
    double told_loss;                           /* ... and their loss */
    bool wants_checkpoint;
    int n_served; /* threads that have sent their last answer */
};

/* A round begins: start the threads, on an exchange whose failure (`other`) is set. Everything is
 * borrowed. ERR_NO_MEMORY. */
MUST_CHECK enum err_code desk_open(struct desk *d, const struct desk_params *p,
                                   const struct exchange *x, struct err *err);
/* A zeroed one is fine. */
void desk_close(struct desk *d);

/* The decider's replica returns its ticket, NULL for the first one, and gets the next. */
void desk_serve(struct desk *d, const struct message_sum *sum, struct message_end *out);

/* What a micro-batch took in a replica (struct message_sum), as a mean of its tickets; 0: it had
 * none. */
double desk_batch_ms(struct desk *d, int replica);

/* Once it has no more: wait until all replicas have got their last answers. *out ends the round's
 * steps for all. Errors of exchange_check(). */
MUST_CHECK enum err_code desk_finish(struct desk *d, const struct exchange *x,
                                     struct message_end *out, struct err *err);

#endif
