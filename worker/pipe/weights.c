#include "pipe/weights.h"

#include "nn/adamw.h"
#include "nn/init.h"
#include "nn/squares.h"

#define INIT_STD 0.02f /* initializer_range of BERT */
#define BETA1    0.9
#define BETA2    0.999
#define ADAM_EPS 1e-8

void weights_layout(struct weights *w, const struct model *model, int first_unit, int n_units,
                    struct slab *slab)
{
    *w = (struct weights){.model = model, .first_unit = first_unit, .n_units = n_units};
    for (int i = 0; i < n_units; i++) {
        struct weights_unit *u = &w->units[i];

        u->count = model_unit_params(model, first_unit + i);
        u->params = slab_floats(slab, u->count);
        u->grads = slab_floats(slab, u->count);
        u->moment = slab_floats(slab, u->count);
        u->variance = slab_floats(slab, u->count);
    }
}

/* A number for every tensor of the model, whoever owns it. */
static uint32_t tensor_id(int unit, int i)
{
    return (uint32_t)(unit * MODEL_UNIT_TENSORS_MAX + i);
}

void weights_init(struct weights *w, uint64_t seed)
{
    for (int i = 0; i < w->n_units; i++) {
        int unit = w->first_unit + i;

        for (int j = 0; j < model_unit_tensors(w->model, unit); j++) {
            struct model_tensor t = model_tensor(w->model, unit, j);
            float *x = w->units[i].params + t.offset;

            if (t.is_matrix)
                init_normal(x, t.count, INIT_STD, seed, tensor_id(unit, j));
            else
                init_constant(x, t.count, t.is_gain ? 1.0f : 0.0f);
        }
    }
}

double weights_square_sum(const struct weights *w, double square_sum)
{
    for (int i = 0; i < w->n_units; i++)
        square_sum += squares_sum(w->units[i].grads, w->units[i].count);
    return square_sum;
}

void weights_update(struct weights *w, const struct weights_step *step)
{
    struct adamw a = {.lr = step->rate,
                      .beta1 = BETA1,
                      .beta2 = BETA2,
                      .eps = ADAM_EPS,
                      .grad_scale = step->scale,
                      .step = (long)step->step + 1};

    for (int i = 0; i < w->n_units; i++) {
        struct weights_unit *u = &w->units[i];
        int unit = w->first_unit + i;

        for (int j = 0; j < model_unit_tensors(w->model, unit); j++) {
            struct model_tensor t = model_tensor(w->model, unit, j);

            a.decay = t.is_matrix ? step->decay : 0;
            adamw_step(&a, u->params + t.offset, u->grads + t.offset, u->moment + t.offset,
                       u->variance + t.offset, t.count);
        }
    }
}
