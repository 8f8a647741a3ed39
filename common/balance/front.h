/* balance/front.h - put a node in front of stages that are there, with every run it can.
 *
 * behind_ms[v] is the least time of stages that begin at unit v, with the edge to them. Wanted is,
 * for every u, the least of time(u, v) + behind_ms[v] over the v for which units u..v-1 are no
 * longer than the cap and fit into the node's memory. A run that is too much stays so when it gets
 * longer, so these v reach from u+1 to a limit that only falls when u falls: a window that slides,
 * whose minimum a queue keeps. A v is only held against cap and memory when it is that minimum and
 * better than what is known. Work: units, not units squared.
 *
 * Edges make two exceptions, which are looked at run by run: nothing behind (v = n_units), which
 * saves an edge's messages and slots, and u = 0, which has the data set instead of them.
 * Layer: balance. Threads: any; pure.
 */
#ifndef BALANCE_FRONT_H
#define BALANCE_FRONT_H

#include "balance/cut.h"

struct front {
    int node;
    int in_flight;
    bool is_roomy; /* no run under the cap is too large for its memory */
    double cap_ms;
    const double *behind_ms;     /* [n_units+1]; INFINITY where there is nothing */
    int least_end, most_end;     /* outside of these all is INFINITY, or not of interest */
    int least_first, most_first; /* that are of interest */
    const double *best_ms;       /* [n_units+1] known already, by first unit */
    const double *rest_ms;       /* [n_units+1] what is in front takes at least; NULL: nothing */
    double limit_ms;             /* with that, a run is only of interest below this */
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
