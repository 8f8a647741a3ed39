#include "nn/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "nn/threads.h"
#include "reference.h"

#define T       97
#define B       3
#define C       72
#define V       139
#define TARGETS 75 /* more than one chunk of logits */
#define CHECKED 120

static const int32_t starts[B + 1] = {0, 40, 41, T};
static const uint32_t samples[B] = {7, 9, 2};
static const int32_t next[B] = {1, 0, 1};
static const struct packed batch = {.n_seqs = B, .starts = starts, .samples = samples};

/* One run: inputs, what forward said and what backward left. */
struct run {
    struct unit_call call;
    struct unit_sizes sizes;
    int32_t rows[TARGETS], ids[TARGETS];
    float *params, *decoder, *in, *din;
    float losses[TARGETS], next_losses[B];
    int32_t predictions[TARGETS], next_predictions[B];
};

static struct unit_shape shape_of(bool next_sentence)
{
    return (struct unit_shape){.hidden = C,
                               .heads = 3,
                               .ffn = 8,
                               .vocab = V,
                               .positions = 64,
                               .norm_eps = 1e-5f,
                               .next_sentence = next_sentence};
}

/* Areas of exactly the promised size, so that ASan sees one float too many. */
static struct run *run_new(bool next_sentence, int n)
{
    const struct unit_shape shape = shape_of(next_sentence);
    const struct unit_limits limits = {T, B, 56, threads_count(), n};
    struct run *r = ref_alloc(1, sizeof *r);

    r->sizes = lm_head_unit.sizes(&shape, &limits);
    r->params = filled(r->sizes.params, 1);
    r->decoder = filled((size_t)V * C, 2);
    for (size_t i = 0; i < r->sizes.params; i++)
        r->params[i] *= 0.3f;
    r->in = filled((size_t)T * C, 3);
    r->din = filled((size_t)T * C, 4); /* overwritten, not added to */
    for (int i = 0; i < n; i++) {
        r->rows[i] = (i * 31 + 5) % T; /* the first of a sequence and others, out of order */
        r->ids[i] = i * 17 % V;
    }
    r->call = (struct unit_call){.shape = shape,
                                 .batch = batch,
                                 .drop = {.seed = 1, .step = 2, .unit = 3, .rate = 0.5f},
                                 .params = r->params,
                                 .grads = floats(r->sizes.params),
                                 .saved = filled(r->sizes.saved, 5),
                                 .scratch = filled(r->sizes.scratch, 6)};
    r->call.lm = (struct lm_targets){.decoder = r->decoder,
                                     .decoder_grads = floats((size_t)V * C),
                                     .n = n,
                                     .rows = r->rows,
                                     .ids = r->ids,
                                     .next = next_sentence ? next : NULL,
                                     .factor = 1.0f / 80,
                                     .next_factor = 0.25f};
    return r;
}

static void forward(struct run *r)
{
    struct lm_scores scores = {r->losses, r->predictions, NULL, NULL};

    if (r->call.shape.next_sentence) {
        scores.next_losses = r->next_losses;
        scores.next_predictions = r->next_predictions;
    }
    r->call.scores = scores;
    lm_head_unit.forward(&r->call, r->in, NULL);
}

static struct run *run_done(bool next_sentence, int n)
{
    struct run *r = run_new(next_sentence, n);

    forward(r);
    lm_head_unit.backward(&r->call, r->in, NULL, r->din);
    return r;
}

static void run_free(struct run *r)
{
    free(r->params);
    free(r->decoder);
    free(r->in);
    free(r->din);
    free(r->call.grads);
    free(r->call.saved);
    free(r->call.scratch);
    free(r->call.lm.decoder_grads);
    free(r);
}

/* --- the same in double --- */

struct wide {
    double *params, *decoder, *in;
    double losses[TARGETS], next_losses[B];
};

static double ref_cross_entropy(const double *logits, int n, int label)
{
    double sum = 0.0;

    for (int i = 0; i < n; i++)
        sum += exp(logits[i]);
    return log(sum) - logits[label];
}

static void ref_lm_head(const struct run *r, struct wide *w)
{
    const double *p = w->params, *bias = p + C * C + 3 * C, *pooler = bias + V;
    double h[C], t[C], logits[V];

    for (int i = 0; i < r->call.lm.n; i++) {
        ref_linear(h, w->in + r->rows[i] * C, p, p + C * C, 1, C, C);
        for (int c = 0; c < C; c++)
            t[c] = ref_gelu(h[c]);
        ref_layernorm(t, p + C * C + C, p + C * C + 2 * C, (double)r->call.shape.norm_eps, 1, C);
        ref_linear(logits, t, w->decoder, bias, 1, C, V);
        w->losses[i] = ref_cross_entropy(logits, V, r->ids[i]);
    }
    for (int b = 0; r->call.lm.next && b < B; b++) {
        ref_linear(h, w->in + starts[b] * C, pooler, pooler + C * C, 1, C, C);
        for (int c = 0; c < C; c++)
            h[c] = tanh(h[c]);
        ref_linear(logits, h, pooler + C * C + C, pooler + C * C + C + 2 * C, 1, C, 2);
        w->next_losses[b] = ref_cross_entropy(logits, 2, next[b]);
    }
}

static struct wide wide_of(const struct run *r)
{
    return (struct wide){.params = widen(r->params, r->sizes.params),
                         .decoder = widen(r->decoder, (size_t)V * C),
                         .in = widen(r->in, (size_t)T * C)};
}

static void wide_free(struct wide *w)
{
    free(w->params);
    free(w->decoder);
    free(w->in);
}

static double total(const struct run *r, struct wide *w)
{
    double sum = 0.0;

    ref_lm_head(r, w);
    for (int i = 0; i < r->call.lm.n; i++)
        sum += w->losses[i] * (double)r->call.lm.factor;
    for (int b = 0; r->call.lm.next && b < B; b++)
        sum += w->next_losses[b] * (double)r->call.lm.next_factor;
    return sum;
}

/* `got[n]` against central differences of the total with respect to x[n], a part of `w`. */
static void check_gradient(const struct run *r, struct wide *w, double *x, const float *got,
                           size_t n)
{
    size_t stride = n / CHECKED + 1;
    double largest = 0.0;

    for (size_t i = 0; i < n; i++)
        largest = fabs((double)got[i]) > largest ? fabs((double)got[i]) : largest;
    assert_true(largest > 0.0);
    for (size_t i = 0; i < n; i += stride) {
        double at = x[i], step = 1e-5, high, low;

        x[i] = at + step;
        high = total(r, w);
        x[i] = at - step;
        low = total(r, w);
        x[i] = at;
        if (fabs((high - low) / (2 * step) - (double)got[i]) > 2e-5 * largest + 1e-8)
            fail_msg("gradient %zu of %zu is %.9g, differences give %.9g (largest %g)", i, n,
                     (double)got[i], (high - low) / (2 * step), largest);
    }
}

static bool *flag_of(void **state)
{
    return *state;
}

static void lm_head_losses_are_the_reference(void **state)
{
    struct run *r = run_new(*flag_of(state), TARGETS);
    struct wide w = wide_of(r);

    forward(r);
    ref_lm_head(r, &w);
    assert_true(difference(r->losses, w.losses, TARGETS) < 1e-6);
    if (*flag_of(state))
        assert_true(difference(r->next_losses, w.next_losses, B) < 1e-6);
    wide_free(&w);
    run_free(r);
}

static void lm_head_backward_is_the_slope_of_the_losses(void **state)
{
    struct run *r = run_done(*flag_of(state), TARGETS);
    struct wide w = wide_of(r);
    size_t transform = C * C + 3 * C, pooler = transform + V;

    check_gradient(r, &w, w.in, r->din, (size_t)T * C);
    check_gradient(r, &w, w.decoder, r->call.lm.decoder_grads, (size_t)V * C);
    /* Apart: one is not to hide in the stride over another. */
    check_gradient(r, &w, w.params, r->call.grads, C * C);
    check_gradient(r, &w, w.params + C * C, r->call.grads + C * C, 3 * C);
    check_gradient(r, &w, w.params + transform, r->call.grads + transform, V);
    if (*flag_of(state))
        check_gradient(r, &w, w.params + pooler, r->call.grads + pooler, r->sizes.params - pooler);
    wide_free(&w);
    run_free(r);
}

/* A target's logit is made the largest by its own bias: both predictions follow the parameters. */
static void lm_head_predicts_the_largest_logit(void **state)
{
    struct run *r = run_new(true, TARGETS);

    (void)state;
    r->params[C * C + 3 * C + 130] = 1000.0f;
    r->params[r->sizes.params - 1] = 1000.0f; /* not the next sentence */
    forward(r);
    for (int i = 0; i < TARGETS; i++)
        assert_int_equal(r->predictions[i], 130);
    for (int b = 0; b < B; b++)
        assert_int_equal(r->next_predictions[b], 1);
    run_free(r);
}

static void lm_head_evaluates_without_gradients(void **state)
{
    struct run *r = run_new(*flag_of(state), TARGETS),
               *trained = run_done(*flag_of(state), TARGETS);

    free(r->call.grads);
    r->call.grads = NULL;
    free(r->call.lm.decoder_grads);
    r->call.lm.decoder_grads = NULL;
    forward(r);
    assert_memory_equal(r->losses, trained->losses, sizeof r->losses);
    assert_memory_equal(r->predictions, trained->predictions, sizeof r->predictions);
    assert_memory_equal(r->next_losses, trained->next_losses, sizeof r->next_losses);
    run_free(r);
    run_free(trained);
}

static void lm_head_gradients_add_up_over_micro_batches(void **state)
{
    struct run *r = run_done(*flag_of(state), TARGETS);
    double *grads = widen(r->call.grads, r->sizes.params);
    double *decoder = widen(r->call.lm.decoder_grads, (size_t)V * C), *din = widen(r->din, T * C);

    for (size_t i = 0; i < r->sizes.params; i++)
        grads[i] *= 2.0;
    for (size_t i = 0; i < (size_t)V * C; i++)
        decoder[i] *= 2.0;
    forward(r);
    lm_head_unit.backward(&r->call, r->in, NULL, r->din);
    assert_true(difference(r->call.grads, grads, r->sizes.params) < 1e-6);
    assert_true(difference(r->call.lm.decoder_grads, decoder, (size_t)V * C) < 1e-6);
    assert_true(difference(r->din, din, T * C) == 0.0);
    free(grads);
    free(decoder);
    free(din);
    run_free(r);
}

static void lm_head_gives_the_same_bits_on_more_threads(void **state)
{
    struct run *alone = run_done(*flag_of(state), TARGETS), *threaded;

    assert_int_equal(gemm_setup(3, NULL), ERR_OK);
    threaded = run_done(*flag_of(state), TARGETS);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_memory_equal(alone->losses, threaded->losses, sizeof alone->losses);
    assert_memory_equal(alone->din, threaded->din, T * C * sizeof(float));
    assert_memory_equal(alone->call.grads, threaded->call.grads,
                        alone->sizes.params * sizeof(float));
    assert_memory_equal(alone->call.lm.decoder_grads, threaded->call.lm.decoder_grads,
                        (size_t)V * C * sizeof(float));
    run_free(alone);
    run_free(threaded);
}

/* A short micro-batch may have nothing masked: only the next sentence is left, or nothing. */
static void lm_head_takes_no_targets_at_all(void **state)
{
    struct run *r = run_done(*flag_of(state), 0);
    struct wide w = wide_of(r);

    if (*flag_of(state)) {
        check_gradient(r, &w, w.in, r->din, C);
    } else {
        for (size_t i = 0; i < r->sizes.params; i++)
            assert_true(r->call.grads[i] == 0.0f);
        for (int i = 0; i < T * C; i++)
            assert_true(r->din[i] == 0.0f);
    }
    for (int i = 0; i < V * C; i++)
        assert_true(r->call.lm.decoder_grads[i] == 0.0f);
    wide_free(&w);
    run_free(r);
}

#define ROW(name, check, flag)                                                                     \
    {                                                                                              \
        name, check, NULL, NULL, flag                                                              \
    }

int main(void)
{
    static bool masked = false, pretraining = true;
    const struct CMUnitTest tests[] = {
        ROW("masked_lm_losses_are_the_reference", lm_head_losses_are_the_reference, &masked),
        ROW("pretraining_losses_are_the_reference", lm_head_losses_are_the_reference, &pretraining),
        ROW("masked_lm_backward_is_the_slope_of_the_losses",
            lm_head_backward_is_the_slope_of_the_losses, &masked),
        ROW("pretraining_backward_is_the_slope_of_the_losses",
            lm_head_backward_is_the_slope_of_the_losses, &pretraining),
        ROW("lm_head_predicts_the_largest_logit", lm_head_predicts_the_largest_logit, NULL),
        ROW("lm_head_evaluates_without_gradients", lm_head_evaluates_without_gradients,
            &pretraining),
        ROW("lm_head_gradients_add_up_over_micro_batches",
            lm_head_gradients_add_up_over_micro_batches, &pretraining),
        ROW("lm_head_gives_the_same_bits_on_more_threads",
            lm_head_gives_the_same_bits_on_more_threads, &pretraining),
        ROW("masked_lm_takes_no_targets_at_all", lm_head_takes_no_targets_at_all, &masked),
        ROW("pretraining_takes_no_targets_at_all", lm_head_takes_no_targets_at_all, &pretraining),
    };

    if (gemm_setup(1, NULL) != ERR_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
