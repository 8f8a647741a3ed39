/* balance/subsets.h - the shortest sum of times over all cuts, orders and choices of nodes.
 *
 * Dynamic programming over (set of nodes, first unit). Let g(D, u) be the least sum of times in
 * which the nodes of D, in any order, run units u..n-1, with no stage or edge above cap_ms. The
 * first of those stages is some node d of D with a run u..v-1, and then
 *
 *     g(D, u) = min over d, v of  time(d, u, v) + edges behind v-1 + g(D - d, v)
 *
 * because nothing about the stages behind depends on d or on the run: their times are their own,
 * and the memory of a stage depends only on how many stages are behind it, which is |D| - 1 for
 * this one and counted within D - d for the others. So an optimal solution holds an optimal
 * solution of the rest. Work: 2^nodes * (units + 1) states with nodes * units / 2 choices.
 * Layer: balance. Threads: any, each with its own workspace.
 */
#ifndef BALANCE_SUBSETS_H
#define BALANCE_SUBSETS_H

#include "balance/cut.h"

struct subsets {
    double *sum_ms; /* [2^n_nodes][n_units+1] */
    struct subsets_choice *choice;
};

/* What a search would take, in choices looked at. */
double subsets_work(int n_nodes, int n_units);

MUST_CHECK enum err_code subsets_init(const struct cut_problem *p, struct subsets *out,
                                      struct err *err);
void subsets_deinit(struct subsets *s);

/* The cut with the least sum_ms among those whose max_ms is at most cap_ms; among equals one with
 * the fewest stages. False when there is none. `subsets` is a struct subsets. */
bool subsets_solve(const struct cut_problem *p, void *subsets, double cap_ms, double limit_ms,
                   struct cut *out);

#endif
