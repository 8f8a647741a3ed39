/* balance/bound.h - what no plan can beat, for any number of nodes. Private to balance.
 *
 * Let T be the time of a plan's slowest stage or edge. Under T a node runs at most the longest run
 * of layer units that takes it no more than T and fits into its memory, so it has a capacity in
 * FLOPs that knows about whole units. The layers' FLOPs have to go somewhere: filling the cheapest
 * nodes first, each to its capacity, takes the least time in all, f(T), where a node's price is its
 * time and, for its stage, two ways of its shortest edge and the CPU time of its messages.
 * maxStages has a price too (a Lagrange multiplier). Where links differ, nodes that are not joined
 * by edges up to T are not in one plan, so f(T) is the least of any island; and a plan of several
 * groups of near nodes (balance/groups.h) has a long edge for each but the first, which those in
 * the group pay as they are filled. What this leaves out is the order of nodes, how runs fit
 * together and most of what memory depends on, so it can only be too low.
 *
 * f falls as T grows. For T in (lo, hi] a step takes at least f(hi) + (M - 1) * lo; the interval
 * with the least is halved again and again.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_BOUND_H
#define BALANCE_BOUND_H

#include "balance/groups.h"

struct bound;

/* For all plans of the `n` nodes in `nodes`, indices into the request. The caller owns *out and
 * keeps what it was made from: bound_free(). ERR_NO_MEMORY. */
MUST_CHECK enum err_code bound_new(const struct partition_request *request, const int *nodes, int n,
                                   struct bound **out, struct err *err);
void bound_free(struct bound *b);

/* Of those nodes; kept by the bound. */
const struct groups *bound_groups(const struct bound *b);

/* Milliseconds that no step can be shorter than. */
double bound_step_ms(const struct bound *b);
/* A plan with a step below `step_ms` has its slowest stage in (*out_lo_ms, *out_hi_ms]; false when
 * there is none. */
bool bound_window(const struct bound *b, double step_ms, double *out_lo_ms, double *out_hi_ms);

/* With no stage above cap_ms, least times of all stages that run units 0 .. u-1 and of the edges
 * behind them, to out_ms[u] for u = 0 .. units. */
void bound_rest(struct bound *b, double cap_ms, double *out_ms);

#endif
