/* api/schedule.h - the order of work in a step: 1F1B.
 *
 * A stage first runs as many forward passes as there are stages behind it, then alternates forward
 * and backward passes, then runs the remaining backward passes (Narayanan et al. 2019, PipeDream,
 * section 3.2; with the flush at the step's end of PipeDream-2BW, so gradients are those of the
 * whole batch). Every stage runs the backward passes in the order 0..M-1, which is why sums over
 * micro-batches have the same bits for every cut. A serial step, as Sky Computing ran it, has one
 * micro-batch under way in the whole pipeline: forward through all stages and back before the next
 * one starts. It exists for comparison; the bits are the same. Layer: api (may use base). Threads:
 * any; pure.
 */
#ifndef API_SCHEDULE_H
#define API_SCHEDULE_H

#include "api/plan.h"

struct schedule {
    int n_stages;
    int n_microbatches;
    bool is_serial;
    int first_microbatch; /* of the replica's share of the batch */
};

struct schedule_op {
    bool is_backward;
    int microbatch;
};

/* Micro-batches of a step of `n_seqs` sequences: it has at most that many. */
int schedule_microbatches(const struct plan *plan, int n_seqs);
/* A bit for each replica that has any of them. */
uint32_t schedule_computing(const struct plan *plan, int n_seqs);
/* What one replica does in it; of a short step perhaps nothing. */
struct schedule schedule_of(const struct plan *plan, int replica, int n_seqs);
/* What it does for ticket `part` of a step (train/tickets.h), of as many as there are replicas. */
struct schedule schedule_of_ticket(const struct plan *plan, int replica, int part, int n_seqs);

/* The ticket's part of the micro-batches of its step. */
double schedule_ticket_share(const struct plan *plan, int part, int n_seqs);

/* How many micro-batches have their activations in memory at most: min(M, S - stage), or 1. */
int schedule_in_flight(const struct schedule *s, int stage);
/* The same for a worker of the plan, in any step. */
int schedule_slots(const struct plan *plan, int worker);

/* Operations of a step: 2 M. */
int schedule_length(const struct schedule *s);

/* Operation number `i` of `stage`, 0 <= i < schedule_length(). */
struct schedule_op schedule_op(const struct schedule *s, int stage, int i);

#endif
