/* balance/optimal.h (private) - the shortest step over cuts, orders and choices of nodes.
 *
 * Up to as many nodes as PARTITION_EXACT_WORK allows: all of them by balance/subsets.h. Above:
 * the best of that for the most promising nodes and of balance/chain.h for a few orders of all of
 * them.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_OPTIMAL_H
#define BALANCE_OPTIMAL_H

#include "balance/search.h"

/* Take what a search has found when it is faster: stages, times and bottleneck. */
void placement_keep_better(const struct cut_problem *p, const struct search *s,
                           struct placement *out);

/* Fill in stages, times and bound of `out`, which is zeroed; out->n_stages is 0 if nothing fits. */
MUST_CHECK enum err_code optimal_solve(const struct partition_request *request,
                                       struct placement *out, struct err *err);

#endif
