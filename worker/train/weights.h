/* train/weights.h - the parameters of a run of units, with their gradients and moments, and the
 * optimizer's step. Their memory is the state's (train/state.h).
 *
 * Kept by unit, never by stage: whatever is computed here is computed unit by unit and in unit
 * order, so it has the same bits however the model is cut.
 * Layer: train (may use nn api base). Threads: one.
 */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "api/spec.h"
#include "base/arena.h"

enum weights_area {
    WEIGHTS_PARAMS,
    WEIGHTS_MOMENT,
    WEIGHTS_VARIANCE,
};

struct weights_unit {
    size_t count; /* floats */
    float *params;
    float *grads;        /* zero between steps */
    float *moment;       /* AdamW's first, or SGD's momentum */
    float *variance;     /* AdamW's second; NULL for SGD */
    float *unsent;       /* of guests, what of their gradients waits (train/topk.h), or NULL */
    struct arena memory; /* of all of these */
};

/* NULL where there is none. */
static inline float *weights_floats(const struct weights_unit *u, enum weights_area area)
{
    return area == WEIGHTS_PARAMS ? u->params : area == WEIGHTS_MOMENT ? u->moment : u->variance;
}

struct weights {
    const struct model *model; /* borrowed */
    int first_unit;
    int n_units;
    struct weights_unit *units; /* [n_units], of unit first_unit + i; borrowed from the state */
};

/* An update that uses only a share of a step's batch (train/tickets.h) moves the moments by as much
 * less: AdamW's constants are beta^share, so that they forget as much in a whole step as before.
 * SGD's momentum is multiplied by the share, as gradients that are late act like momentum already
 * (arXiv 1605.09774). Rate and scale are given as they are to be used. */
struct weights_step {
    const struct spec *spec; /* borrowed: the optimizer and its constants */
    double rate;             /* learning rate of this update */
    double scale;            /* of the gradients */
    double share;            /* of a step's batch: 1, or less */
    int64_t updates;         /* of these weights before this one, in whole steps */
};

/* BERT's random start of `unit`, a function of (seed, tensor, element). */
void weights_init(float *params, const struct model *model, int unit, uint64_t seed);

/* Add n floats, as of gradients. */
void weights_add(float *to, const float *from, size_t n);

/* `square_sum` plus the squares of all gradients, added in unit order. */
double weights_square_sum(const struct weights *w, double square_sum);

/* Learning rate of step `step` (0-based) of `total`: rises linearly over the first
 * warmup_ratio * total steps, rounded up, to the full rate, then falls linearly to 0
 * (SPEC_SCHEDULE_LINEAR) or stays. As in Hugging Face's get_linear_schedule_with_warmup and
 * Trainer. */
double optimizer_rate(const struct spec *spec, int64_t step, int64_t total);

/* What the rate is multiplied with for an update that uses only a share of a step's batch. SGD: the
 * share. AdamW divides gradients by their size, and those of fewer samples are larger by their
 * noise: the root of the share (Malladi et al. 2022, arXiv 2205.10287). */
double optimizer_share(const struct spec *spec, double share);

/* What gradients are multiplied with so that their norm is at most max_grad_norm; 1 when that is 0.
 * As torch.nn.utils.clip_grad_norm_: max / (norm + 1e-6), never above 1. */
double optimizer_scale(double square_sum, double max_grad_norm);

/* One update of all units; gradients are zero afterwards. */
void weights_update(struct weights *w, const struct weights_step *step);
/* The same for `n` floats of `unit` from `at` on; `grads` are theirs. */
void weights_update_part(const struct model *model, int unit, const struct weights_unit *u,
                         size_t at, size_t n, float *grads, const struct weights_step *step);
/* Skip the step: only the gradients become zero. */
void weights_skip(struct weights *w);

#endif
