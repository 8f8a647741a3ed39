#include "probe/microbenchmark.h"

#include <stdlib.h>
#include <string.h>

#include "nn/threads.h"

#define WORD_STRIDE 7919 /* a prime: ids spread over the vocabulary */

void microbenchmark_deinit(struct microbenchmark *p)
{
    free(p->starts);
    free(p->ids);
    free(p->types);
    free(p->labels);
    free(p->samples);
    stage_deinit(&p->stage);
    memset(p, 0, sizeof *p);
}

static void make_plan(const struct microbenchmark_params *params, struct plan *plan)
{
    const struct spec *spec = params->spec;
    int n_units = 1 + 2 * params->layers;

    plan->spec = *spec;
    plan->spec.model.layers = params->layers;
    plan->spec.training.activations = SPEC_ACTIVATIONS_KEEP;
    plan->micro_batches = MICROBENCHMARK_MICRO_MAX;
    plan->spec.training.batch_size = params->n_seqs * MICROBENCHMARK_MICRO_MAX;
    if (spec->model.vocab > MICROBENCHMARK_WORDS_MAX)
        plan->spec.model.vocab = MICROBENCHMARK_WORDS_MAX;
    plan->n_stages = 2; /* the loss is another stage's */
    plan->stages[0] = (struct plan_stage){.n_units = n_units};
    plan->stages[1] = (struct plan_stage){.first_unit = n_units,
                                          .n_units = model_units(&plan->spec.model) - n_units};
}

static enum err_code reserve(struct microbenchmark *p, int most_tokens, struct err *err)
{
    size_t B = (size_t)p->n_seqs;
    size_t T = (size_t)most_tokens;

    p->ids = calloc(T, sizeof *p->ids);
    p->types = calloc(T, sizeof *p->types);
    p->labels = calloc(B, sizeof *p->labels);
    p->samples = calloc(B, sizeof *p->samples);
    if (!p->ids || !p->types || !p->labels || !p->samples)
        return err_set(err, ERR_NO_MEMORY, "no memory for a micro-batch of %d tokens", most_tokens);
    for (size_t i = 0; i < T; i++)
        p->ids[i] = (int32_t)(i * WORD_STRIDE % (size_t)p->plan.spec.model.vocab);
    return ERR_OK;
}

static const int32_t *starts_of(const struct microbenchmark *p, int round)
{
    return p->starts + (size_t)(round % p->n_micro) * (size_t)(p->n_seqs + 1);
}

static void add_load(struct model_load *sum, const struct model_load *load, double share)
{
    sum->tokens += share * load->tokens;
    sum->tokens_squared += share * load->tokens_squared;
}

static struct model_load load_of(const int32_t *starts, int n_seqs)
{
    struct model_load load = {.n_seqs = n_seqs, .tokens = starts[n_seqs]};

    for (int i = 0; i < n_seqs; i++) {
        double length = starts[i + 1] - starts[i];

        load.tokens_squared += length * length;
    }
    return load;
}

struct model_load microbenchmark_load(const struct microbenchmark *p, int n_seqs)
{
    struct model_load mean = {.n_seqs = n_seqs};

    for (int k = 0; k < p->n_micro; k++) {
        struct model_load load = load_of(starts_of(p, k), n_seqs);

        add_load(&mean, &load, 1.0 / p->n_micro);
    }
    return mean;
}

static int most_tokens(const struct microbenchmark *p)
{
    int most = 0;

    for (int k = 0; k < p->n_micro; k++)
        if (starts_of(p, k)[p->n_seqs] > most)
            most = starts_of(p, k)[p->n_seqs];
    return most;
}

enum err_code microbenchmark_init(struct microbenchmark *p,
                                  const struct microbenchmark_params *params, struct err *err)
{
    enum err_code rc;

    memset(p, 0, sizeof *p);
    make_plan(params, &p->plan);
    p->n_seqs = params->n_seqs;
    p->n_micro = MICROBENCHMARK_MICRO_MAX;
    p->starts = calloc((size_t)p->n_micro * (size_t)(p->n_seqs + 1), sizeof *p->starts);
    if (!p->starts)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d micro-batches", p->n_micro);
    rc = sequences_deal(params->sequences, p->n_micro, p->n_seqs, p->starts, err);
    if (rc == ERR_OK)
        rc = reserve(p, most_tokens(p), err);
    if (rc == ERR_OK)
        rc = stage_init(&p->stage, &p->plan, 0, err);
    return rc;
}

/* A forward is a third of the arithmetic, of one micro-batch; the backward is of another. */
static void add_round(struct microbenchmark *p, const struct model_load *load,
                      struct microbenchmark_sum *sum)
{
    add_load(&sum->load, load, 1.0 / 3);
    add_load(&sum->load, p->last_load.n_seqs > 0 ? &p->last_load : load, 2.0 / 3);
    for (int k = 0; k < UNIT_KINDS; k++)
        sum->kind_ms[k] += stopwatch_busy_ms(&p->stage.kinds[k], threads_count());
    sum->n++;
    p->last_load = *load;
}

enum err_code microbenchmark_round(struct microbenchmark *p, int n_seqs,
                                   struct microbenchmark_sum *sum, struct err *err)
{
    int slot = p->next % p->stage.n_slots;
    int slot_before = (p->next + p->stage.n_slots - 1) % p->stage.n_slots;
    const int32_t *starts = starts_of(p, p->next);
    struct model_load load = load_of(starts, n_seqs);
    struct message_batch batch = {.step = p->next,
                                  .n_seqs = n_seqs,
                                  .n_tokens = starts[n_seqs],
                                  .step_seqs = n_seqs * MICROBENCHMARK_MICRO_MAX,
                                  .starts = starts,
                                  .labels = p->labels,
                                  .samples = p->samples,
                                  .ids = p->ids,
                                  .types = p->types};
    struct stage_result result;
    enum err_code rc;

    memset(p->stage.kinds, 0, sizeof p->stage.kinds);
    rc = stage_load(&p->stage, slot, &batch, err);
    if (rc != ERR_OK)
        return rc;
    stage_forward(&p->stage, slot, &result);
    (void)stage_backward(&p->stage, p->next > 0 ? slot_before : slot, result.tensor);
    p->next++;
    add_round(p, &load, sum);
    return ERR_OK;
}

void microbenchmark_update(struct microbenchmark *p)
{
    const struct spec *spec = &p->plan.spec;
    struct weights_step how = {.spec = spec,
                               .rate = 1e-6,
                               .scale = optimizer_scale(weights_square_sum(&p->stage.weights, 0),
                                                        spec->training.max_grad_norm)};

    weights_update(&p->stage.weights, &how);
}

double microbenchmark_params(const struct microbenchmark *p)
{
    const struct weights *w = &p->stage.weights;
    double sum = 0;

    for (int i = 0; i < w->n_units; i++)
        sum += (double)w->units[i].count;
    return sum;
}
