/* balance/search.h - from "least sum under a cap" to "shortest step". Private to balance.
 *
 * A step takes sum + (M - 1) * max. Let f(B) be the least sum of all cuts whose max is at most B:
 * it only falls as B grows. If the solver, asked for cap `hi`, answers with sum f and max a, then
 * no cut with max in [a, hi] has a smaller sum, so [a, hi] is settled by this one answer; and no
 * cut with max in (lo, a) can take less than f + (M - 1) * lo. Intervals whose bound is not below
 * the best step found are dropped, the others are asked again just below `a` and in the middle.
 * What remains at the end is optimal to one part in 1e9, or to `gain`.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_SEARCH_H
#define BALANCE_SEARCH_H

#include "balance/cut.h"

#define SEARCH_SOLVES_MAX 4000 /* of the solver; a hundred is usual */

/* The cut with the least sum among those whose max is at most cap_ms, if that sum is below
 * limit_ms. False when there is none. */
typedef bool search_solver(const struct cut_problem *p, void *workspace, double cap_ms,
                           double limit_ms, struct cut *out);

struct search {
    const struct cut_problem *problem;
    search_solver *solve;
    void *workspace;  /* of the solver */
    double lo_ms;     /* a better cut has its max above this, 0 when nothing is known ... */
    double hi_ms;     /* ... and not above this; 0: no limit */
    double gain;      /* share of a step that is not worth looking for, beside 1e-9 */
    double enough_ms; /* no need to look for anything faster than this */
    bool found;       /* *best holds a cut */
    struct cut best;
    double best_ms;
    double open_ms; /* least bound of an interval that had to be given up; else INFINITY */
    int n_solves;
};

/* Improve on what `search` has: the struct is given with problem, solve and workspace set, and
 * may hold a best cut from another solver, and what is known about where to look. */
void search_run(struct search *search);

#endif
