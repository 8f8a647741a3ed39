/* train/edges.h - the edges of a stage in a pipeline, for wire/link.h.
 *
 *     stage s-1  --forward-->   stage s  --forward-->   stage s+1
 *     stage s-1  <--backward--  stage s  <--backward--  stage s+1
 *
 * Activations, sums and facts of the run travel forward, gradients and totals backward. The first
 * stage has no EDGE_FORWARD_IN and no EDGE_BACKWARD_OUT, the last neither of the other two.
 * Layer: train (may use wire api base). Threads: any; pure.
 */
#ifndef TRAIN_EDGES_H
#define TRAIN_EDGES_H

#include "api/plan.h"
#include "wire/link.h"

/* As a stage sees them. */
enum edge_role {
    EDGE_FORWARD_IN,
    EDGE_FORWARD_OUT,
    EDGE_BACKWARD_IN,
    EDGE_BACKWARD_OUT,
    N_EDGE_ROLES,
};

struct edges {
    int n;
    struct link_edge list[N_EDGE_ROLES]; /* for link_open() */
    int index[N_EDGE_ROLES];             /* in `list`, for the calls of a link; -1: not there */
};

/* The edges of stage `stage`; none in a plan of one stage. Workers are identified by slot. */
struct edges edges_of(const struct plan *plan, int stage);

#endif
