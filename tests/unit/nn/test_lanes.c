#include "nn/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nn/layers.h"
#include "nn/optimizers.h"
#include "reference.h"

#define N     (4 * LANES_BLOCK + 37) /* blocks, strands and a tail of neither */
#define AREAS 7

static const struct dropout drop = {.seed = 99, .step = 3, .unit = 2, .rate = 0.1f};

/* Every kernel in one form, on areas of n floats, so that a property is said once for all. */
struct kernel {
    const char *name;
    void (*run)(const struct lanes *l, float *x[AREAS], int n);
    bool has_sums; /* over the row: an element depends on all others */
};

static struct dropout_row mask_row(void)
{
    return dropout_row(&drop, DROPOUT_HIDDEN, 12, 5);
}

static void run_dropout(const struct lanes *l, float *x[AREAS], int n)
{
    struct dropout_row mask = mask_row();

    l->dropout(x[0], x[1], n, &mask);
}

static void run_norm(const struct lanes *l, float *x[AREAS], int n)
{
    struct dropout_row mask = mask_row();
    struct layernorm norm = {.C = n, .eps = 1e-5f, .gain = x[2], .bias = x[3]};

    x[6][0] = l->norm(x[5], x[4], x[0], x[1], &norm, &mask);
}

static void run_norm_back(const struct lanes *l, float *x[AREAS], int n)
{
    struct dropout_row mask = mask_row();
    struct layernorm norm = {.C = n, .gain = x[2]};
    float *sums = floats(3 * (size_t)n);

    for (int i = 0; i < 3; i++)
        memcpy(sums + i * n, x[4 + i], (size_t)n * sizeof *sums);
    l->norm_back(x[0], x[3], sums, x[0], x[1], 1.7f, &norm, &mask);
    for (int i = 0; i < 3; i++)
        memcpy(x[4 + i], sums + i * n, (size_t)n * sizeof *sums);
    free(sums);
}

static void run_gelu(const struct lanes *l, float *x[AREAS], int n)
{
    l->gelu(x[0], x[1], n);
}

static void run_gelu_back(const struct lanes *l, float *x[AREAS], int n)
{
    l->gelu_back(x[0], x[1], x[2], n);
}

static void run_softmax(const struct lanes *l, float *x[AREAS], int n)
{
    struct dropout_row mask = mask_row();

    l->softmax(x[0], n, 3.0f, &mask);
}

static void run_softmax_back(const struct lanes *l, float *x[AREAS], int n)
{
    struct dropout_row mask = mask_row();

    l->softmax_back(x[0], x[1], n, 3.0f, &mask);
}

static void run_tanh(const struct lanes *l, float *x[AREAS], int n)
{
    l->tanh(x[0], x[1], n);
    l->tanh_back(x[2], x[3], x[0], n);
}

static void run_add(const struct lanes *l, float *x[AREAS], int n)
{
    l->add(x[0], x[1], n);
    l->add_columns(x[2], x[3], 2, 3, n - 3);
}

static void run_adamw(const struct lanes *l, float *x[AREAS], int n)
{
    struct adamw a = {.lr = 0.01,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .decay = 0.1,
                      .grad_scale = 0.5,
                      .step = 3};

    for (int i = 0; i < n; i++)
        x[3][i] *= x[3][i];
    l->adamw(&a, x[0], x[1], x[2], x[3], (size_t)n);
}

static void run_sgd(const struct lanes *l, float *x[AREAS], int n)
{
    struct sgd a = {.lr = 0.05, .momentum = 0.9, .decay = 0.01, .grad_scale = 0.5};

    l->sgd(&a, x[0], x[1], x[2], (size_t)n);
}

static void run_sum_squares(const struct lanes *l, float *x[AREAS], int n)
{
    double sum = l->sum_squares(x[0], (size_t)n);

    memcpy(x[1], &sum, sizeof sum);
}

static const struct kernel kernels[] = {
    {"dropout", run_dropout, false},
    {"norm", run_norm, true},
    {"norm_back", run_norm_back, true},
    {"gelu", run_gelu, false},
    {"gelu_back", run_gelu_back, false},
    {"softmax", run_softmax, true},
    {"softmax_back", run_softmax_back, true},
    {"tanh", run_tanh, false},
    {"add", run_add, false},
    {"adamw", run_adamw, false},
    {"sgd", run_sgd, false},
    {"sum_squares", run_sum_squares, true},
};

#define N_KERNELS (sizeof kernels / sizeof kernels[0])

/* The areas after a run, one behind the other; freed by the caller. `shift` floats off alignment.
 */
static float *outcome(const struct kernel *kernel, const struct lanes *l, int n, int shift)
{
    float *areas = floats(AREAS * (N + 64)), *result = floats((size_t)(AREAS * n)), *x[AREAS];

    for (int i = 0; i < AREAS; i++) {
        x[i] = areas + i * (N + 64) + shift;
        fill(x[i], N, (uint64_t)i + 1);
    }
    kernel->run(l, x, n);
    for (int i = 0; i < AREAS; i++)
        memcpy(result + i * n, x[i], (size_t)n * sizeof(float));
    free(areas);
    return result;
}

static void lanes_give_the_same_bits_at_any_address(void **state)
{
    for (size_t k = 0; k < N_KERNELS; k++)
        for (int shift = 1; shift < 5; shift++) {
            float *a = outcome(&kernels[k], *state, N, 0);
            float *b = outcome(&kernels[k], *state, N, shift);

            if (memcmp(a, b, AREAS * N * sizeof(float)) != 0)
                fail_msg("%s differs when shifted by %d floats", kernels[k].name, shift);
            free(a);
            free(b);
        }
}

/* Cutting the row elsewhere makes a tail of what was body: 18 = 16 + 2, and so on. */
static void lanes_give_a_tail_the_bits_of_the_body(void **state)
{
    for (size_t k = 0; k < N_KERNELS; k++)
        for (int n = 7; n < N; n += 11) {
            float *whole = outcome(&kernels[k], *state, N, 0);
            float *cut = outcome(&kernels[k], *state, n, 0);

            for (int i = 0; i < AREAS && !kernels[k].has_sums; i++)
                if (memcmp(whole + i * N, cut + i * n, (size_t)(n - 3) * sizeof(float)) != 0)
                    fail_msg("%s differs when cut at %d", kernels[k].name, n);
            free(whole);
            free(cut);
        }
}

/* The base table has no fused multiply-add and may differ in the last bit. */
static void lanes_with_fused_multiply_add_agree_bit_for_bit(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (lanes() != &lanes_avx512)
        skip();
    for (size_t k = 0; k < N_KERNELS; k++) {
        float *a = outcome(&kernels[k], &lanes_avx2, N, 0);
        float *b = outcome(&kernels[k], &lanes_avx512, N, 0);

        if (memcmp(a, b, AREAS * N * sizeof(float)) != 0)
            fail_msg("%s differs", kernels[k].name);
        free(a);
        free(b);
    }
#endif
}

static void lanes_sum_squares_is_the_same_on_every_set(void **state)
{
    float *x = filled(N, 8);
    double sum = 0.0;

    for (int i = 0; i < N; i++)
        sum += (double)x[i] * x[i];
    assert_true(((const struct lanes *)*state)->sum_squares(x, N) == lanes_base.sum_squares(x, N));
    assert_true(fabs(lanes_base.sum_squares(x, N) - sum) < 1e-12 * sum);
    free(x);
}

/* --- functions against libm in double --- */

#define SWEEP 100000

static void sweep(float *x, float low, float high)
{
    for (int i = 0; i < SWEEP; i++)
        x[i] = low + (high - low) * (float)i / (SWEEP - 1);
}

static double ref_density(double x)
{
    return exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

static void lanes_functions_are_within_2e_6_of_libm(void **state)
{
    const struct lanes *l = *state;
    float *x = floats(SWEEP), *y = floats(SWEEP), *d = floats(SWEEP), *sums = floats(SWEEP);
    double worst[3] = {0};

    sweep(x, -20.0f, 19.0f);
    l->tanh(y, x, SWEEP);
    for (int i = 0; i < SWEEP; i++)
        worst[0] = fmax(worst[0], fabs(y[i] - tanh(x[i])) / fabs(tanh(x[i])));
    sweep(x, -11.9f, 30.0f);
    l->gelu(y, x, SWEEP);
    for (int i = 0; i < SWEEP; i++)
        worst[1] = fmax(worst[1], fabs(y[i] - ref_gelu(x[i])) / fabs(ref_gelu(x[i])));
    memcpy(y, x, SWEEP * sizeof *x);
    for (int i = 0; i < SWEEP; i++)
        d[i] = 1.0f;
    l->gelu_back(y, d, sums, SWEEP);
    for (int i = 0; i < SWEEP; i++) {
        double slope = 0.5 * erfc(-x[i] / sqrt(2.0)) + x[i] * ref_density(x[i]);

        /* The slope crosses zero at -0.75; its size there is that of its two terms. */
        worst[2] =
            fmax(worst[2], fabs(d[i] - slope) / (fabs(slope) + fabs(x[i] * ref_density(x[i]))));
    }
    print_message("%s: tanh %.2g gelu %.2g slope %.2g\n", l->name, worst[0], worst[1], worst[2]);
    for (int i = 0; i < 3; i++)
        assert_true(worst[i] < 2e-6);
    free(x);
    free(y);
    free(d);
    free(sums);
}

static void lanes_functions_stay_finite_far_out(void **state)
{
    const struct lanes *l = *state;
    float far[] = {-1e30f, -300.0f, -88.0f, 300.0f, 1e30f, 0.0f, -0.0f}, y[7], d[7], sums[7] = {0};
    float ones[] = {1, 1, 1, 1, 1, 1, 1};

    l->tanh(y, far, 7);
    assert_true(y[0] == -1.0f && y[4] == 1.0f && y[5] == 0.0f);
    l->gelu(y, far, 7);
    assert_true(y[0] <= 0.0f && y[0] > -1e-2f && y[1] > -1e-29f && y[4] == 1e30f && y[5] == 0.0f);
    memcpy(y, far, sizeof y);
    memcpy(d, ones, sizeof d);
    l->gelu_back(y, d, sums, 7);
    assert_true(fabsf(d[1]) < 1e-28f && d[3] == 1.0f && d[5] == 0.5f);
}

/* --- rows against double --- */

static void lanes_dropout_is_the_documented_function_of_the_counter(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row mask = mask_row();
    float x[N], y[N];
    int dropped = 0;

    fill(x, N, 4);
    l->dropout(y, x, N, &mask);
    for (int i = 0; i < N; i++) {
        double keep = ref_keep(&drop, DROPOUT_HIDDEN, 12, 5, i);

        assert_true(keep == 0.0 ? y[i] == 0.0f : fabs(y[i] - x[i] * keep) < 3e-7);
        dropped += keep == 0.0;
    }
    assert_in_range(dropped, N / 20, N / 5);
}

static void lanes_softmax_is_softmax_even_with_huge_scores(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row none = {.scale = 1.0f};
    float x[N], y[N];
    double want[N], sum = 0.0;

    fill(x, N, 4);
    for (int i = 0; i < N; i++)
        x[i] = x[i] * 20.0f + 3000.0f;
    for (int i = 0; i < N; i++)
        sum += exp(0.5 * ((double)x[i] - 3020.0));
    for (int i = 0; i < N; i++)
        want[i] = exp(0.5 * ((double)x[i] - 3020.0)) / sum;
    memcpy(y, x, sizeof y);
    l->softmax(y, N, 0.5f, &none);
    assert_true(difference(y, want, N) < 2e-6);
}

/* What is left out would be a denormal number soon, and slow. */
static void lanes_softmax_leaves_out_what_is_lost_beside_one(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row none = {.scale = 1.0f};
    float s[] = {50.0f, 50.0f - 47.0f, 50.0f - 45.0f, -1e30f};

    l->softmax(s, 4, 1.0f, &none);
    assert_true(s[0] == 1.0f && s[1] == 0.0f && s[2] > 1e-20f && s[3] == 0.0f);
}

/* Jacobian of dropout(softmax(scale s)) by the textbook, and the dropped probabilities again. */
static void lanes_softmax_back_is_the_jacobian(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row mask = mask_row();
    float s[N], dp[N], forward[N];
    double p[N], want[N], again[N], sum = 0.0, dot = 0.0;

    fill(s, N, 4);
    fill(dp, N, 5);
    memcpy(forward, s, sizeof s);
    for (int i = 0; i < N; i++)
        sum += exp(3.0 * s[i]);
    for (int i = 0; i < N; i++) {
        p[i] = exp(3.0 * s[i]) / sum;
        again[i] = p[i] * ref_keep(&drop, DROPOUT_HIDDEN, 12, 5, i);
        want[i] = dp[i] * ref_keep(&drop, DROPOUT_HIDDEN, 12, 5, i);
        dot += p[i] * want[i];
    }
    for (int i = 0; i < N; i++)
        want[i] = 3.0 * p[i] * (want[i] - dot);
    l->softmax(forward, N, 3.0f, &mask);
    l->softmax_back(s, dp, N, 3.0f, &mask);
    assert_true(difference(dp, want, N) < 2e-6);
    assert_true(difference(s, again, N) < 2e-6);
    assert_true(difference(forward, again, N) < 2e-6);
}

static void lanes_norm_is_layernorm_of_residual_and_dropout(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row mask = mask_row();
    float res[N], y[N], gain[N], bias[N], xhat[N], out[N];
    struct layernorm norm = {.C = N, .eps = 1e-5f, .gain = gain, .bias = bias};
    double want[N], wide_gain[N], wide_bias[N];

    fill(res, N, 1);
    fill(y, N, 2);
    fill(gain, N, 3);
    fill(bias, N, 4);
    for (int i = 0; i < N; i++) {
        res[i] += 10.0f; /* a mean far from zero: the variance must not suffer */
        want[i] = res[i] + y[i] * ref_keep(&drop, DROPOUT_HIDDEN, 12, 5, i);
        wide_gain[i] = gain[i];
        wide_bias[i] = bias[i];
    }
    (void)l->norm(out, xhat, res, y, &norm, &mask);
    ref_layernorm(want, wide_gain, wide_bias, 1e-5, 1, N);
    assert_true(difference(out, want, N) < 4e-6);
}

static void lanes_norm_back_is_the_textbook_formula(void **state)
{
    const struct lanes *l = *state;
    struct dropout_row mask = mask_row();
    float dout[N], xhat[N], gain[N], dsum[N], dy[N], sums[3][N] = {{0}};
    struct layernorm norm = {.C = N, .gain = gain};
    double want[N], dropped[N], dgain[N], mean = 0.0, dot = 0.0;

    fill(dout, N, 1);
    fill(xhat, N, 2);
    fill(gain, N, 3);
    for (int i = 0; i < N; i++) {
        mean += (double)dout[i] * gain[i] / N;
        dot += (double)dout[i] * gain[i] * xhat[i] / N;
    }
    for (int i = 0; i < N; i++) {
        want[i] = (double)1.7f * ((double)dout[i] * gain[i] - mean - xhat[i] * dot);
        dropped[i] = want[i] * ref_keep(&drop, DROPOUT_HIDDEN, 12, 5, i);
        dgain[i] = (double)dout[i] * xhat[i];
    }
    l->norm_back(dsum, dy, sums[0], dout, xhat, 1.7f, &norm, &mask);
    assert_true(difference(dsum, want, N) < 1e-6);
    assert_true(difference(dy, dropped, N) < 1e-6);
    assert_true(difference(sums[0], dgain, N) < 1e-6);
    for (int i = 0; i < N; i++)
        assert_true(sums[1][i] == dout[i] && sums[2][i] == dy[i]);
}

static void lanes_add_columns_adds_every_row_once(void **state)
{
    const struct lanes *l = *state;
    enum { ROWS = 9, LD = N + 5 };
    float x[ROWS * LD], acc[N];
    double want[N];

    fill(x, ROWS * LD, 1);
    fill(acc, N, 2);
    for (int i = 0; i < N; i++) {
        want[i] = acc[i];
        for (int row = 0; row < ROWS; row++)
            want[i] += x[row * LD + i];
    }
    l->add_columns(acc, x, ROWS, LD, N);
    assert_true(difference(acc, want, N) < 1e-6);
}

static const struct {
    const char *name;
    CMUnitTestFunction check;
} checks[] = {
    {"give_the_same_bits_at_any_address", lanes_give_the_same_bits_at_any_address},
    {"give_a_tail_the_bits_of_the_body", lanes_give_a_tail_the_bits_of_the_body},
    {"sum_squares_is_the_same_on_every_set", lanes_sum_squares_is_the_same_on_every_set},
    {"functions_are_within_2e_6_of_libm", lanes_functions_are_within_2e_6_of_libm},
    {"functions_stay_finite_far_out", lanes_functions_stay_finite_far_out},
    {"dropout_is_the_documented_function_of_the_counter",
     lanes_dropout_is_the_documented_function_of_the_counter},
    {"softmax_is_softmax_even_with_huge_scores", lanes_softmax_is_softmax_even_with_huge_scores},
    {"softmax_leaves_out_what_is_lost_beside_one",
     lanes_softmax_leaves_out_what_is_lost_beside_one},
    {"softmax_back_is_the_jacobian", lanes_softmax_back_is_the_jacobian},
    {"norm_is_layernorm_of_residual_and_dropout", lanes_norm_is_layernorm_of_residual_and_dropout},
    {"norm_back_is_the_textbook_formula", lanes_norm_back_is_the_textbook_formula},
    {"add_columns_adds_every_row_once", lanes_add_columns_adds_every_row_once},
};

#define N_CHECKS (sizeof checks / sizeof checks[0])

int main(void)
{
    /* Tables up to the best that this processor runs. */
    const struct lanes *tables[] = {
        &lanes_base,
#if defined(__x86_64__)
        &lanes_avx2,
        &lanes_avx512,
#endif
    };
    struct CMUnitTest tests[3 * N_CHECKS + 1];
    static char names[3 * N_CHECKS][100];
    static union {
        const struct lanes *table;
        void *state;
    } states[3];
    size_t n = 0;

    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        states[t].table = tables[t];
        for (size_t c = 0; c < N_CHECKS; c++) {
            snprintf(names[n], sizeof names[n], "lanes_%s_%s", tables[t]->name, checks[c].name);
            tests[n] = (struct CMUnitTest){names[n], checks[c].check, NULL, NULL, states[t].state};
            n++;
        }
        if (tables[t] == lanes())
            break;
    }
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(lanes_with_fused_multiply_add_agree_bit_for_bit);
    return _cmocka_run_group_tests("lanes", tests, n, NULL, NULL);
}
