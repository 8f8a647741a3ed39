#include "nn/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "reference.h"

/* A unit as a row of a table: what backward gives is compared with central differences of a double
 * forward pass, for the inputs and for parameters spread over the whole unit. */
struct row {
    const char *name;
    void (*reference)(const struct ref_call *r, const double *p, const double *in, double *out);
    const struct unit *unit;
    bool in_seqs;     /* [B,..] instead of [T,..] */
    bool din_is_dout; /* the unit lets both be one area */
};

#define CHECKED_MAX 400

static const int32_t starts[] = {0, 3, 4, 21, 30};
static const uint32_t samples[] = {7, 4000000000u, 2, 65};
static const int32_t ids[] = {3, 1, 2, 0, 5, 5, 5, 10, 9, 8, 7, 6, 5,  4, 3,
                              2, 1, 0, 1, 2, 3, 4, 5,  6, 7, 8, 9, 10, 9, 8};
static const int32_t types[] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1,
                                1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1};

/* 72 and 136 leave tails behind blocks of 64 and strands of 16. */
static const struct ref_call setting = {
    .shape = {.hidden = 72,
              .heads = 3,
              .ffn = 136,
              .vocab = 11,
              .positions = 20,
              .labels = 3,
              .norm_eps = 1e-5f},
    .batch = {.n_seqs = 4, .starts = starts, .samples = samples},
    .drop = {.seed = 0x123456789abcdefu, .step = 17, .unit = 5, .rate = 0.25f},
    .ids = ids,
    .types = types,
};

/* Everything one run of a unit needs and gives. */
struct run {
    size_t n_params, n_in, n_out;
    float *params, *grads, *in, *out, *dout, *din;
    struct unit_call call;
};

static struct row rows[] = {
    {.name = "embedding", .reference = ref_embedding_unit, .unit = &embedding_unit},
    {.name = "attention",
     .reference = ref_attention_unit,
     .unit = &attention_unit,
     .din_is_dout = true},
    {.name = "ffn", .reference = ref_ffn_unit, .unit = &ffn_unit, .din_is_dout = true},
    {.name = "pooler", .reference = ref_pooler_unit, .unit = &pooler_unit},
    {.name = "head", .reference = ref_head_unit, .unit = &head_unit, .in_seqs = true},
};

/* Areas of exactly the promised size, so that ASan sees one float too many. */
static struct run run_new(const struct row *row)
{
    const struct unit_shape *shape = &setting.shape;
    int T = packed_tokens(&setting.batch), B = setting.batch.n_seqs;
    struct unit_limits limits = {T, B, packed_longest(&setting.batch), 0};
    struct unit_sizes sizes = unit_sizes(row->unit, shape, &limits);
    struct run run = {.n_params = sizes.params};

    run.n_in = (size_t)((row->in_seqs ? B : T) * shape->hidden);
    run.n_out = sizes.out;
    run.params = filled(run.n_params, 1);
    for (size_t i = 0; i < run.n_params; i++)
        run.params[i] *= 0.3f;
    run.grads = floats(run.n_params);
    run.in = filled(run.n_in, 2);
    run.out = floats(run.n_out);
    run.dout = filled(run.n_out, 3);
    run.din = floats(run.n_in);
    run.call = (struct unit_call){
        .shape = *shape,
        .batch = setting.batch,
        .drop = setting.drop,
        .params = run.params,
        .grads = run.grads,
        .saved = filled(sizes.saved, 4), /* not zero: no kernel may rely on it */
        .scratch = filled(sizes.scratch, 5),
        .ids = ids,
        .types = types,
    };
    return run;
}

static void run_free(struct run *run)
{
    free(run->params);
    free(run->grads);
    free(run->in);
    free(run->out);
    free(run->dout);
    free(run->din);
    free(run->call.saved);
    free(run->call.scratch);
}

static struct run run_done(const struct row *row)
{
    struct run run = run_new(row);

    unit_forward(row->unit, &run.call, run.in, run.out);
    unit_backward(row->unit, &run.call, run.in, run.dout, run.din);
    return run;
}

/* The double forward pass, projected on dout. */
static double project(const struct row *row, const struct run *run, const double *params,
                      const double *in)
{
    double *out = doubles(run->n_out), sum = 0.0;

    row->reference(&setting, params, in, out);
    for (size_t i = 0; i < run->n_out; i++)
        sum += out[i] * run->dout[i];
    free(out);
    return sum;
}

/* Check `got` against differences with respect to x, which is params or in. */
static void check_gradient(const struct row *row, const struct run *run, double *params, double *in,
                           bool of_params)
{
    const float *got = of_params ? run->grads : run->din;
    double *x = of_params ? params : in;
    size_t n = of_params ? run->n_params : run->n_in;
    size_t stride = n / CHECKED_MAX + 1;
    double largest = 0.0;

    for (size_t i = 0; i < n; i++)
        largest = fabs(got[i]) > largest ? fabs(got[i]) : largest;
    assert_true(largest > 0.0);
    /* The last ones too: a unit's biases and LayerNorm vectors stand there. */
    for (size_t i = 0; i < n; i += i + 150 < n ? stride : 1) {
        double at = x[i], step = 1e-5, high, low;

        x[i] = at + step;
        high = project(row, run, params, in);
        x[i] = at - step;
        low = project(row, run, params, in);
        x[i] = at;
        if (fabs((high - low) / (2 * step) - got[i]) > 2e-5 * largest + 1e-7)
            fail_msg("%s: %s gradient %zu is %.9g, differences give %.9g (largest %g)", row->name,
                     of_params ? "parameter" : "input", i, got[i], (high - low) / (2 * step),
                     largest);
    }
}

static void unit_forward_is_the_reference(void **state)
{
    const struct row *row = *state;
    struct run run = run_new(row);
    double *params = widen(run.params, run.n_params), *in = widen(run.in, run.n_in);
    double *out = doubles(run.n_out);

    unit_forward(row->unit, &run.call, run.in, run.out);
    row->reference(&setting, params, in, out);
    assert_true(difference(run.out, out, run.n_out) < 3e-6);
    free(params);
    free(in);
    free(out);
    run_free(&run);
}

static void unit_backward_is_the_slope_of_forward(void **state)
{
    const struct row *row = *state;
    struct run run = run_done(row);
    double *params = widen(run.params, run.n_params), *in = widen(run.in, run.n_in);

    check_gradient(row, &run, params, in, true);
    if (row->unit != &embedding_unit)
        check_gradient(row, &run, params, in, false);
    free(params);
    free(in);
    run_free(&run);
}

static void unit_gradients_add_up_over_micro_batches(void **state)
{
    const struct row *row = *state;
    struct run run = run_done(row);
    double *twice = widen(run.grads, run.n_params);

    for (size_t i = 0; i < run.n_params; i++)
        twice[i] *= 2.0;
    unit_forward(row->unit, &run.call, run.in, run.out);
    unit_backward(row->unit, &run.call, run.in, run.dout, run.din);
    assert_true(difference(run.grads, twice, run.n_params) < 1e-6);
    free(twice);
    run_free(&run);
}

static void assert_same(const struct run *a, const struct run *b)
{
    assert_memory_equal(a->out, b->out, a->n_out * sizeof(float));
    assert_memory_equal(a->din, b->din, a->n_in * sizeof(float));
    assert_memory_equal(a->grads, b->grads, a->n_params * sizeof(float));
}

static void unit_gives_the_same_bits_again_and_on_more_threads(void **state)
{
    struct run once = run_done(*state), again = run_done(*state), threaded;

    assert_same(&once, &again);
    assert_int_equal(gemm_setup(3, NULL), ERR_OK);
    threaded = run_done(*state);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_same(&once, &threaded);
    run_free(&once);
    run_free(&again);
    run_free(&threaded);
}

/* One sequence of the batch alone gives the rows that it gave in company. */
static void unit_rows_do_not_depend_on_the_company(void **state)
{
    const struct row *row = *state;
    struct run all = run_done(row), one = run_new(row);
    const int32_t alone[] = {0, starts[3] - starts[2]};
    size_t C = (size_t)setting.shape.hidden;
    size_t in_row = row->in_seqs ? 2 : (size_t)starts[2];
    const struct unit_limits two = {.tokens = starts[2], .seqs = 2};
    const struct unit_limits third = {.tokens = alone[1], .seqs = 1};
    size_t before = unit_sizes(row->unit, &setting.shape, &two).out;
    size_t n = unit_sizes(row->unit, &setting.shape, &third).out;
    double *want = widen(all.out + before, n);

    one.call.batch = (struct packed){.n_seqs = 1, .starts = alone, .samples = &samples[2]};
    one.call.ids = ids + starts[2];
    one.call.types = types + starts[2];
    unit_forward(row->unit, &one.call, one.in + in_row * C, one.out);
    assert_true(difference(one.out, want, n) < 1e-6);
    free(want);
    run_free(&all);
    run_free(&one);
}

static void unit_backward_may_overwrite_the_gradient_it_reads(void **state)
{
    const struct row *row = *state;
    struct run apart = run_done(row), inplace = run_new(row);

    unit_forward(row->unit, &inplace.call, inplace.in, inplace.out);
    unit_backward(row->unit, &inplace.call, inplace.in, inplace.dout, inplace.dout);
    assert_memory_equal(apart.din, inplace.dout, apart.n_in * sizeof(float));
    assert_memory_equal(apart.grads, inplace.grads, apart.n_params * sizeof(float));
    run_free(&apart);
    run_free(&inplace);
}

#define N_ROWS (sizeof rows / sizeof rows[0])

static const struct {
    const char *name;
    CMUnitTestFunction check;
} checks[] = {
    {"forward_is_the_reference", unit_forward_is_the_reference},
    {"backward_is_the_slope_of_forward", unit_backward_is_the_slope_of_forward},
    {"gradients_add_up_over_micro_batches", unit_gradients_add_up_over_micro_batches},
    {"gives_the_same_bits_again_and_on_more_threads",
     unit_gives_the_same_bits_again_and_on_more_threads},
    {"rows_do_not_depend_on_the_company", unit_rows_do_not_depend_on_the_company},
    {"backward_may_overwrite_the_gradient_it_reads",
     unit_backward_may_overwrite_the_gradient_it_reads},
};

#define N_CHECKS (sizeof checks / sizeof checks[0])

static int test_unit(void)
{
    struct CMUnitTest tests[N_ROWS * N_CHECKS];
    static char names[N_ROWS * N_CHECKS][100];
    size_t n = 0;

    if (gemm_setup(1, NULL) != ERR_OK)
        return 1;
    for (size_t r = 0; r < N_ROWS; r++)
        for (size_t c = 0; c < N_CHECKS; c++) {
            if (checks[c].check == unit_backward_may_overwrite_the_gradient_it_reads &&
                !rows[r].din_is_dout)
                continue;
            snprintf(names[n], sizeof names[n], "%s_unit_%s", rows[r].name, checks[c].name);
            tests[n] = (struct CMUnitTest){names[n], checks[c].check, NULL, NULL, &rows[r]};
            n++;
        }
    return _cmocka_run_group_tests("unit", tests, n, NULL, NULL);
}

/* --- lm head --- */

#define T       97
#define B       3
#define C       72
#define V       139
#define TARGETS 75 /* more than one chunk of logits */
#define CHECKED 120

static const int32_t lm_starts[B + 1] = {0, 40, 41, T};
static const uint32_t lm_samples[B] = {7, 9, 2};
static const int32_t next[B] = {1, 0, 1};
static const struct packed batch = {.n_seqs = B, .starts = lm_starts, .samples = lm_samples};

/* One run: inputs, what lm_forward said and what backward left. */
struct lm_run {
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
static struct lm_run *lm_run_new(bool next_sentence, int n)
{
    const struct unit_shape shape = shape_of(next_sentence);
    const struct unit_limits limits = {T, B, 56, n};
    struct lm_run *r = ref_alloc(1, sizeof *r);

    r->sizes = unit_sizes(&lm_head_unit, &shape, &limits);
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

static void lm_forward(struct lm_run *r)
{
    struct lm_scores scores = {r->losses, r->predictions, NULL, NULL};

    if (r->call.shape.next_sentence) {
        scores.next_losses = r->next_losses;
        scores.next_predictions = r->next_predictions;
    }
    r->call.scores = scores;
    unit_forward(&lm_head_unit, &r->call, r->in, NULL);
}

static struct lm_run *lm_run_done(bool next_sentence, int n)
{
    struct lm_run *r = lm_run_new(next_sentence, n);

    lm_forward(r);
    unit_backward(&lm_head_unit, &r->call, r->in, NULL, r->din);
    return r;
}

static void lm_run_free(struct lm_run *r)
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

static void ref_lm_head(const struct lm_run *r, struct wide *w)
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
        ref_linear(h, w->in + lm_starts[b] * C, pooler, pooler + C * C, 1, C, C);
        for (int c = 0; c < C; c++)
            h[c] = tanh(h[c]);
        ref_linear(logits, h, pooler + C * C + C, pooler + C * C + C + 2 * C, 1, C, 2);
        w->next_losses[b] = ref_cross_entropy(logits, 2, next[b]);
    }
}

static struct wide wide_of(const struct lm_run *r)
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

static double total(const struct lm_run *r, struct wide *w)
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
static void check_lm_gradient(const struct lm_run *r, struct wide *w, double *x, const float *got,
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
    struct lm_run *r = lm_run_new(*flag_of(state), TARGETS);
    struct wide w = wide_of(r);

    lm_forward(r);
    ref_lm_head(r, &w);
    assert_true(difference(r->losses, w.losses, TARGETS) < 1e-6);
    if (*flag_of(state))
        assert_true(difference(r->next_losses, w.next_losses, B) < 1e-6);
    wide_free(&w);
    lm_run_free(r);
}

static void lm_head_backward_is_the_slope_of_the_losses(void **state)
{
    struct lm_run *r = lm_run_done(*flag_of(state), TARGETS);
    struct wide w = wide_of(r);
    size_t transform = C * C + 3 * C, pooler = transform + V;

    check_lm_gradient(r, &w, w.in, r->din, (size_t)T * C);
    check_lm_gradient(r, &w, w.decoder, r->call.lm.decoder_grads, (size_t)V * C);
    /* Apart: one is not to hide in the stride over another. */
    check_lm_gradient(r, &w, w.params, r->call.grads, C * C);
    check_lm_gradient(r, &w, w.params + C * C, r->call.grads + C * C, 3 * C);
    check_lm_gradient(r, &w, w.params + transform, r->call.grads + transform, V);
    if (*flag_of(state))
        check_lm_gradient(r, &w, w.params + pooler, r->call.grads + pooler,
                          r->sizes.params - pooler);
    wide_free(&w);
    lm_run_free(r);
}

/* A target's logit is made the largest by its own bias: both predictions follow the parameters. */
static void lm_head_predicts_the_largest_logit(void **state)
{
    struct lm_run *r = lm_run_new(true, TARGETS);

    (void)state;
    r->params[C * C + 3 * C + 130] = 1000.0f;
    r->params[r->sizes.params - 1] = 1000.0f; /* not the next sentence */
    lm_forward(r);
    for (int i = 0; i < TARGETS; i++)
        assert_int_equal(r->predictions[i], 130);
    for (int b = 0; b < B; b++)
        assert_int_equal(r->next_predictions[b], 1);
    lm_run_free(r);
}

static void lm_head_evaluates_without_gradients(void **state)
{
    struct lm_run *r = lm_run_new(*flag_of(state), TARGETS),
                  *trained = lm_run_done(*flag_of(state), TARGETS);

    free(r->call.grads);
    r->call.grads = NULL;
    free(r->call.lm.decoder_grads);
    r->call.lm.decoder_grads = NULL;
    lm_forward(r);
    assert_memory_equal(r->losses, trained->losses, sizeof r->losses);
    assert_memory_equal(r->predictions, trained->predictions, sizeof r->predictions);
    assert_memory_equal(r->next_losses, trained->next_losses, sizeof r->next_losses);
    lm_run_free(r);
    lm_run_free(trained);
}

static void lm_head_gradients_add_up_over_micro_batches(void **state)
{
    struct lm_run *r = lm_run_done(*flag_of(state), TARGETS);
    double *grads = widen(r->call.grads, r->sizes.params);
    double *decoder = widen(r->call.lm.decoder_grads, (size_t)V * C), *din = widen(r->din, T * C);

    for (size_t i = 0; i < r->sizes.params; i++)
        grads[i] *= 2.0;
    for (size_t i = 0; i < (size_t)V * C; i++)
        decoder[i] *= 2.0;
    lm_forward(r);
    unit_backward(&lm_head_unit, &r->call, r->in, NULL, r->din);
    assert_true(difference(r->call.grads, grads, r->sizes.params) < 1e-6);
    assert_true(difference(r->call.lm.decoder_grads, decoder, (size_t)V * C) < 1e-6);
    assert_true(difference(r->din, din, T * C) == 0.0);
    free(grads);
    free(decoder);
    free(din);
    lm_run_free(r);
}

static void lm_head_gives_the_same_bits_on_more_threads(void **state)
{
    struct lm_run *alone = lm_run_done(*flag_of(state), TARGETS), *threaded;

    assert_int_equal(gemm_setup(3, NULL), ERR_OK);
    threaded = lm_run_done(*flag_of(state), TARGETS);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_memory_equal(alone->losses, threaded->losses, sizeof alone->losses);
    assert_memory_equal(alone->din, threaded->din, T * C * sizeof(float));
    assert_memory_equal(alone->call.grads, threaded->call.grads,
                        alone->sizes.params * sizeof(float));
    assert_memory_equal(alone->call.lm.decoder_grads, threaded->call.lm.decoder_grads,
                        (size_t)V * C * sizeof(float));
    lm_run_free(alone);
    lm_run_free(threaded);
}

/* A short micro-batch may have nothing masked: only the next sentence is left, or nothing. */
static void lm_head_takes_no_targets_at_all(void **state)
{
    struct lm_run *r = lm_run_done(*flag_of(state), 0);
    struct wide w = wide_of(r);

    if (*flag_of(state)) {
        check_lm_gradient(r, &w, w.in, r->din, C);
    } else {
        for (size_t i = 0; i < r->sizes.params; i++)
            assert_true(r->call.grads[i] == 0.0f);
        for (int i = 0; i < T * C; i++)
            assert_true(r->din[i] == 0.0f);
    }
    for (int i = 0; i < V * C; i++)
        assert_true(r->call.lm.decoder_grads[i] == 0.0f);
    wide_free(&w);
    lm_run_free(r);
}

#define ROW(name, check, flag)                                                                     \
    {                                                                                              \
        name, check, NULL, NULL, flag                                                              \
    }

static int test_lm_head(void)
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

int main(void)
{
    return test_unit() + test_lm_head();
}
