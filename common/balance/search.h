/* balance/search.h (private) - from "least sum under a cap" to "shortest step"; and the inner loop
 * of the two solvers that find such sums, balance/subsets.h and balance/chain.h.
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

/* Puts a node in front of stages that are already placed, with every run it can take.
 *
 * behind_ms[v] is the least time of stages that begin at unit v, with the edge to them. For every u
 * we want the minimum of time(u, v) + behind_ms[v] over all v for which units u..v-1 take no longer
 * than the cap and fit into the node's memory. A run that is too large stays so when it gets
 * longer, so these v reach from u+1 to a limit that only falls when u falls: a sliding window,
 * whose minimum a monotonic queue keeps. A v is checked against cap and memory only once it is that
 * minimum and better than the best known. Work: units, not units squared.
 *
 * Edges make two exceptions, which are evaluated run by run: nothing behind (v = n_units), which
 * saves an edge's messages and slots, and u = 0, which has the data set instead of them. */
struct front {
    int node;
    int in_flight;
    bool is_roomy; /* no run under the cap is too large for its memory */
    double cap_ms;
    const double *behind_ms;     /* [n_units+1]; INFINITY where there is nothing */
    int least_end, most_end;     /* outside of these all is INFINITY, or irrelevant */
    int least_first, most_first; /* units that are wanted */
    const double *best_ms;       /* [n_units+1] known already, by first unit */
    double limit_ms;             /* a run counts only if it is below this */
};

struct front_run {
    double ms; /* from its first unit to the end */
    short first, end;
};

#define FRONT_RUNS_MAX (2 * MODEL_UNITS_MAX)

/* The runs that are better than what is known, to `out_runs`; returns how many. For a few units
 * there are two, of which the better counts, or the first when they are equal. */
int front_runs(const struct cut_problem *p, const struct front *f,
               struct front_run out_runs[static FRONT_RUNS_MAX]);

#endif
