/* balance/chain.h - the shortest sum of times for one order of nodes, any of which may be skipped.
 *
 * Dynamic programming from the back over (position in the order, stages used, first unit), with
 * the same argument as balance/subsets.h. A node that is added to the order can be skipped, so the
 * result never gets worse by it. Work: nodes * stages * units^2 / 2.
 * Layer: balance. Threads: any, each with its own workspace.
 */
#ifndef BALANCE_CHAIN_H
#define BALANCE_CHAIN_H

#include "balance/cut.h"

struct chain {
    int n_nodes;
    int order[PARTITION_CANDIDATES_MAX]; /* candidates, first stage first; set before solving */
    double *sum_ms;                      /* [max_stages+1][n_units+1] */
    short *end;                          /* [n_nodes][max_stages+1][n_units+1]; 0: skipped */
};

/* The order is the problem's own at first. */
MUST_CHECK enum err_code chain_init(const struct cut_problem *p, struct chain *out,
                                    struct err *err);
void chain_deinit(struct chain *c);

/* As subsets_solve(). `chain` is a struct chain; it may hold fewer nodes than the problem. */
bool chain_solve(const struct cut_problem *p, void *chain, double cap_ms, struct cut *out);

#endif
