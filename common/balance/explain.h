/* balance/explain.h - a placement as text, as the plan that workers read, and what one more or one
 * fewer node would change.
 *
 * Layer: balance (may use api base). Threads: any; pure.
 */
#ifndef BALANCE_EXPLAIN_H
#define BALANCE_EXPLAIN_H

#include "api/plan.h"
#include "balance/partition.h"

/* The stage behind which an edge takes longer than every stage, so that its link limits the step;
 * -1 if none does. */
int explain_slow_edge(const struct placement *p);

/* A few sentences: predicted step, bottleneck, Even's and Dynamic's step times, excluded nodes with
 * reasons. */
void explain_placement(const struct partition_request *request, const struct placement *placement,
                       char out[static PLAN_REASON_BYTES]);

/* Append its stages to the workers of `out`, as those of `replica`. */
void placement_add_workers(const struct partition_request *request,
                           const struct placement *placement, int replica, struct plan *out);

/* Fill in spec, workers, times and explanation of `out`. Its namespace, job, uid and revision are
 * the caller's and stay as they are. Slots are the stages, all workers are of this incarnation. */
void placement_to_plan(const struct partition_request *request, const struct placement *placement,
                       struct plan *out);

#define WHATIF_FEWER_MAX 8

struct whatif {
    int like;       /* one more node like this one, the fastest of the chosen ... */
    double more_ms; /* ... would make the step take this long */
    int n_fewer;    /* the chosen nodes; if there are more than these, only the bottleneck's */
    struct {
        int node;
        double step_ms; /* without it; negative: nothing would fit */
    } fewer[WHATIF_FEWER_MAX];
};

/* Plan again with a node more and with each chosen one away; where the request leaves M open, it is
 * chosen anew each time. Only strategy Optimal has a choice; for the others all is left zero.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code whatif_solve(const struct partition_request *request,
                                      const struct placement *placement, struct whatif *out,
                                      struct err *err);

#endif
