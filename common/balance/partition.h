/* balance/partition.h - which units run on which node, so that a step is as short as possible.
 *
 * A step of S stages and M micro-batches is predicted to take
 *
 *     sum of stage times + (M - 1) * slowest stage or edge + 2 * sum of edge times
 *
 * (fill and drain once, the bottleneck M - 1 times more), where a stage takes what it computes and
 * the CPU time of its messages, an edge takes what the link between its two nodes takes, and
 * filling is quicker than the rest on a node that gives part of a core (balance/cost.h). Optimal
 * minimises that over the cut, the order and the choice of nodes, under every node's memory and the
 * spec's minStages and maxStages. It is exact (to 1e-9) up to PARTITION_EXACT_WORK: 11 different
 * nodes for the 27 units of BERT-base, or 64 of three kinds; another node then never makes a plan
 * slower. Above, it is the best of a few orders of the 64 most promising nodes, each cut exactly,
 * and of an exact search over the most promising few, with a proven lower bound (balance/bound.h).
 * It stops 0.3% above that bound or when the next order gains less than 0.2%, so there another node
 * may cost half a percent. 160 layers on 64 or 1,000 nodes up to seven times slower than the
 * fastest come to 0.2% to 3% above the bound, in four buildings as well, and to 10% where memory
 * leaves room for two layers per node.
 *
 * Even gives every node the same number of layers; Dynamic improves that with a published heuristic
 * (balance/rules.h). Both exist to be compared with. Manual obeys spec.placement.manual.
 *
 * More micro-batches keep the stages of a pipeline busier and need less memory. Each one costs its
 * calls, reading the weights through the caches and two messages per edge (balance/cost.h).
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_PARTITION_H
#define BALANCE_PARTITION_H

#include "api/plan.h"
#include "balance/cost.h"

#define PARTITION_EXACT_WORK     1e6 /* states times choices of one search, see balance/search.c */
#define PARTITION_EXCLUDED_MAX   16  /* excluded nodes that are listed; more are only counted */
#define PARTITION_CANDIDATES_MAX 64  /* nodes that one search looks at */

struct partition_request {
    struct cost_job job;
    int min_stages, max_stages;
    int memory_percent; /* of the estimate that stages are given; 100 is usual, beside headroom */
    const struct node *nodes;
    int n_nodes;
    struct cost_link link;         /* COST_LINK_DEFAULT if not measured */
    const struct cost_link *links; /* [n_nodes][n_nodes], symmetrical; NULL: every pair is `link` */
    /* Or of link classes (balance/cut.h): links is [n_link_classes][n_link_classes].
     * partition_choose() makes it so; for its callers this is NULL. */
    const int *link_class; /* [n_nodes] */
    int n_link_classes;
};

/* All that a spec asks for; nodes, links and what was measured are the caller's to add. */
static inline struct partition_request partition_request_of(const struct spec *spec)
{
    return (struct partition_request){
        .job = {.spec = spec,
                .micro_batches = spec->training.micro_batches,
                .saves_from_copy =
                    spec->checkpoint.is_on && spec->checkpoint.mode != SPEC_SAVING_BLOCKING},
        .min_stages = spec->placement.min_stages,
        .max_stages = spec->placement.max_stages,
        .memory_percent = 100 + spec->placement.headroom_percent,
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
    int micro_batches;    /* the spec's, or the chosen number if that is 0 */
    bool saves_from_copy; /* as in the request, or as chosen */
    int n_stages;         /* 0: nothing fits */
    struct placement_stage stages[SPEC_STAGES_MAX];
    double predicted_step_ms;
    double bound_ms;        /* lower bound of every plan; equal to predicted_step_ms if the search
                             * was exact and partition_choose() saved neither nodes nor micro-batches */
    double max_ms;          /* slowest stage, as it is busy (balance/cost.h), or edge */
    int bottleneck;         /* stage with the longest predicted_ms */
    double even_step_ms;    /* with strategy Even; negative if that does not fit */
    double dynamic_step_ms; /* with strategy Dynamic, likewise */
    double roomy_step_ms;   /* without spec.placement.headroomPercent; 0: not looked at */
    int n_excluded;         /* excluded nodes; the first PARTITION_EXCLUDED_MAX are listed */
    struct plan_excluded excluded[PARTITION_EXCLUDED_MAX];
};

/* Make the placement that spec.placement.strategy asks for.
 *
 * Returns ERR_OK; ERR_NOT_FOUND when nothing fits, with a text that names what to change: "unit
 * embeddings needs 700 MiB, the largest node offers 512 MiB: ...", or when Manual names a node that
 * is not there; ERR_INVALID for a node without speed and for a link that cannot be or is not the
 * same both ways; ERR_NO_MEMORY. */
MUST_CHECK enum err_code partition_solve(const struct partition_request *request,
                                         struct placement *out, struct err *err);

/* Stages, times and bound alone, which are compared with nothing, of a request that
 * partition_solve() accepts. ERR_NOT_FOUND, ERR_NO_MEMORY. */
MUST_CHECK enum err_code partition_cut(const struct partition_request *request,
                                       struct placement *out, struct err *err);

#define PARTITION_MICRO_MAX 1024 /* as spec.training.microBatches */
#define PARTITION_TRIES     16   /* divisors of the batch size that are planned with */
#define PARTITION_FEW_TRIES 4    /* with more than PARTITION_FEW_NODES nodes */
#define PARTITION_FEW_NODES 16

/* Shares of the shortest predicted step. Predictions are less accurate than the first, so a choice
 * by smaller differences would follow the noise of the measurements. */
#define PARTITION_MICRO_GAIN 0.02 /* that another number of micro-batches must gain */
#define PARTITION_NODE_GAIN  0.01 /* and a node more */

struct partition_tries {
    int n;
    int micro_batches[PARTITION_TRIES];
};

/* Divisors of the batch size, in rising order: all, or the `n_max` nearest to what is typical, four
 * times the largest possible number of stages, and the largest, which needs the least memory. */
struct partition_tries partition_tries(const struct partition_request *request, int n_max);

/* partition_solve(), for which out->micro_batches is chosen if the job's is 0: the usual number,
 * four times the stages of the shortest step, or 1 with one stage; or, if that is more than
 * PARTITION_MICRO_GAIN slower than the fastest, the smallest number that is not. All divisors of
 * the batch size are tried if there are at most PARTITION_TRIES, else those nearest to four times
 * the largest possible number of stages. With strategy Optimal the plan then has the fewest nodes
 * whose step is at most PARTITION_NODE_GAIN longer than the shortest. out->bound_ms is a bound for
 * all of these. Where the spec asks for headroom, it is also found out what that costs.
 *
 * With checkpoint.mode Auto, checkpoints are written from a copy of the state, for which
 * job.saves_from_copy asks, unless there is no plan with the memory for it, its step is more than
 * PARTITION_NODE_GAIN longer than without, or they would lie with a single worker, where none are
 * written. */
MUST_CHECK enum err_code partition_choose(const struct partition_request *request,
                                          struct placement *out, struct err *err);

#endif
