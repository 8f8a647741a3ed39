/* train/outer.h - replicas that train alone for a while, and what they make of it when they meet
 * (Local).
 *
 * Between two meetings every replica updates weights of its own, with moments of its own, by the
 * gradients of its own tickets (train/tickets.h). At a meeting the homes of units get the weights
 * of all replicas. How far their mean has moved is the gradient of an outer step with Nesterov
 * momentum, from the weights of the meeting before (DiLoCo, Douillard et al. 2023, arXiv
 * 2311.08105). With the rate 1 and no momentum the new weights are the mean (Lin et al. 2018, arXiv
 * 1808.07217). All tickets weigh the same: a replica that has computed few has moved as little.
 *
 * So weights travel once in many steps, and no replica waits for another one's step. Where a
 * meeting is not needed for anything else, an evaluation or a checkpoint, they travel unit by unit
 * in the course of these steps, while the replica computes: a unit's outer step is made from what
 * its weights were when the replica offered them, and what the replica has changed since then stays
 * in its own (Douillard et al. 2025, arXiv 2501.18512, take a part of both instead).
 *
 * Layer: train (may use api base). Threads: any; pure.
 */
#ifndef TRAIN_OUTER_H
#define TRAIN_OUTER_H

#include <stddef.h>
#include <stdint.h>

#include "api/model.h"

/* Deal `n_tickets` among `n` replicas so that all end at the same time, as far as whole tickets
 * allow: replica r gets those from out[r] to before out[r + 1]. `ticket_ms` is what one takes. */
void outer_deal(int64_t n_tickets, int n, const double ticket_ms[], int64_t out[]);

/* After how many of its `n_tickets` a replica can offer the weights of this unit: so that all
 * travel evenly over the tickets, by their bytes, in rising order. */
int64_t outer_due(const struct model *m, int unit, int64_t n_tickets);

struct outer_step {
    double rate;
    double momentum;
    int n_replicas;
};

/* One outer step for `n` floats. `params` are those of the meeting before; `sums`, of all replicas'
 * weights, are zero afterwards. With d = params - sums / n_replicas:
 *
 *     velocity = momentum * velocity + d
 *     params   = params - rate * (d + momentum * velocity)
 *
 * `velocity` is NULL where there is no momentum. */
void outer_apply(const struct outer_step *how, float *params, float *sums, float *velocity,
                 size_t n);

#endif
