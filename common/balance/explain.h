/* balance/explain.h - a placement in words, and as the plan that workers read.
 *
 * Layer: balance (may use api base). Threads: any; pure.
 */
#ifndef BALANCE_EXPLAIN_H
#define BALANCE_EXPLAIN_H

#include "api/plan.h"
#include "balance/request.h"

/* The stage behind which an edge takes longer than every stage, so that its link sets the pace; -1
 * when none does. */
int explain_slow_edge(const struct placement *p);

/* A few sentences: predicted step, the bottleneck, Even beside it, who is left out and why. */
void explain_placement(const struct partition_request *request, const struct placement *placement,
                       char out[static PLAN_REASON_BYTES]);

/* Fill in spec, stages, times and reason of `out`. Its namespace, job, uid and attempt are the
 * caller's and stay as they are. A stage's memory limit is what it needs and a quarter more, as
 * far as the node has it: a limit at the estimate itself would turn its error into a kill. */
void placement_to_plan(const struct partition_request *request, const struct placement *placement,
                       struct plan *out);

#endif
