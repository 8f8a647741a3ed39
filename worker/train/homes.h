/* train/homes.h - gradients to the homes of units, and weights back to who runs them.
 *
 * Of several replicas, the gradients of a unit are added up where it has its home (api/plan.h), in
 * the order of the replicas, whatever the order in which they arrive: so the sums have the bits of
 * one replica that computes as many shares. After the update its weights go to all others that run
 * the unit.
 *
 * Two threads do both beside the trainer, one for what leaves and one for what arrives, as a link
 * carries as much in each direction at once: a unit's gradient leaves as soon as it is complete,
 * and arrives while earlier units are still computed; its weights arrive while units before it
 * compute already. Gradients go in falling order of units and weights in rising order, on all
 * workers: so none waits in a circle. Everything travels in pieces, through slots that the link has
 * taken.
 *
 * While replicas are asynchronous, there is nothing to do here (train/couriers.h).
 *
 * While they train alone, all meet about one unit after the other, in rising order: so here too
 * none waits in a circle.
 *
 * Layer: train (may use wire api base). Threads: the trainer's and its own two. In a plan of one
 * replica there is nothing to do: all calls return at once.
 */
#ifndef TRAIN_HOMES_H
#define TRAIN_HOMES_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/exchange.h"
#include "train/outer.h"
#include "train/weights.h"

#define HOMES_ORDERS_MAX 4

enum homes_kind {
    HOMES_COLLECT, /* gradients to the homes, which add them */
    HOMES_SPREAD,  /* weights to the guests, or moments */
    HOMES_MEET,    /* weights of a unit to its home, which makes an outer step, and back */
};

/* MEET: of replicas that train alone (train/outer.h). */
struct homes_meeting {
    int i;           /* unit of the stage */
    float *offered;  /* its weights here; afterwards what they have more than those at home */
    float *params;   /* at home, the state's; else NULL ... */
    float *velocity; /* ... likewise; NULL: none */
    struct outer_step how;
};

/* What leaves, and what arrives. */
enum homes_side {
    HOMES_OUT,
    HOMES_IN,
    HOMES_SIDES,
};

/* What the threads do next. */
struct homes_order {
    enum homes_kind kind;
    enum message_kind message; /* COLLECT, MEET: of a piece to the home, gradients or weights */
    int64_t step;
    enum weights_area area; /* SPREAD */
    uint32_t replicas;      /* COLLECT: a bit for each that computes anything */
    struct homes_meeting meeting;
};

struct homes { /* all fields private */
    const struct plan *plan;
    int replica;
    const struct weights *weights;   /* of its stage; those of units at home are the state's */
    int home_edges[MODEL_UNITS_MAX]; /* [unit of the stage], in exchange.edges.homes; -1: at home */
    float *sum, *own, *unpacked;     /* room for a piece; of HOMES_IN ... */
    float *leaving;                  /* ... and of HOMES_OUT */
    struct homes_thread {
        struct homes *homes;
        enum homes_side side;
        struct exchange exchange; /* its own */
        pthread_t thread;
    } sides[HOMES_SIDES];
    bool is_open;
    atomic_bool stops;
    struct exchange_failure failure; /* of any thread beside the trainer: it ends its waits too */
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n_orders;
    struct homes_order orders[HOMES_ORDERS_MAX];
    int n_done[HOMES_SIDES]; /* of them, the first ones; done by both they are taken out */
    bool has_weights[MODEL_UNITS_MAX];  /* [unit of the stage] */
    bool has_gradient[MODEL_UNITS_MAX]; /* of this worker's micro-batches */
};

/* Start the threads, on a link that is ready. Everything is borrowed; `x` is the trainer's until
 * homes_close(), and x->other is set. ERR_NO_MEMORY. */
MUST_CHECK enum err_code homes_open(struct homes *h, const struct plan *plan, int worker,
                                    const struct weights *weights, struct exchange *x,
                                    struct err *err);
/* Sets x->is_lost if one of them has lost a link. A zeroed one is fine. */
void homes_close(struct homes *h, struct exchange *x);

/* The weights of units at home are those after `step`: send them, and receive those of the others.
 * They may change only once all gradients of the next step are here. */
void homes_spread(struct homes *h, int64_t step);
/* Likewise their moments, for replicas that are about to train alone (train/outer.h). */
void homes_spread_moments(struct homes *h, int64_t step);
/* A step begins: collect its gradients from these replicas, a bit for each. */
void homes_collect(struct homes *h, int64_t step, uint32_t replicas);
/* The weights of all replicas, which have trained alone, in the place of their gradients. */
void homes_collect_weights(struct homes *h, int64_t step);
/* This worker's gradient of unit `i` of its stage is complete. */
void homes_put(struct homes *h, int i);

/* All replicas meet about a unit. `number` counts such meetings about each. Whatever the order says
 * is borrowed until homes_wait(). */
void homes_meet(struct homes *h, int64_t number, const struct homes_meeting *meeting);

/* Wait until the weights of unit `i` of the stage are here; until everything that was ordered is
 * done: then the gradients of units at home are sums over all replicas. Errors of
 * exchange_check(). */
MUST_CHECK enum err_code homes_wait_weights(struct homes *h, int i, const struct exchange *x,
                                            struct err *err);
MUST_CHECK enum err_code homes_wait(struct homes *h, const struct exchange *x, struct err *err);
/* Would that return at once? */
bool homes_is_done(struct homes *h);

#endif
