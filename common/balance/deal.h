/* balance/deal.h (private) - the search for the best split of nodes among a number of replicas.
 *
 * First splits come from dealing out nodes by speed, by memory and by nearness. They are improved
 * by moving and swapping nodes: pipelines are estimated by their lower bound, times how far above
 * it they were before the change, and only the most promising changes are measured. Small problems
 * are enumerated: all splits and shares, or all splits with shares that follow the pipelines'
 * times. See balance/replicas.h. Layer: balance. Threads: any, each with its own problem.
 */
#ifndef BALANCE_DEAL_H
#define BALANCE_DEAL_H

#include "balance/split.h"

#define DEAL_CHANGES_MAX                                                                           \
    (PARTITION_CANDIDATES_MAX * (PARTITION_CANDIDATES_MAX + PLAN_REPLICAS_MAX + 1))

/* A candidate goes to another replica, or to none; or changes places with another one. */
struct change {
    int node, with; /* with: -1 */
    int to;         /* replica; the number of replicas: none */
    double ms;      /* that the slowest replica would take, about; or the step */
};

/* The search for the best split into a number of replicas. */
struct deal {
    struct split_problem *problem;
    struct change *changes; /* [DEAL_CHANGES_MAX] scratch */
    int n;                  /* replicas */
    struct split best;
    struct replicas_step step; /* its; INFINITY: none was found */
    double bound_ms;
    bool is_exact;
};

/* The caller sets problem, changes and n. Find a first split, and the bound of all; step.step_ms is
 * INFINITY if none is found. ERR_NO_MEMORY. */
MUST_CHECK enum err_code deal_begin(struct deal *d, struct err *err);

/* Improve on it. ERR_NO_MEMORY. */
MUST_CHECK enum err_code deal_finish(struct deal *d, struct err *err);

/* Are all splits few enough to be tried, and all shares with them? */
bool deal_can_try_all(struct deal *d);

#endif
