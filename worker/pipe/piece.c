#include "pipe/piece.h"

#include <stdlib.h>
#include <string.h>

#include "pipe/optimizer.h"

#define WORD_STRIDE 7919 /* a prime: ids spread over the vocabulary */

void piece_deinit(struct piece *p)
{
    free(p->starts);
    free(p->ids);
    free(p->types);
    free(p->positions);
    free(p->labels);
    free(p->samples);
    free(p->tensor);
    stage_deinit(&p->stage);
    memset(p, 0, sizeof *p);
}

/* What is in front and behind is another stage's: this one has neither data nor loss, unless it has
 * the embeddings. Returns its number. */
static int cut(struct plan *plan, int first, int n)
{
    int n_units = model_units(&plan->spec.model);

    if (first > 0)
        plan->stages[plan->n_stages++] = (struct plan_stage){.n_units = first};
    plan->stages[plan->n_stages++] = (struct plan_stage){.first_unit = first, .n_units = n};
    plan->stages[plan->n_stages++] =
        (struct plan_stage){.first_unit = first + n, .n_units = n_units - first - n};
    return first > 0 ? 1 : 0;
}

static void make_plan(const struct piece_params *params, struct plan *plan)
{
    const struct spec *spec = params->spec;

    plan->spec = *spec;
    plan->spec.model.layers = params->layers;
    plan->spec.training.recompute = false;
    plan->spec.training.micro_batches = PIECE_MICRO_MAX;
    plan->spec.training.batch_size = params->n_seqs * PIECE_MICRO_MAX;
    if (spec->model.vocab > PIECE_WORDS_MAX)
        plan->spec.model.vocab = PIECE_WORDS_MAX;
}

static enum err_code reserve(struct piece *p, int n_seqs, int most_tokens, struct err *err)
{
    size_t B = (size_t)n_seqs;
    size_t T = (size_t)most_tokens;

    p->ids = calloc(T, sizeof *p->ids);
    p->types = calloc(T, sizeof *p->types);
    p->positions = calloc(T, sizeof *p->positions);
    p->labels = calloc(B, sizeof *p->labels);
    p->samples = calloc(B, sizeof *p->samples);
    p->tensor = calloc(T * (size_t)p->plan.spec.model.hidden, sizeof *p->tensor);
    if (!p->ids || !p->types || !p->positions || !p->labels || !p->samples || !p->tensor)
        return err_set(err, ERR_NO_MEMORY, "no memory for a micro-batch of %d tokens", most_tokens);
    for (size_t i = 0; i < T; i++)
        p->ids[i] = (int32_t)(i * WORD_STRIDE % (size_t)p->plan.spec.model.vocab);
    for (size_t i = 0; i < T * (size_t)p->plan.spec.model.hidden; i++)
        p->tensor[i] = (float)((i * 2654435761u) % 2001u) / 1000.0f - 1.0f;
    return ERR_OK;
}

/* Sum up the mean micro-batch; returns the tokens of the largest. */
static int weigh(struct piece *p, int n_seqs)
{
    int most = 0;

    p->load = (struct model_load){.n_seqs = n_seqs};
    for (int k = 0; k < p->n_micro; k++) {
        const int32_t *starts = p->starts + (size_t)k * (size_t)(n_seqs + 1);

        most = starts[n_seqs] > most ? starts[n_seqs] : most;
        p->load.tokens += (double)starts[n_seqs] / p->n_micro;
        for (int i = 0; i < n_seqs; i++) {
            double length = starts[i + 1] - starts[i];

            p->load.tokens_squared += length * length / p->n_micro;
        }
    }
    return most;
}

enum err_code piece_init(struct piece *p, const struct piece_params *params, struct err *err)
{
    int n_seqs = params->n_seqs;
    int index;
    enum err_code rc;

    memset(p, 0, sizeof *p);
    make_plan(params, &p->plan);
    index = cut(&p->plan, params->first_unit, params->n_units);
    p->n_micro = PIECE_MICRO_MAX;
    p->starts = calloc((size_t)p->n_micro * (size_t)(n_seqs + 1), sizeof *p->starts);
    if (!p->starts)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d micro-batches", p->n_micro);
    rc = sequences_deal(params->sequences, p->n_micro, n_seqs, p->starts, err);
    if (rc == ERR_OK)
        rc = reserve(p, n_seqs, weigh(p, n_seqs), err);
    return rc == ERR_OK ? stage_init(&p->stage, &p->plan, index, err) : rc;
}

enum err_code piece_round(struct piece *p, struct err *err)
{
    int n_seqs = p->load.n_seqs;
    int slot = p->next % p->stage.n_slots;
    const int32_t *starts = p->starts + (size_t)(p->next % p->n_micro) * (size_t)(n_seqs + 1);
    struct stage_input in = {.batch = {.n_seqs = n_seqs,
                                       .n_tokens = starts[n_seqs],
                                       .starts = starts,
                                       .labels = p->labels,
                                       .samples = p->samples},
                             .ids = p->ids,
                             .types = p->types,
                             .positions = p->positions,
                             .tensor = p->tensor,
                             .step = p->next};
    struct stage_result result;
    enum err_code rc = stage_forward(&p->stage, slot, &in, &result, err);

    p->next++;
    if (rc == ERR_OK)
        (void)stage_backward(&p->stage, slot, result.tensor);
    return rc;
}

void piece_update(struct piece *p)
{
    const struct spec *spec = &p->plan.spec;
    struct weights_step how = {.rate = 1e-6,
                               .scale = optimizer_scale(weights_square_sum(&p->stage.weights, 0),
                                                        spec->training.max_grad_norm),
                               .decay = spec->training.weight_decay,
                               .momentum = spec->training.momentum,
                               .optimizer = spec->training.optimizer};

    weights_update(&p->stage.weights, &how);
}

double piece_flops(const struct piece *p)
{
    const struct weights *w = &p->stage.weights;
    double flops = 0;

    for (int i = 0; i < w->n_units; i++)
        flops += model_unit_flops(w->model, w->first_unit + i, &p->load);
    return flops;
}

double piece_params(const struct piece *p)
{
    const struct weights *w = &p->stage.weights;
    double sum = 0;

    for (int i = 0; i < w->n_units; i++)
        sum += (double)w->units[i].count;
    return sum;
}
