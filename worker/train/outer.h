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
 * So weights travel once in many steps, and no replica waits for another one's step.
 * Layer: train (may use api base). Threads: any; pure.
 */
#ifndef TRAIN_OUTER_H
#define TRAIN_OUTER_H

#include <stddef.h>
#include <stdint.h>

/* Deal `n_tickets` among `n` replicas so that all end at the same time, as far as whole tickets
 * allow: replica r gets those from out[r] to before out[r + 1]. `ticket_ms` is what one takes. */
void outer_deal(int64_t n_tickets, int n, const double ticket_ms[], int64_t out[]);

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
