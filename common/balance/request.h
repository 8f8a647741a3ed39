/* balance/request.h - a placement problem and its solution: the types that balance and its callers
 * share.
 *
 * partition_solve() and choose_solve() turn a request into a placement.
 * Layer: balance (may use api base).
 */
#ifndef BALANCE_REQUEST_H
#define BALANCE_REQUEST_H

#include "api/plan.h"
#include "balance/cost.h"

#define PARTITION_LEFT_OUT_MAX   16 /* excluded nodes that are listed; more are only counted */
#define PARTITION_CANDIDATES_MAX 64 /* nodes that one search looks at */

struct partition_request {
    struct cost_job job;
    int min_stages, max_stages;
    int memory_percent; /* of the estimate that stages are given; 100 is usual */
    const struct node *nodes;
    int n_nodes;
    struct cost_link link;         /* COST_LINK_DEFAULT if not measured */
    const struct cost_link *links; /* [n_nodes][n_nodes], symmetrical; NULL: every pair is `link` */
    /* Or of link classes (balance/cut.h): links is [n_link_classes][n_link_classes]. choose_solve()
     * makes it so; for its callers this is NULL. */
    const int *link_class; /* [n_nodes] */
    int n_link_classes;
};

/* All that a spec asks for; nodes, links and what was measured are the caller's to add. */
static inline struct partition_request partition_request_of(const struct spec *spec)
{
    return (struct partition_request){
        .job = {.spec = spec, .micro_batches = spec->training.micro_batches},
        .min_stages = spec->placement.min_stages,
        .max_stages = spec->placement.max_stages,
        .memory_percent = 100,
        .link = COST_LINK_DEFAULT};
}

/* What stages may be planned to need on a node. */
static inline int64_t partition_memory(const struct partition_request *r, int node)
{
    return cost_planned_bytes(r->nodes[node].memory_bytes, r->memory_percent);
}

/* Between two nodes of the request. */
static inline const struct cost_link *partition_link(const struct partition_request *r, int a,
                                                     int b)
{
    if (!r->links)
        return &r->link;
    if (r->link_class)
        return &r->links[r->link_class[a] * r->n_link_classes + r->link_class[b]];
    return &r->links[(size_t)a * (size_t)r->n_nodes + (size_t)b];
}

struct placement_stage {
    int node; /* index into the request's nodes */
    int first_unit;
    int n_units;
    double predicted_ms;  /* forward and backward of one micro-batch, with its share of updates */
    int64_t memory_bytes; /* that the stage needs */
    double edge_ms;       /* to the next stage, one micro-batch one way; 0 behind the last */
};

struct placement {
    enum spec_strategy strategy;
    int micro_batches; /* the spec's, or the chosen number if that is 0 */
    int n_stages;      /* 0: nothing fits */
    struct placement_stage stages[SPEC_STAGES_MAX];
    double predicted_step_ms;
    double bound_ms;        /* lower bound of every plan; equal to predicted_step_ms if the search
                             * was exact and choose_solve() saved neither nodes nor micro-batches */
    double max_ms;          /* slowest stage, as it is busy (balance/cost.h), or edge */
    int bottleneck;         /* stage with the longest predicted_ms */
    double even_step_ms;    /* with strategy Even; negative if that does not fit */
    double dynamic_step_ms; /* with strategy Dynamic, likewise */
    int n_left_out;         /* excluded nodes; the first PARTITION_LEFT_OUT_MAX are listed */
    struct plan_left_out left_out[PARTITION_LEFT_OUT_MAX];
};

#endif
