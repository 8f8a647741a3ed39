/* balance/optimal.h (private) - the shortest step over cuts, orders and nodes left out.
 *
 * Up to as many nodes as PARTITION_EXACT_WORK allows: all of them by balance/subsets.h. Above:
 * the best of that for the most promising nodes and of balance/chain.h for a few orders of all of
 * them.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_OPTIMAL_H
#define BALANCE_OPTIMAL_H

#include "balance/search.h"

/* The best cut so far. */
struct solution {
    bool found;
    struct cut cut; /* its nodes are indices into the request */
    int64_t bytes[SPEC_STAGES_MAX];
    double stage_ms[SPEC_STAGES_MAX];
    double edge_ms[SPEC_STAGES_MAX]; /* behind each stage, one way */
    double step_ms;
    double bound_ms; /* no plan can be faster */
};

/* Take what a search has found when it is faster. */
void solution_keep_better(const struct cut_problem *p, const struct search *s,
                          struct solution *out);

/* `out` starts zeroed; afterwards out->found says whether anything fits. */
MUST_CHECK enum err_code optimal_solve(const struct partition_request *request,
                                       struct solution *out, struct err *err);

#endif
