/* balance/fill.h - what a micro-batch takes on a node that has waited. Private to balance.
 *
 * A node whose limit is a part of a core computes at the speed of a whole one until its quota of
 * this period is used up, then it is stopped until the next. A stage that is always busy sees the
 * mean of that: t. One that has waited for others, as all do while a pipeline fills and drains, has
 * the quota of a period Q = q P at hand, so CPU time c takes it
 *
 *     L(c) = min(c, Q) + max(0, c - Q) / q
 *
 * once for its forward, c = q t / 3, and once for its backward. So a step takes the slowest stage's
 * M t, and of each other stage only L. With f = L / t, which is 1 for whole cores:
 *
 *     step = max over stages ((M - f) t) + sum over stages (f t)
 *          = (M - 1) * max (busy t) + sum (f t)      busy = (M - f) / (M - 1)
 *
 * f depends on t a little; it is taken at the t that all stages would have if the model could be
 * cut at will over all nodes, so that it is a figure of the node and times still add up.
 * Layer: balance. Threads: any; pure.
 */
#ifndef BALANCE_FILL_H
#define BALANCE_FILL_H

#include "balance/request.h"

/* Milliseconds of a micro-batch, had every node of the request its share. */
double fill_balanced_ms(const struct partition_request *r, double flops);

/* f of a node, in (0, 1]. */
double fill_share(const struct node *n, double balanced_ms, int n_microbatches);
/* And busy. */
double fill_busy(double share, int n_microbatches);

#endif
