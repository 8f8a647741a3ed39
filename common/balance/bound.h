/* balance/bound.h (private) - a lower bound of the step for any number of nodes, and which nodes
 * are near each other.
 *
 * Let T be the time of a plan's slowest stage or edge. Within T a node runs at most the longest run
 * of layer units that takes no longer than T and fits into its memory: its capacity, in FLOPs but
 * aware of whole units. So nodes are bins and the layers' FLOPs are divisible goods: a fractional
 * knapsack, for which filling the cheapest bins first is optimal (Dantzig 1957). A bin's price per
 * FLOP is the node's time and, spread over its capacity, what its stage costs beside its units: two
 * ways of the shortest edge and the CPU time of the messages. The result f(T) is the least sum of
 * times, INFINITY if the maxStages largest bins are too small. Nodes that no chain of edges up to T
 * joins cannot be in one plan, so f(T) is the least over such islands. Ignored are the order of
 * nodes, how runs fit together and most of what memory depends on, so f(T) can only be too low.
 *
 * Two refinements were measured and left out: a price per stage for maxStages (a Lagrange
 * multiplier) moved no bound, and a price for the long edge to each further group brought the gap
 * of 24 nodes in four buildings from 15% to 7%, but no plan came out faster.
 *
 * f falls as T grows. For T in (lo, hi] a step takes at least f(hi) + (M - 1) * lo. The interval
 * where this is least is halved again and again.
 *
 * The distance of two nodes is the time of an edge between layers. The edges of the nodes' shortest
 * spanning tree up to a distance join the same nodes as all edges up to it (Gower and Ross 1969),
 * so the tree answers for every distance which nodes are a group.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_BOUND_H
#define BALANCE_BOUND_H

#include "balance/partition.h"

struct groups {
    int n;
    int *order;  /* [n] from the first, each joined to one before it; groups are contiguous */
    int *parent; /* [n] the node that each is joined to; the first: itself */
    double *ms;  /* [n] its distance; the first: 0 */
    double shortest_ms, longest_ms; /* edges between any two nodes */
    double near_ms; /* distance within groups if they are far from each other, else INFINITY */
};

/* Of the `n` nodes in `nodes`, indices into the request. groups_deinit() frees what *out owns.
 * ERR_NO_MEMORY. Work: n * n, or n when all links are alike. */
MUST_CHECK enum err_code groups_init(const struct partition_request *r, const int *nodes, int n,
                                     struct groups *out, struct err *err);
void groups_deinit(struct groups *g);

/* Number the groups whose nodes are joined by edges up to `ms`, to out_group[n]; returns how many.
 * Groups that are near each other have numbers that are. */
int groups_at(const struct groups *g, double ms, int *out_group);

#define BOUND_INTERVALS_MAX 97

struct bound {
    int n_microbatches;
    int n;
    struct interval {
        double lo, hi; /* of T */
        double sum_ms; /* f(hi) */
    } intervals[BOUND_INTERVALS_MAX];
};

/* For all plans of the `n` nodes in `nodes`, indices into the request, and `groups` of these.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code bound_init(const struct partition_request *request, const int *nodes,
                                    const struct groups *groups, struct bound *out,
                                    struct err *err);

/* Milliseconds that no step can be shorter than. */
double bound_step_ms(const struct bound *b);
/* A plan with a step below `step_ms` has its slowest stage or edge in (*out_lo_ms, *out_hi_ms];
 * false if there is no such plan. */
bool bound_window(const struct bound *b, double step_ms, double *out_lo_ms, double *out_hi_ms);

#endif
