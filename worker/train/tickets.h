/* train/tickets.h - which replica computes what while replicas are asynchronous (ASP).
 *
 * The batch of a step is dealt into as many tickets as there are replicas, of whole micro-batches:
 * ticket q is part q % n of step q / n. A replica that has ended one gets the next, so that
 * none is used twice and a faster replica uses more of them. Its gradients change the weights at
 * once, with a learning rate that is lower (optimizer_share()): a step's work moves the weights as
 * far as in a synchronous step.
 *
 * A round is a run of steps between two boundaries, at which all replicas meet: every ticket of its
 * steps has ended then. Towards its end a slow replica gets no more tickets as soon as the others
 * would end all that are left before it ends one. The staleness of a ticket is the number of other
 * tickets that have ended between its hand-out and its own end. It can be bounded: then no ticket
 * is given that would let those that are held, or itself, exceed the bound if all others end first.
 * Layer: train (may use api base). Threads: one at a time; pure.
 */
#ifndef TRAIN_TICKETS_H
#define TRAIN_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/plan.h"

struct tickets {
    int n_replicas;
    int64_t first; /* ticket of the round */
    int64_t next;  /* to be given */
    int64_t end;   /* the first one behind the round */
    int64_t n_ended;
    int64_t n_skipped; /* of them, left out */
    int64_t staleness; /* of all that have ended: their sum ... */
    int64_t staleness_max;
    struct {
        int64_t ticket;   /* -1: none */
        int64_t given_at; /* n_ended then */
        int64_t given_ms;
        bool is_over; /* the replica gets no more */
    } held[PLAN_REPLICAS_MAX];
    double pace_ms[PLAN_REPLICAS_MAX]; /* of each replica's last ticket; 0: not known */
};

static inline int64_t tickets_step(int64_t ticket, int n_replicas)
{
    return ticket / n_replicas;
}

static inline int tickets_part(int64_t ticket, int n_replicas)
{
    return (int)(ticket % n_replicas);
}

/* A round of the steps from `first_step` to before `end_step`. */
void tickets_begin(struct tickets *t, int n_replicas, int64_t first_step, int64_t end_step);
/* Must this replica, which holds none, wait for others to end theirs, so that none is more than
 * `most` tickets stale? Not if there are no more for it. */
bool tickets_must_wait(const struct tickets *t, int replica, int most);
/* For a replica that holds none; false: there are no more for it in this round. `now_ms` is of any
 * clock that does not go back. */
bool tickets_take(struct tickets *t, int replica, int64_t now_ms, int64_t *out);
/* The replica's ticket has ended. */
void tickets_return(struct tickets *t, int replica, int64_t now_ms, bool is_skipped);
/* No further step is begun: the round ends with the one of which a ticket was given last. */
void tickets_close(struct tickets *t);

bool tickets_are_over(const struct tickets *t);
/* From the job's start, by how many tickets have ended: whichever they are, the weights have moved
 * by theirs. So a replica that holds one for long does not hide what the others do. */
int64_t tickets_steps_done(const struct tickets *t);
double tickets_mean_staleness(const struct tickets *t);

#endif
