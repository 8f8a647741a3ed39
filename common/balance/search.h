/* balance/search.h (private) - the shortest step of a problem's nodes: in one order, in which any
 * may be skipped, or in all orders and choices.
 *
 * A step takes sum + (M - 1) * max. Let f(B) be the least sum of all cuts whose max is at most B:
 * it only falls as B grows. If the solver, asked for cap `hi`, answers with sum f and max a, then
 * no cut with max in [a, hi] has a smaller sum, so [a, hi] is settled by this one answer; and no
 * cut with max in (lo, a) can take less than f + (M - 1) * lo. Intervals whose bound is not below
 * the best step found are dropped, the others are asked again just below `a` and in the middle.
 * What remains at the end is optimal to one part in 1e9, or to `gain`.
 * Layer: balance. Threads: any, each with its own search.
 */
#ifndef BALANCE_SEARCH_H
#define BALANCE_SEARCH_H

#include "balance/cut.h"

enum search_over {
    SEARCH_ORDER, /* the nodes as they stand */
    SEARCH_ALL,   /* all orders and choices of them */
};

struct search {
    const struct cut_problem *problem; /* borrowed */
    struct solver *solver;
    double lo_ms;     /* a better cut has its max above this, 0 when nothing is known ... */
    double hi_ms;     /* ... and not above this; 0: no limit */
    double gain;      /* share of a step that is not worth looking for, beside 1e-9 */
    double enough_ms; /* no need to look for anything faster than this */
    bool found;       /* a step of best_ms, here or before */
    struct cut best;  /* found here: 0 stages if none; with SEARCH_ALL the fewest among equals */
    double best_ms;
    double open_ms; /* least bound of an interval that had to be given up; else INFINITY */
    int n_solves;
};

/* The caller then sets what is known about where to look and how good the best cut so far is.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code search_init(const struct cut_problem *p, enum search_over over,
                                     struct search *out, struct err *err);
void search_deinit(struct search *s);

/* Improve on the best cut. */
void search_run(struct search *s);

/* The shortest step over cuts, orders and choices of a request's nodes (balance/optimal.c). Up to
 * as many nodes as PARTITION_EXACT_WORK allows: all orders and choices of them. Above: the best of
 * that for the most promising nodes and of a few orders of all of them. Fills in stages, times and
 * bound of `out`, which is zeroed; out->n_stages is 0 if nothing fits. */
MUST_CHECK enum err_code optimal_solve(const struct partition_request *request,
                                       struct placement *out, struct err *err);

#endif
