#include "probe/microbenchmark.h"

#include <stdlib.h>
#include <string.h>

#include "nn/threads.h"

#define WORD_STRIDE 7919 /* a prime: ids spread over the vocabulary */

void microbenchmark_deinit(struct microbenchmark *p)
{
    stage_deinit(&p->stage);
    state_deinit(&p->state);
    free(p->starts);
    memset(p, 0, sizeof *p);
}

enum err_code microbenchmark_init(struct microbenchmark *p, const struct spec *spec,
                                  const struct sequences *sequences, int layers, int n_seqs,
                                  struct err *err)
{
    struct plan *plan = &p->plan;
    struct model *m = &plan->spec.model;
    size_t B = (size_t)n_seqs, T = B * (size_t)spec->training.max_length;
    size_t starts = MICROBENCHMARK_MICRO_MAX * (B + 1);
    int n_units = 1 + 2 * layers;
    enum err_code rc;

    memset(p, 0, sizeof *p);
    plan->spec = *spec;
    plan->spec.training.activations = SPEC_ACTIVATIONS_KEEP;
    plan->spec.training.batch_size = n_seqs * MICROBENCHMARK_MICRO_MAX;
    plan->micro_batches = MICROBENCHMARK_MICRO_MAX;
    m->layers = layers;
    m->vocab = m->vocab < MICROBENCHMARK_WORDS_MAX ? m->vocab : MICROBENCHMARK_WORDS_MAX;
    plan->n_workers = 2; /* the loss is another stage's */
    plan->workers[0] = (struct plan_worker){.n_units = n_units};
    plan->workers[1] =
        (struct plan_worker){.first_unit = n_units, .n_units = model_units(m) - n_units};

    p->n_seqs = n_seqs;
    p->starts = calloc(starts + 2 * T + B, sizeof *p->starts);
    if (!p->starts)
        return err_set(err, ERR_NO_MEMORY, "no memory for micro-batches of %d sequences", n_seqs);
    p->ids = p->starts + starts;
    p->types = p->ids + T;
    p->samples = (uint32_t *)p->types + T;
    for (size_t t = 0; t < T; t++)
        p->ids[t] = (int32_t)(t * WORD_STRIDE % (size_t)m->vocab);
    rc = sequences_deal(sequences, MICROBENCHMARK_MICRO_MAX, n_seqs, p->starts, err);
    if (rc == ERR_OK)
        rc = state_add(&p->state, &plan->spec, 0, n_units, err);
    return rc == ERR_OK ? stage_init(&p->stage, &p->state, plan, 0, err) : rc;
}

static const int32_t *starts_of(const struct microbenchmark *p, int round)
{
    return p->starts + (size_t)(round % MICROBENCHMARK_MICRO_MAX) * (size_t)(p->n_seqs + 1);
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

    for (int k = 0; k < MICROBENCHMARK_MICRO_MAX; k++) {
        struct model_load load = load_of(starts_of(p, k), n_seqs);

        add_load(&mean, &load, 1.0 / MICROBENCHMARK_MICRO_MAX);
    }
    return mean;
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

    /* A forward is a third of the arithmetic, of one micro-batch; the backward is of another. */
    add_load(&sum->load, &load, 1.0 / 3);
    add_load(&sum->load, p->next > 0 ? &p->last_load : &load, 2.0 / 3);
    for (int k = 0; k < UNIT_KINDS; k++)
        sum->kind_ms[k] += stopwatch_busy_ms(&p->stage.kinds[k], threads_count());
    p->last_load = load;
    p->next++;
    return ERR_OK;
}

double microbenchmark_update(struct microbenchmark *p)
{
    struct weights *w = &p->stage.weights;
    double norm_max = p->plan.spec.training.max_grad_norm;
    struct weights_step how = {.spec = &p->plan.spec,
                               .rate = 1e-6,
                               .scale = optimizer_scale(weights_square_sum(w, 0), norm_max),
                               .share = 1};
    double params = 0;

    weights_update(w, &how);
    for (int i = 0; i < w->n_units; i++)
        params += (double)w->units[i].count;
    return params;
}
