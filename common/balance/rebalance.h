/* balance/rebalance.h - should units of a running job move between its workers, or to new ones?
 *
 * The leader reports the median time that each stage took in the last steps, and the deviation of
 * the slowest (train/pace.h). A worker's speed is the planned one times planned over measured time
 * of its stage. With these speeds the shortest step is predicted over all cuts for the same workers
 * in the same order, within the memory limits of their pods, and compared with that of the present
 * cut. A move pays off if it saves more in the steps that are left than moving costs.
 *
 * Nodes that have no worker of the job can join: the same is asked with one of them more, and one
 * more again, in the order of the request, and a worker may be left out then. Each must make the
 * step shorter by REBALANCE_GAIN. Their speed is the measured one of the node, corrected by what
 * all workers have in common.
 *
 * Where the limits of pods stand in the way, workers can be started again on the same nodes with
 * more memory: their units then come from a checkpoint, to which all go back. That must make the
 * step shorter by REBALANCE_GAIN too, beyond what fits into the pods as they are.
 *
 * Replicas stay on their workers, and none joins. Their shares of the batch follow the speeds, and
 * units move between the workers of a replica if that makes the step shorter by REBALANCE_GAIN
 * beyond what other shares do (balance/reshare.h). Steps are predicted with the protocol that is in
 * force.
 *
 * So that noise moves nothing, and no move is undone by the next look:
 * - a stage's median must be off the plan by REBALANCE_FAR and by REBALANCE_MADS deviations;
 * - the step must become shorter by REBALANCE_GAIN, in REBALANCE_TIMES looks in a row;
 * - after a move there is none for REBALANCE_HOLD_MS and REBALANCE_HOLD_STEPS.
 * Predictions may be wrong. If steps are longer after a move than before, beyond the noise, the
 * units move back. The next move has to wait longer then, and all further predictions for the job
 * are assumed to be off by as much as this one was.
 *
 * Layer: balance (may use cluster, api, base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_REBALANCE_H
#define BALANCE_REBALANCE_H

#include "api/progress.h"
#include "api/status.h"
#include "balance/partition.h"

#define REBALANCE_SAMPLES 20   /* of train/pace.h before the first look at a revision, ... */
#define REBALANCE_EVERY   10   /* ... and between two */
#define REBALANCE_FAR     0.15 /* share of the planned time */
/* Share of the slowest stage's time: one with less shows little of its node's speed. */
#define REBALANCE_LITTLE 0.2
/* A MAD is 0.67 standard deviations of a normal distribution (Rousseeuw and Croux 1993), and the
 * median of 20 samples has a standard error of 0.28 of these: 2 MADs are nearly five of them. */
#define REBALANCE_MADS  2.0
#define REBALANCE_GAIN  0.10 /* share of a step */
#define REBALANCE_TIMES 2
#define REBALANCE_WORSE 0.05 /* share of the step before a move, by which it must be longer */
/* Steps that a move takes beside the time of its bytes: the workers halt, connect and start. */
#define REBALANCE_MOVE_STEPS 2
/* Time beside that until workers are there again with more memory: their pods end and start, and
 * steps since the checkpoint are repeated. */
#define REBALANCE_GROW_MS 10000

#define REBALANCE_HOLD_MS    60000
#define REBALANCE_HOLD_STEPS 50
/* After units went back, this many times as long. */
#define REBALANCE_BACK_HOLD 10

/* Nodes that may join at once, and about so many places in the order of stages are tried. */
#define REBALANCE_JOIN_MAX    STATUS_JOINING_MAX
#define REBALANCE_JOIN_PLACES 4
/* In a cut that has been decided, the slot of the first node that joins; the next has one more. The
 * caller replaces it by that of the worker. */
#define REBALANCE_SLOT_JOINS (PLAN_SLOT_MAX + 1)

/* A user who asks for a decision has one at once, without the conditions above. */
#define REBALANCE_ASKED_SAMPLES 3
#define REBALANCE_ASKED_GAIN    0.01

enum rebalance_kind {
    REBALANCE_KEEP,
    REBALANCE_SUGGEST,
    REBALANCE_MOVE, /* next.next is the cut */
    REBALANCE_JOIN, /* likewise, when its new workers have been started */
    REBALANCE_GROW, /* likewise, when a checkpoint is written: those that grow are started again */
    REBALANCE_BACK, /* likewise: the one before the last move */
};

struct rebalance_input {
    const struct plan *plan; /* in force */
    /* Its nodes are the workers in the order of the plan, each with what its pod has and with its
     * planned speed; behind them at most REBALANCE_JOIN_MAX that could join, the best first. All
     * together are at most SPEC_STAGES_MAX. */
    struct partition_request request;
    /* Of the memory of each worker's node, what a new pod could have in place of the worker's;
     * NULL: none is started again. */
    const int64_t *room_bytes;
    const struct progress *measured; /* of that plan, with times of all stages */
    enum spec_rebalance mode;
    bool is_asked; /* by a user: whatever the mode is, move if that pays */
    int64_t now_ms;
    const struct status_rebalance *last; /* decision.next of the last time, or zeros */
};

struct rebalance_decision {
    enum rebalance_kind kind;
    bool is_new;                  /* SUGGEST: the last decision was another one */
    struct status_rebalance next; /* with the reason, for people */
};

/* Is there enough to look at, that the last look has not seen? */
bool rebalance_is_due(const struct plan *plan, const struct progress *measured, bool is_asked,
                      const struct status_rebalance *last);

/* Decide. The caller of REBALANCE_MOVE and REBALANCE_BACK fills in next.revision: that of the next
 * cut. ERR_NO_MEMORY. */
MUST_CHECK enum err_code rebalance_decide(const struct rebalance_input *in,
                                          struct rebalance_decision *out, struct err *err);

#endif
