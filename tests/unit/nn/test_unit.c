#include "nn/unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "nn/threads.h"
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
    struct unit_limits limits = {T, B, packed_longest(&setting.batch), threads_count(), 0};
    struct unit_sizes sizes = row->unit->sizes(shape, &limits);
    struct run run = {.n_params = sizes.params};

    run.n_in = (size_t)((row->in_seqs ? B : T) * shape->hidden);
    run.n_out = unit_out_floats(row->unit, shape, T, B);
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

    row->unit->forward(&run.call, run.in, run.out);
    row->unit->backward(&run.call, run.in, run.dout, run.din);
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

    row->unit->forward(&run.call, run.in, run.out);
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
    row->unit->forward(&run.call, run.in, run.out);
    row->unit->backward(&run.call, run.in, run.dout, run.din);
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
    size_t before = unit_out_floats(row->unit, &setting.shape, starts[2], 2);
    size_t n = unit_out_floats(row->unit, &setting.shape, alone[1], 1);
    double *want = widen(all.out + before, n);

    one.call.batch = (struct packed){.n_seqs = 1, .starts = alone, .samples = &samples[2]};
    one.call.ids = ids + starts[2];
    one.call.types = types + starts[2];
    row->unit->forward(&one.call, one.in + in_row * C, one.out);
    assert_true(difference(one.out, want, n) < 1e-6);
    free(want);
    run_free(&all);
    run_free(&one);
}

static void unit_backward_may_overwrite_the_gradient_it_reads(void **state)
{
    const struct row *row = *state;
    struct run apart = run_done(row), inplace = run_new(row);

    row->unit->forward(&inplace.call, inplace.in, inplace.out);
    row->unit->backward(&inplace.call, inplace.in, inplace.dout, inplace.dout);
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

int main(void)
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
