/* Parity with PyTorch: the stages against what hack/gen-golden.py got from transformers' BERTs in
 * float64. Outputs, every gradient, and 20 optimizer steps, as one stage and cut into three. */
#include "golden.h"

#include <math.h>

#include "nn/gemm.h"
#include "nn/loss.h"

#define FORWARD_ERROR_MAX  1e-5
#define GRADIENT_ERROR_MAX 1e-4
#define LOSS_ERROR_MAX     1e-4
#define WEIGHTS_ERROR_MAX  2e-4 /* of how far they went */

/* A key's bias adds the same to all scores of a query, so its gradient is 0 but for rounding. */
#define NO_GRADIENT_NAME  "key.bias"
#define NO_GRADIENT_SHARE 1e-3 /* of the whole gradient: what its rounding is measured by */

/* --- how far from the reference --- */

static double norm_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum);
}

/* The largest error so far; a NaN is larger than any. */
static void note_error(double *worst, double error, double limit, const char *what)
{
    if (!(error <= limit))
        fail_msg("%s: error %g is above %g", what, error, limit);
    *worst = error > *worst ? error : *worst;
}

/* --- the tests --- */

static void check_vector(double *worst, const float *got, const float *want, size_t n,
                         const char *what)
{
    note_error(worst, distance(got, want, n) / norm_of(want, n), FORWARD_ERROR_MAX, what);
}

static void check_sequence(const struct run *r, double *worst)
{
    size_t n;
    float *want = read_tensor(r, "out", "sequence", &n);

    assert_int_equal(r->n_sequence, n);
    check_vector(worst, r->sequence, want, n, "sequence output");
    free(want);
}

static void check_logits(const struct run *r, double *worst)
{
    size_t n = BATCH * (size_t)r->row->head->labels;
    float *want = read_exactly(r, "out", "logits", n);

    check_vector(worst, r->logits, want, n, "logits");
    free(want);
}

/* A language model keeps no logits: its losses and predictions against those of the reference's. */
static void check_words(const struct run *r, double *worst)
{
    size_t rows = (size_t)step_targets(r, 0);
    float *logits = read_exactly(r, "out", "logits", rows * VOCAB), want[BATCH * POSITIONS];
    int32_t ids[BATCH * POSITIONS], predictions[BATCH * POSITIONS];
    int n = 0;

    for (size_t t = 0; t < token_of(r, BATCH); t++)
        if (r->masked[t] >= 0)
            ids[n++] = (int32_t)r->masked[t];
    loss_cross_entropy(want, NULL, logits, ids, n, VOCAB, 0);
    loss_predict(predictions, logits, n, VOCAB);
    assert_int_equal(r->n_words, n);
    assert_memory_equal(r->words, predictions, rows * sizeof predictions[0]);
    check_vector(worst, r->losses, want, rows, "losses of words");
    free(logits);
}

static void check_next(const struct run *r, double *worst)
{
    float *logits = read_exactly(r, "out", "next", BATCH * MODEL_CHOICES), want[BATCH];
    int32_t labels[BATCH], predictions[BATCH];

    for (int i = 0; i < BATCH; i++)
        labels[i] = (int32_t)r->labels[i];
    loss_cross_entropy(want, NULL, logits, labels, BATCH, MODEL_CHOICES, 0);
    loss_predict(predictions, logits, BATCH, MODEL_CHOICES);
    assert_memory_equal(r->next, predictions, sizeof predictions);
    check_vector(worst, r->next_losses, want, BATCH, "losses of next sentences");
    free(logits);
}

static void check_outputs(void **state)
{
    struct run *r = run_new(state);
    double worst = 0;

    (void)run_batch(r, 0);
    check_sequence(r, &worst);
    if (r->row->head->labels > 0)
        check_logits(r, &worst);
    else
        check_words(r, &worst);
    if (r->row->head->kind == MODEL_HEAD_PRETRAINING)
        check_next(r, &worst);
    print_message("%s: error %.1e\n", r->row->name, worst);
    run_free(r);
}

struct worst {
    double error, whole; /* whole: norm of all gradients */
};

static void check_gradient(struct run *r, const struct weights_unit *u,
                           const struct model_tensor *t, void *arg)
{
    struct worst *worst = arg;
    float *want = read_exactly(r, "grad", t->name, t->count);
    double size = norm_of(want, t->count);

    if (strstr(t->name, NO_GRADIENT_NAME))
        size = NO_GRADIENT_SHARE * worst->whole;
    note_error(&worst->error, distance(u->grads + t->offset, want, t->count) / size,
               GRADIENT_ERROR_MAX, t->name);
    free(want);
}

static void check_gradients(void **state)
{
    struct run *r = run_new(state);
    struct worst worst = {0};

    (void)run_batch(r, 0);
    for (int s = 0; s < r->plan.n_workers; s++)
        worst.whole = weights_square_sum(&r->stages[s].weights, worst.whole);
    worst.whole = sqrt(worst.whole);
    each_tensor(r, check_gradient, &worst);
    print_message("%s: error %.1e\n", r->row->name, worst.error);
    run_free(r);
}

static void check_weights(struct run *r, const struct weights_unit *u, const struct model_tensor *t,
                          void *arg)
{
    float *start = read_exactly(r, "init", t->name, t->count);
    float *want = read_exactly(r, optimizers[r->row->way.optimizer].name, t->name, t->count);

    /* AdamW makes steps of the rounding, too, and nothing else depends on them. */
    if (!strstr(t->name, NO_GRADIENT_NAME))
        note_error(
            arg, distance(u->params + t->offset, want, t->count) / distance(want, start, t->count),
            WEIGHTS_ERROR_MAX, t->name);
    free(start);
    free(want);
}

static void check_trace(void **state)
{
    struct run *r = run_new(state);
    float *losses = read_exactly(r, optimizers[r->row->way.optimizer].name, "losses", N_STEPS);
    double worst_loss = 0, worst_weights = 0;

    for (int step = 0; step < N_STEPS; step++) {
        char what[32];

        (void)snprintf(what, sizeof what, "loss of step %d", step);
        note_error(&worst_loss, fabs(run_batch(r, step) / (double)losses[step] - 1), LOSS_ERROR_MAX,
                   what);
        run_update(r, step);
    }
    each_tensor(r, check_weights, &worst_weights);
    print_message("%s: error of losses %.1e, of weights %.1e\n", r->row->name, worst_loss,
                  worst_weights);
    free(losses);
    run_free(r);
}

static const struct head heads[] = {
    {"classifier", MODEL_HEAD_CLASSIFIER, 3, 7},
    {"regression", MODEL_HEAD_REGRESSION, 1, 7},
    {"maskedlm", MODEL_HEAD_MASKED_LM, 0, 6},
    {"pretraining", MODEL_HEAD_PRETRAINING, 0, 6},
};

static const struct {
    const char *name;
    CMUnitTestFunction check;
    struct way way;
} checks[] = {
    {"outputs_are_torchs", check_outputs, {3, SPEC_OPTIMIZER_ADAMW}},
    {"gradients_are_torchs", check_gradients, {1, SPEC_OPTIMIZER_ADAMW}},
    {"gradients_in_3_stages_are_torchs", check_gradients, {3, SPEC_OPTIMIZER_ADAMW}},
    {"trains_as_torch_with_adamw", check_trace, {1, SPEC_OPTIMIZER_ADAMW}},
    {"trains_as_torch_with_adamw_in_3_stages", check_trace, {3, SPEC_OPTIMIZER_ADAMW}},
    {"trains_as_torch_with_sgd", check_trace, {1, SPEC_OPTIMIZER_SGD}},
    {"trains_as_torch_with_sgd_in_3_stages", check_trace, {3, SPEC_OPTIMIZER_SGD}},
};

#define N_HEADS  (sizeof heads / sizeof heads[0])
#define N_CHECKS (sizeof checks / sizeof checks[0])

int main(void)
{
    static struct row rows[N_HEADS * N_CHECKS];
    struct CMUnitTest tests[N_HEADS * N_CHECKS];

    if (gemm_setup(1, NULL) != ERR_OK)
        return 1;
    for (size_t i = 0; i < N_HEADS * N_CHECKS; i++) {
        size_t c = i % N_CHECKS;
        struct row *row = &rows[i];

        *row = (struct row){.head = &heads[i / N_CHECKS], .way = checks[c].way};
        (void)snprintf(row->name, sizeof row->name, "%s_%s", row->head->name, checks[c].name);
        tests[i] = (struct CMUnitTest){row->name, checks[c].check, NULL, NULL, row};
    }
    return _cmocka_run_group_tests("golden", tests, N_HEADS * N_CHECKS, NULL, NULL);
}
