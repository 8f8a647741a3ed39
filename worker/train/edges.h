/* train/edges.h - the edges of a stage in a pipeline, for wire/link.h.
 *
 *     stage s-1  --forward-->   stage s  --forward-->   stage s+1
 *     stage s-1  <--backward--  stage s  <--backward--  stage s+1
 *
 * Activations, sums and facts of the run travel forward, gradients and totals backward. The first
 * stage has no EDGE_FORWARD_IN and no EDGE_BACKWARD_OUT, the last neither of the other two.
 *
 * Of several replicas, the last stages are joined: that of each replica sends its sums to that of
 * the lead, which decides about steps and evaluations, and gets the ends of both. Beside that, two
 * workers of different replicas with the same unit have an edge from and to its home, for its
 * gradients and its weights (train/homes.h).
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

/* Of a unit's gradients or weights. The attention of BERT-tiny, 66,048, is one piece. */
#define EDGES_PIECE_FLOATS ((size_t)72 << 10)

/* Floats of the piece that begins at `at` of `count`. */
static inline size_t edges_piece(size_t count, size_t at)
{
    size_t left = count - at;

    return left < EDGES_PIECE_FLOATS ? left : EDGES_PIECE_FLOATS;
}

/* As a worker sees them. */
enum edge_role {
    EDGE_FORWARD_IN,
    EDGE_FORWARD_OUT,
    EDGE_BACKWARD_IN,
    EDGE_BACKWARD_OUT,
    EDGE_SUMS_OUT, /* the last stage of a replica that is not the lead ... */
    EDGE_ENDS_IN,
    EDGE_SUMS_IN, /* ... and the lead's: this one and the next ones, by replica */
    EDGE_ENDS_OUT = EDGE_SUMS_IN + PLAN_REPLICAS_MAX,
    N_EDGE_ROLES = EDGE_ENDS_OUT + PLAN_REPLICAS_MAX,
};

/* The edges with a worker of another replica: their indexes; -1: there is none. */
struct home_edges {
    int worker;    /* its place in the plan ... */
    int replica;   /* ... and its replica */
    int grads_out; /* of units that have their home there */
    int weights_in;
    int grads_in; /* of units that have their home here */
    int weights_out;
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
    bool is_lead;                          /* the worker is of the lead replica */
    int n_homes;
    struct home_edges homes[SPEC_STAGES_MAX]; /* in the order of the plan, so of replicas too */
    bool has_keeper;
    struct copy_edges keeper;
    int n_kept; /* stages whose keeper this one is */
    struct copy_edges kept[PLAN_KEPT_MAX];
};

/* The edges of worker `worker` of the plan; none if it is alone. Workers are identified by slot. */
struct edges edges_of(const struct plan *plan, int worker);

/* How a message reaches all workers, or comes from all. */
enum route_kind {
    ROUTE_TO_DECIDER, /* the lead's last stage */
    ROUTE_FROM_DECIDER,
    ROUTE_TO_LEADER,
    ROUTE_FROM_LEADER,
    ROUTE_IN_REPLICA, /* from the decider to one replica; in the lead, from its last stage */
    ROUTE_ALONE,      /* from the last stage of any replica to the rest of it */
};

/* A worker's part of it: where it receives, and where it sends to then. */
struct route {
    int n_in, n_out;
    int in[PLAN_REPLICAS_MAX + 1]; /* enum edge_role */
    int out[PLAN_REPLICAS_MAX + 1];
};
struct route edges_route(const struct edges *edges, enum route_kind kind);

/* Add the edges for copies of checkpoints. */
void edges_add_copies(struct edges *edges, const struct plan *plan, int stage);

#endif
