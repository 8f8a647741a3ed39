/* pipe/weights.h - the parameters of a run of units, with their gradients and moments.
 *
 * Kept by unit, never by stage: whatever is computed here is computed unit by unit and in unit
 * order, so it has the same bits however the model is cut.
 * Layer: pipe (may use nn api base). Threads: one.
 */
#ifndef PIPE_WEIGHTS_H
#define PIPE_WEIGHTS_H

#include "api/model.h"
#include "pipe/slab.h"

struct weights_unit {
    size_t count; /* floats */
    float *params;
    float *grads;    /* zero between steps */
    float *moment;   /* AdamW's first */
    float *variance; /* AdamW's second */
};

struct weights {
    const struct model *model; /* borrowed */
    int first_unit;
    int n_units;
    struct weights_unit units[MODEL_UNITS_MAX]; /* [n_units], of unit first_unit + i */
};

struct weights_step {
    double rate;  /* learning rate */
    double scale; /* of the gradients */
    double decay; /* of matrices; biases and LayerNorm have none */
    int64_t step; /* 0-based */
};

/* Take the areas of `n_units` units from `slab`; call it on a counting slab first. */
void weights_layout(struct weights *w, const struct model *model, int first_unit, int n_units,
                    struct slab *slab);

/* BERT's random start, a function of (seed, tensor, element). */
void weights_init(struct weights *w, uint64_t seed);

/* `square_sum` plus the squares of all gradients, added in unit order. */
double weights_square_sum(const struct weights *w, double square_sum);

/* One AdamW step of all units; gradients are zero afterwards. */
void weights_update(struct weights *w, const struct weights_step *step);

#endif
