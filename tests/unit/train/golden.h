/* What test_golden.c trains: a model that starts where a reference of hack/gen-golden.py started,
 * its stages driven in this process, one micro-batch after the other.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "begin.h"
#include "files/safetensors.h"
#include "train/stage.h"

/* As in hack/gen-golden.py. */
#define N_STEPS   20
#define BATCH     8
#define VOCAB     61
#define HIDDEN    24
#define LAYERS    2
#define POSITIONS 20
#define DECAY     0.1
#define MOMENTUM  0.9

#define N_MICRO          2
#define N_SEQS           (BATCH / N_MICRO)
#define TOKENS_MAX       (N_SEQS * POSITIONS)
#define STAGES_MAX       3
#define MASKED_SHARE_MAX 0.6 /* of a micro-batch: room for them */
#define LABELS_MAX       3

/* What a reference was made of. */
struct head {
    const char *name; /* of the file, too */
    enum model_head kind;
    int labels;
    int n_units;
};

/* How it is run. */
struct way {
    int n_stages;
    enum spec_optimizer optimizer;
};

/* A test. */
struct row {
    const struct head *head;
    struct way way;
    char name[80];
};

/* One test's model and what it should do. */
struct run {
    const struct row *row;
    struct plan plan;
    struct state state;
    struct stage stages[STAGES_MAX];
    struct safetensors *golden;
    float *ids, *types, *masked, *lengths, *labels;
    /* Of a whole batch, one micro-batch behind the other: */
    float logits[BATCH * LABELS_MAX];
    float sequence[BATCH * POSITIONS * HIDDEN]; /* [T,C] */
    size_t n_sequence;
    float losses[BATCH * POSITIONS], next_losses[BATCH]; /* of masked tokens, of sequences */
    int32_t words[BATCH * POSITIONS], next[BATCH];       /* predicted */
    size_t n_words;
};

static const struct {
    const char *name; /* prefix of a trace's tensors */
    double rate;
} optimizers[] = {
    [SPEC_OPTIMIZER_ADAMW] = {"adamw", 2e-3},
    [SPEC_OPTIMIZER_SGD] = {"sgd", 0.05},
};

static inline float *read_tensor(const struct run *r, const char *prefix, const char *name,
                                 size_t *out_count)
{
    char full[2 * MODEL_NAME_BYTES];
    const struct weight *w;
    float *x;

    (void)snprintf(full, sizeof full, "%s.%s", prefix, name);
    w = safetensors_find(r->golden, full);
    if (!w)
        fail_msg("%s: no tensor %s", r->row->head->name, full);
    x = malloc(w->count * sizeof *x);
    assert_non_null(x);
    assert_int_equal(weight_read(w, x, NULL), ERR_OK);
    *out_count = w->count;
    return x;
}

static inline float *read_exactly(const struct run *r, const char *prefix, const char *name,
                                  size_t count)
{
    size_t n;
    float *x = read_tensor(r, prefix, name, &n);

    assert_int_equal(n, count);
    return x;
}

/* --- a model that starts where the reference started --- */

/* Whole, or one cut within the layers and one behind the last, so that its output can be seen. */
static inline void cut(struct plan *plan, int n_stages, int n_units)
{
    plan->n_workers = n_stages;
    if (n_stages == 1) {
        plan->workers[0] = (struct plan_worker){.first_unit = 0, .n_units = n_units};
        return;
    }
    plan->workers[0] = (struct plan_worker){.first_unit = 0, .n_units = 2};
    plan->workers[1] = (struct plan_worker){.first_unit = 2, .n_units = 2 * LAYERS - 1};
    plan->workers[2] =
        (struct plan_worker){.first_unit = 1 + 2 * LAYERS, .n_units = n_units - 1 - 2 * LAYERS};
}

static inline void make_plan(struct run *r)
{
    struct plan *plan = &r->plan;

    plan->spec.model = (struct model){.head = r->row->head->kind,
                                      .vocab = VOCAB,
                                      .hidden = HIDDEN,
                                      .layers = LAYERS,
                                      .heads = 3,
                                      .ffn = 48,
                                      .positions = POSITIONS,
                                      .labels = r->row->head->labels,
                                      .norm_eps = 1e-12};
    plan->spec.training.batch_size = BATCH;
    plan->micro_batches = N_MICRO;
    plan->spec.training.max_length = POSITIONS;
    plan->spec.data.mask_probability = MASKED_SHARE_MAX;
    plan->spec.training.optimizer = r->row->way.optimizer;
    plan->spec.training.momentum = MOMENTUM;
    plan->spec.training.beta1 = 0.9; /* torch's, and those of a spec that gives none */
    plan->spec.training.beta2 = 0.999;
    plan->spec.training.epsilon = 1e-8;
    plan->spec.training.learning_rate = optimizers[r->row->way.optimizer].rate;
    plan->spec.training.warmup_ratio = 0.25;
    plan->spec.training.max_grad_norm = 1.0;
    plan->spec.training.weight_decay = DECAY;
    cut(plan, r->row->way.n_stages, r->row->head->n_units);
    assert_int_equal(model_units(&plan->spec.model), r->row->head->n_units);
}

/* Call `visit` for every tensor of the model. */
static inline void each_tensor(struct run *r,
                               void (*visit)(struct run *r, const struct weights_unit *u,
                                             const struct model_tensor *t, void *arg),
                               void *arg)
{
    for (int s = 0; s < r->plan.n_workers; s++) {
        const struct weights *w = &r->stages[s].weights;

        for (int i = 0; i < w->n_units; i++)
            for (int j = 0; j < model_unit_tensors(w->model, w->first_unit + i); j++) {
                struct model_tensor t = model_tensor(w->model, w->first_unit + i, j);

                visit(r, &w->units[i], &t, arg);
            }
    }
}

static inline void set_tensor(struct run *r, const struct weights_unit *u,
                              const struct model_tensor *t, void *arg)
{
    float *x = read_exactly(r, "init", t->name, t->count);

    (void)arg;
    memcpy(u->params + t->offset, x, t->count * sizeof *x);
    free(x);
}

/* What tie_collect() and tie_spread() do between processes. */
static inline void collect_tied(struct run *r)
{
    const struct tie *from = &r->stages[r->plan.n_workers - 1].tie, *to = &r->stages[0].tie;

    for (size_t i = 0; to->is_tied && i < to->count; i++) {
        to->owned_grads[i] += from->grads[i];
        from->grads[i] = 0;
    }
}

static inline void spread_tied(struct run *r)
{
    const struct tie *to = &r->stages[r->plan.n_workers - 1].tie, *from = &r->stages[0].tie;

    if (from->is_tied && to->words != from->owned)
        memcpy(to->words, from->owned, from->count * sizeof(float));
}

static inline struct run *run_new(void **state)
{
    struct run *r = calloc(1, sizeof *r);
    size_t n_tokens;
    char path[80];

    assert_non_null(r);
    r->row = *state;
    (void)snprintf(path, sizeof path, "tests/golden/bert/%s.safetensors", r->row->head->name);
    assert_int_equal(safetensors_open(path, &r->golden, NULL), ERR_OK);
    make_plan(r);
    for (int s = 0; s < r->plan.n_workers; s++)
        begin_stage(&r->stages[s], &r->state, &r->plan, s);
    each_tensor(r, set_tensor, NULL);
    spread_tied(r);
    r->ids = read_tensor(r, "batch", "ids", &n_tokens);
    r->types = read_exactly(r, "batch", "types", n_tokens);
    r->masked = read_exactly(r, "batch", "masked", n_tokens);
    r->lengths = read_exactly(r, "batch", "lengths", N_STEPS * BATCH);
    r->labels = read_exactly(r, "batch", "labels", N_STEPS * BATCH);
    return r;
}

static inline void run_free(struct run *r)
{
    for (int s = 0; s < r->plan.n_workers; s++)
        stage_deinit(&r->stages[s]);
    state_deinit(&r->state);
    safetensors_close(r->golden);
    free(r->ids);
    free(r->types);
    free(r->masked);
    free(r->lengths);
    free(r->labels);
    free(r);
}

/* --- its training --- */

struct arrays {
    int32_t ids[TOKENS_MAX], types[TOKENS_MAX];
    int32_t rows[TOKENS_MAX], target_ids[TOKENS_MAX];
    int32_t starts[N_SEQS + 1], labels[N_SEQS];
    float scores[N_SEQS];
    uint32_t samples[N_SEQS];
};

/* Where sequence `seq` starts in the file. */
static inline size_t token_of(const struct run *r, int seq)
{
    size_t at = 0;

    for (int i = 0; i < seq; i++)
        at += (size_t)r->lengths[i];
    return at;
}

/* Masked tokens of the optimizer step. */
static inline int64_t step_targets(const struct run *r, int step)
{
    int64_t n = 0;

    for (size_t t = token_of(r, step * BATCH); t < token_of(r, (step + 1) * BATCH); t++)
        n += r->masked[t] >= 0;
    return n;
}

/* Sequences first..first+N_SEQS-1 of the file. */
static inline struct message_batch input_of(const struct run *r, int first, struct arrays *a)
{
    bool is_regression = r->row->head->kind == MODEL_HEAD_REGRESSION;
    size_t at = token_of(r, first);
    int32_t t = 0;
    int n = 0;

    for (int i = 0; i < N_SEQS; i++) {
        a->starts[i] = t;
        a->labels[i] = (int32_t)r->labels[first + i];
        a->scores[i] = r->labels[first + i];
        a->samples[i] = (uint32_t)(first + i);
        for (int32_t p = 0; p < (int32_t)r->lengths[first + i]; p++, t++, at++) {
            a->ids[t] = (int32_t)r->ids[at];
            a->types[t] = (int32_t)r->types[at];
            if (r->masked[at] >= 0) {
                a->rows[n] = t;
                a->target_ids[n++] = (int32_t)r->masked[at];
            }
        }
    }
    a->starts[N_SEQS] = t;
    assert_true(r->row->head->labels > 0 ||
                n <= message_limits_of(&r->plan.spec, r->plan.micro_batches).targets);
    return (struct message_batch){.n_seqs = N_SEQS,
                                  .n_tokens = t,
                                  .n_targets = n,
                                  .step_seqs = BATCH,
                                  .step_targets = step_targets(r, first / BATCH),
                                  .samples = a->samples,
                                  .starts = a->starts,
                                  .labels = is_regression ? NULL : a->labels,
                                  .scores = is_regression ? a->scores : NULL,
                                  .rows = a->rows,
                                  .target_ids = a->target_ids,
                                  .ids = a->ids,
                                  .types = a->types,
                                  .step = first / BATCH};
}

/* What the reference has too. */
static inline void keep_answers(struct run *r, int micro, const struct stage *s,
                                const struct stage_result *result)
{
    size_t first = (size_t)(micro * N_SEQS), n = (size_t)result->loss.n;

    if (!s->tie.is_tied) {
        memcpy(r->logits + first * (size_t)r->row->head->labels, s->out,
               N_SEQS * (size_t)r->row->head->labels * sizeof(float));
        return;
    }
    memcpy(r->losses + r->n_words, s->scores.losses, n * sizeof(float));
    memcpy(r->words + r->n_words, result->predictions, n * sizeof(int32_t));
    r->n_words += n;
    if (result->next_predictions) {
        memcpy(r->next_losses + first, s->scores.next_losses, N_SEQS * sizeof(float));
        memcpy(r->next + first, result->next_predictions, N_SEQS * sizeof(int32_t));
    }
}

/* The last layer's output, when a stage ends there. */
static inline void keep_sequence(struct run *r, const struct stage *s,
                                 const struct stage_result *result)
{
    if (s->is_last || s->weights.first_unit + s->weights.n_units != 1 + 2 * LAYERS)
        return;
    memcpy(r->sequence + r->n_sequence, result->tensor, result->floats * sizeof(float));
    r->n_sequence += result->floats;
}

/* Forward and backward of one optimizer step; its mean loss. */
static inline double run_batch(struct run *r, int step)
{
    struct message_loss loss = {0};

    r->n_sequence = r->n_words = 0;
    for (int m = 0; m < N_MICRO; m++) {
        struct arrays arrays;
        struct message_batch in = input_of(r, step * BATCH + m * N_SEQS, &arrays);
        struct stage_result result = {0};
        const float *gradient = NULL;

        for (int s = 0; s < r->plan.n_workers; s++) {
            assert_int_equal(stage_load(&r->stages[s], 0, &in, NULL), ERR_OK);
            if (s > 0)
                r->stages[s].slots[0].input = result.tensor;
            stage_forward(&r->stages[s], 0, &result);
            keep_sequence(r, &r->stages[s], &result);
        }
        keep_answers(r, m, &r->stages[r->plan.n_workers - 1], &result);
        loss.sum += result.loss.sum;
        loss.n += result.loss.n;
        loss.next_sum += result.loss.next_sum;
        loss.n_seqs += result.loss.n_seqs;
        for (int s = r->plan.n_workers - 1; s >= 0; s--)
            gradient = stage_backward(&r->stages[s], 0, gradient);
        assert_null(gradient);
    }
    collect_tied(r);
    return message_loss_mean(&loss);
}

static inline void run_update(struct run *r, int step)
{
    struct weights_step how = {.spec = &r->plan.spec, .share = 1, .updates = step};
    double square_sum = 0;

    for (int s = 0; s < r->plan.n_workers; s++)
        square_sum = weights_square_sum(&r->stages[s].weights, square_sum);
    how.rate = optimizer_rate(&r->plan.spec, step, N_STEPS);
    how.scale = optimizer_scale(square_sum, r->plan.spec.training.max_grad_norm);
    for (int s = 0; s < r->plan.n_workers; s++)
        weights_update(&r->stages[s].weights, &how);
    spread_tied(r);
}

#endif
