/* train/tally.h - what the trainer counts for the metrics port (train/metrics.h).
 *
 * Counted since the process began, over all of its sessions. The trainer takes no lock for it and
 * reads no clock: it hands in what it has read for its stopwatches.
 * Layer: train (may use wire api base). Threads: the trainer's writes, and the link's the traffic;
 * any may read the atomic fields.
 */
#ifndef TRAIN_TALLY_H
#define TRAIN_TALLY_H

#include <stdatomic.h>

#include "api/plan.h"
#include "train/edges.h"
#include "wire/link.h"

/* What the trainer's time is spent on. */
enum tally_part {
    TALLY_FORWARD, /* with making or unpacking the micro-batch */
    TALLY_BACKWARD,
    TALLY_UPDATE,   /* of the weights, with the norm of the gradients */
    TALLY_WAITING,  /* for other stages; sending to them is part of it */
    TALLY_EXCHANGE, /* of gradients and weights between replicas */
    TALLY_OTHER,    /* than steps: evaluations, predictions, checkpoints that are begun */
    TALLY_PARTS,
};
extern const char *const tally_part_names[TALLY_PARTS];

struct tally {
    atomic_llong ns[TALLY_PARTS];
    atomic_llong n_steps;  /* that this worker took part in, those done again included */
    atomic_llong n_tokens; /* that it computed in them */
    atomic_llong saved_ms; /* wall clock: the state that the newest complete checkpoint of this
                              process holds; 0: there is none */
    struct tally_peer {
        atomic_bool is_there; /* the last session that was connected has edges to it */
        struct link_traffic traffic;
    } peers[PLAN_SLOT_MAX + 1]; /* by slot */
    /* The trainer's own: */
    enum tally_part part;
    int64_t from_ns; /* since when */
};

/* A session begins to train: the time since the last one does not count. */
void tally_begin(struct tally *t, int64_t now_ns);
/* Until now it was the last part, from now on it is this one. `now_ns` is clock_now_ns(). */
void tally_turn(struct tally *t, enum tally_part part, int64_t now_ns);

static inline void tally_add(atomic_llong *count, int64_t n)
{
    (void)atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

/* Have the link count what travels over the edges of a session. */
void tally_connect(struct tally *t, struct edges *edges);

#endif
