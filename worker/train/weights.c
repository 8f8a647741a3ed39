#include "train/weights.h"

#include <math.h>
#include <string.h>

#include "nn/optimizers.h"
#include "nn/random.h"

#define INIT_STD 0.02f /* initializer_range of BERT */

/* A number for every tensor of the model, whichever stage owns it. */
static uint32_t tensor_id(int unit, int i)
{
    return (uint32_t)(unit * MODEL_UNIT_TENSORS_MAX + i);
}

void weights_init(float *params, const struct model *model, int unit, uint64_t seed)
{
    for (int i = 0; i < model_unit_tensors(model, unit); i++) {
        struct model_tensor t = model_tensor(model, unit, i);

        if (t.is_matrix)
            init_normal(params + t.offset, t.count, INIT_STD, seed, tensor_id(unit, i));
        else
            init_constant(params + t.offset, t.count, t.is_gain ? 1.0f : 0.0f);
    }
}

void weights_add(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

double weights_square_sum(const struct weights *w, double square_sum)
{
    for (int i = 0; i < w->n_units; i++)
        square_sum += squares_sum(w->units[i].grads, w->units[i].count);
    return square_sum;
}

double optimizer_rate(const struct spec *spec, int64_t step, int64_t total)
{
    double rate = spec->training.learning_rate;
    double warmup = ceil(spec->training.warmup_ratio * (double)total);
    double at = (double)step;

    if (at < warmup)
        return rate * at / warmup;
    if (spec->training.schedule == SPEC_SCHEDULE_CONSTANT)
        return rate;
    return rate * fmax(0, ((double)total - at) / fmax(1, (double)total - warmup));
}

double optimizer_share(const struct spec *spec, double share)
{
    return spec->training.optimizer == SPEC_OPTIMIZER_ADAMW ? sqrt(share) : share;
}

double optimizer_scale(double square_sum, double max_grad_norm)
{
    double norm = sqrt(square_sum);

    if (max_grad_norm <= 0)
        return 1;
    return fmin(1, max_grad_norm / (norm + 1e-6));
}

/* The tensor's part of the floats from `at` to `end` of its unit; `grads` are those from `at` on.
 */
static void update_tensor(const struct weights_step *step, const struct weights_unit *u,
                          const struct model_tensor *t, size_t at, size_t end, float *grads)
{
    const struct spec *spec = step->spec;
    /* Biases and LayerNorm have no decay. */
    double decay = t->is_matrix ? spec->training.weight_decay : 0;
    struct sgd sgd = {.lr = step->rate,
                      .momentum = spec->training.momentum * step->share,
                      .decay = decay,
                      .grad_scale = step->scale};
    struct adamw adamw = {.lr = step->rate,
                          .beta1 = pow(spec->training.beta1, step->share),
                          .beta2 = pow(spec->training.beta2, step->share),
                          .eps = spec->training.epsilon,
                          .decay = decay,
                          .grad_scale = step->scale,
                          .step = lround((double)(step->updates + 1) / step->share)};
    size_t first = t->offset > at ? t->offset : at;
    size_t last = t->offset + t->count < end ? t->offset + t->count : end;

    if (first >= last)
        return;
    if (spec->training.optimizer == SPEC_OPTIMIZER_SGD)
        sgd_step(&sgd, u->params + first, grads + (first - at), u->moment + first, last - first);
    else
        adamw_step(&adamw, u->params + first, grads + (first - at), u->moment + first,
                   u->variance + first, last - first);
}

void weights_update_part(const struct model *model, int unit, const struct weights_unit *u,
                         size_t at, size_t n, float *grads, const struct weights_step *step)
{
    for (int i = 0; i < model_unit_tensors(model, unit); i++) {
        struct model_tensor t = model_tensor(model, unit, i);

        update_tensor(step, u, &t, at, at + n, grads);
    }
}

void weights_update(struct weights *w, const struct weights_step *step)
{
    for (int i = 0; i < w->n_units; i++) {
        const struct weights_unit *u = &w->units[i];

        weights_update_part(w->model, w->first_unit + i, u, 0, u->count, u->grads, step);
    }
}

void weights_skip(struct weights *w)
{
    for (int i = 0; i < w->n_units; i++)
        memset(w->units[i].grads, 0, w->units[i].count * sizeof(float));
}
