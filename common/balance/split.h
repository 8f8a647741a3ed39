/* balance/split.h (private) - nodes dealt out to replicas: what one such split costs.
 *
 * The candidates are numbered so that those of a kind (balance/cut.h) are neighbours, and a set of
 * them is a bit per candidate. Nodes of a kind are interchangeable, so a pipeline is searched once
 * for every set of kinds and kept. The time of a step is defined in balance/replicas.h.
 * Layer: balance. Threads: any, each with its own problem.
 */
#ifndef BALANCE_SPLIT_H
#define BALANCE_SPLIT_H

#include "balance/cut.h"
#include "balance/replicas.h"

#define SPLIT_PIPELINES_MAX 16384 /* kept; a power of two */

/* The shortest pipeline of a set of nodes for some micro-batches of the step. */
struct pipeline {
    uint64_t nodes; /* the first ones of each kind; 0: this one is free */
    int share;      /* micro-batches */
    double step_ms; /* INFINITY: nothing fits */
    double bound_ms;
    double max_ms; /* as in a placement */
    int n_stages;
    struct placement_stage *stages; /* node: candidate */
};

struct split {
    int n; /* replicas */
    uint64_t nodes[PLAN_REPLICAS_MAX];
    int shares[PLAN_REPLICAS_MAX];
};

/* The time of a pipeline for m micro-batches, about: first + (m - 1) * more. */
struct split_line {
    double first_ms, more_ms;
};

/* A node that can hold a unit. */
struct split_rate {
    double speed, quota;
};

struct split_problem {
    const struct partition_request *request; /* borrowed; its number of micro-batches is chosen */
    int n_units;
    int n;                              /* candidates */
    bool has_all;                       /* nodes that can hold a unit; else the fastest of them */
    int node[PARTITION_CANDIDATES_MAX]; /* index into the request */
    int kind[PARTITION_CANDIDATES_MAX];
    double flops;                           /* of a micro-batch, without the update */
    double speed[PARTITION_CANDIDATES_MAX]; /* in micro-batches per millisecond, if it had all */
    int order[PARTITION_CANDIDATES_MAX];    /* by speed per quota, the most first */
    struct split_rate *rates; /* of all nodes that can hold a unit, in such an order */
    int n_rates;
    double update_flops;        /* per parameter */
    double embeddings_least_ms; /* that they take over a link */
    double update_least_ms;
    struct spec spec;           /* scratch: of one share */
    struct plan plan;           /* scratch: for plan_homes() */
    struct node *nodes;         /* [n] scratch */
    struct cost_link *links;    /* [n][n] scratch; NULL: all links are alike */
    struct pipeline *pipelines; /* [SPLIT_PIPELINES_MAX] by hash */
    int n_pipelines;
    int n_calls_left; /* of the solver */
};

/* The candidates are the fastest nodes that can hold a unit. ERR_NO_MEMORY. */
MUST_CHECK enum err_code split_problem_init(const struct partition_request *request,
                                            struct split_problem *out, struct err *err);
void split_problem_deinit(struct split_problem *p);

static inline uint64_t split_all(const struct split_problem *p)
{
    return p->n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << p->n) - 1;
}

double split_speed(const struct split_problem *p, uint64_t nodes);

/* Lower bounds that take no search, see balance/replicas.h: of the step of a pipeline on any of
 * these nodes, as a line through that bound for `share`; and of the slowest of `n` replicas on any
 * nodes of the request. */
struct split_line split_pipeline_least(const struct split_problem *p, uint64_t nodes, int share);
double split_slowest_least_ms(const struct split_problem *p, int n);

/* And of exchange and update together, with `n` replicas. */
double split_exchange_least_ms(const struct split_problem *p, int n);

/* Find the pipeline, which `p` owns. ERR_LIMIT when no calls are left; ERR_NO_MEMORY. */
MUST_CHECK enum err_code split_pipeline(struct split_problem *p, uint64_t nodes, int share,
                                        const struct pipeline **out, struct err *err);

/* Put the replicas in the order that a plan has and measure the step; INFINITY if a pipeline does
 * not fit. Errors are those of split_pipeline(). */
MUST_CHECK enum err_code split_measure(struct split_problem *p, struct split *split,
                                       struct replicas_step *out, struct err *err);

/* The same for a measured split if candidates a and b change places, one of which may be in no
 * replica, and no pipeline gets faster or slower by that. */
MUST_CHECK enum err_code split_measure_swap(struct split_problem *p, const struct split *split,
                                            int a, int b, struct replicas_step *out,
                                            struct err *err);

/* Set the step of replicas whose pipelines are given, in the order of the plan; the request has at
 * most PARTITION_CANDIDATES_MAX nodes. */
void split_measure_placed(const struct partition_request *request, struct replicas *r);

/* The pipelines as placements. Errors are those of split_pipeline(). */
MUST_CHECK enum err_code split_place(struct split_problem *p, const struct split *split,
                                     struct placement out[static PLAN_REPLICAS_MAX],
                                     struct err *err);

#endif
