/* train/edges.h - the edges of a stage in a pipeline, for wire/link.h.
 *
 *     stage s-1  --forward-->   stage s  --forward-->   stage s+1
 *     stage s-1  <--backward--  stage s  <--backward--  stage s+1
 *
 * Activations, sums and facts of the run travel forward, gradients and totals backward. The first
 * stage has no EDGE_FORWARD_IN and no EDGE_BACKWARD_OUT, the last neither of the other two.
 *
 * Where checkpoints lie in workers' own stores, a stage has one more pair of edges with its keeper,
 * a worker on another node (plan_keepers()), for copies of its shards and the answers to them.
 * Layer: train (may use wire api base). Threads: any; pure.
 */
#ifndef TRAIN_EDGES_H
#define TRAIN_EDGES_H

#include "api/plan.h"
#include "wire/link.h"

#define EDGES_COPY_PIECE_BYTES (1u << 20)

/* As a stage sees them. */
enum edge_role {
    EDGE_FORWARD_IN,
    EDGE_FORWARD_OUT,
    EDGE_BACKWARD_IN,
    EDGE_BACKWARD_OUT,
    N_EDGE_ROLES,
};

/* The edges between a stage and its keeper: their indexes, at either end. */
struct copy_edges {
    int copies;  /* from the stage */
    int answers; /* from its keeper */
};

struct edges {
    int n;
    struct link_edge list[LINK_EDGES_MAX]; /* for link_open() */
    int index[N_EDGE_ROLES];               /* in `list`, for the calls of a link; -1: not there */
    bool has_keeper;
    struct copy_edges keeper;
    int n_kept; /* stages whose keeper this one is */
    struct copy_edges kept[PLAN_KEPT_MAX];
};

/* The edges of stage `stage`; none in a plan of one stage. Workers are identified by slot. */
struct edges edges_of(const struct plan *plan, int stage);

/* Add the edges for copies of checkpoints. */
void edges_add_copies(struct edges *edges, const struct plan *plan, int stage);

#endif
