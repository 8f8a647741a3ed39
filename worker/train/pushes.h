/* train/pushes.h - gradients that change weights as they arrive, at the home of their units.
 *
 * While replicas are asynchronous, a worker pushes the gradients of its ticket to the homes
 * (train/couriers.h), and gets the weights back that are there then. Here is the home's part: a
 * thread for every worker that has guests, units which are at home here. It applies what it
 * receives piece by piece, under one lock for all of them and the home's own gradients, and sends
 * the weights. So the weights of two pieces may be of different updates, as in any such exchange
 * (Niu et al. 2011, Hogwild); what is computed with is a copy, which no push changes.
 *
 * Layer: train (may use wire api base). Threads: the trainer's, one of train/couriers.h, its own.
 */
#ifndef TRAIN_PUSHES_H
#define TRAIN_PUSHES_H

#include <pthread.h>

#include "train/exchange.h"
#include "train/state.h"

/* A worker that has units which are at home here. */
struct guest {
    struct pushes *pushes;
    const struct home_edges *edges;
    int first_unit; /* those units: the last stage of a replica may have only the last ones */
    int n_units;
    pthread_t thread;
    float *piece;
};

struct pushes { /* all fields private */
    const struct spec *spec;
    const struct state *state;
    struct exchange exchange;
    atomic_bool stops;
    int n_guests;
    struct guest guests[SPEC_STAGES_MAX];
    pthread_mutex_t lock; /* of the weights and moments, and of: */
    pthread_cond_t changed;
    int n_pushing; /* guests that have not pushed for the last time */
};

/* A round begins (train/tickets.h): start the threads, on an exchange whose failure (`other`) is
 * set. Everything is borrowed. ERR_NO_MEMORY. */
MUST_CHECK enum err_code pushes_open(struct pushes *p, const struct plan *plan, int worker,
                                     const struct state *state, const struct exchange *x,
                                     struct err *err);
/* A zeroed one is fine. */
void pushes_close(struct pushes *p);

/* Apply `n` gradients of the unit, which is at home here, from `at` on; they are zero afterwards.
 * Read as many weights. */
void pushes_apply(struct pushes *p, int unit, size_t at, size_t n, float *grads,
                  const struct message_push *how);
void pushes_read(struct pushes *p, int unit, size_t at, size_t n, float *out);

/* Wait until all guests have pushed for the last time. Errors of exchange_check(). */
MUST_CHECK enum err_code pushes_wait(struct pushes *p, const struct exchange *x, struct err *err);

#endif
