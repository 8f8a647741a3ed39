#include "nn/optimizers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "reference.h"

#define N     40007 /* several blocks and a tail */
#define STEPS 20

/* --- AdamW --- */

/* torch.optim.AdamW with amsgrad and maximize off, parameter by parameter. */
static void ref_adamw(const struct adamw *a, double *p, double g, double *m, double *v)
{
    double step_size = a->lr / (1.0 - pow(a->beta1, (double)a->step));
    double denominator;

    g *= a->grad_scale;
    *p *= 1.0 - a->lr * a->decay;
    *m = a->beta1 * *m + (1.0 - a->beta1) * g;
    *v = a->beta2 * *v + (1.0 - a->beta2) * g * g;
    denominator = sqrt(*v) / sqrt(1.0 - pow(a->beta2, (double)a->step)) + a->eps;
    *p -= step_size * *m / denominator;
}

static void check_adamw(double decay)
{
    struct adamw a = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = decay, .grad_scale = 0.5};
    float *p = filled(N, 1), *g = floats(N), *m = floats(N), *v = floats(N);
    double *ref_p = widen(p, N), *ref_m = doubles(N), *ref_v = doubles(N), *start = widen(p, N);
    double *moved = doubles(N);

    for (a.step = 1; a.step <= STEPS; a.step++) {
        fill(g, N, (uint64_t)a.step + 10);
        for (int i = 0; i < N; i++)
            ref_adamw(&a, &ref_p[i], g[i], &ref_m[i], &ref_v[i]);
        adamw_step(&a, p, g, m, v, N);
        for (int i = 0; i < N; i++)
            assert_true(g[i] == 0.0f);
    }
    assert_true(difference(m, ref_m, N) < 1e-6);
    assert_true(difference(v, ref_v, N) < 1e-6);
    for (int i = 0; i < N; i++) {
        moved[i] = ref_p[i] - start[i];
        p[i] = (float)(p[i] - start[i]);
    }
    assert_true(difference(p, moved, N) < 1e-4); /* of a sum of 20 steps of 1e-3, near 1 */
    free(p);
    free(g);
    free(m);
    free(v);
    free(ref_p);
    free(ref_m);
    free(ref_v);
    free(start);
    free(moved);
}

static void adamw_is_torch_adamw_over_20_steps(void **state)
{
    (void)state;
    check_adamw(0.01);
}

static void adamw_without_decay_is_adam(void **state)
{
    (void)state;
    check_adamw(0.0);
}

static void adamw_does_not_depend_on_threads(void **state)
{
    struct adamw a = {.lr = 1e-3,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .decay = 0.01,
                      .grad_scale = 1.0,
                      .step = 1};
    float *p[2], *g[2], *m[2], *v[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        p[i] = filled(N, 1);
        g[i] = filled(N, 2);
        m[i] = floats(N);
        v[i] = floats(N);
        assert_int_equal(gemm_setup(1 + 2 * i, NULL), ERR_OK);
        adamw_step(&a, p[i], g[i], m[i], v[i], N);
    }
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_memory_equal(p[0], p[1], N * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(p[i]);
        free(g[i]);
        free(m[i]);
        free(v[i]);
    }
}

static void adamw_moments_of_a_silent_gradient_end_at_zero(void **state)
{
    struct adamw a = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.9, .eps = 1e-8, .grad_scale = 1.0};
    float p[3] = {1, 2, 3}, g[3] = {1, -1, 1e-3f}, m[3] = {0}, v[3] = {0};

    (void)state;
    for (a.step = 1; a.step <= 1000; a.step++)
        adamw_step(&a, p, g, m, v, 3);
    for (int i = 0; i < 3; i++)
        assert_true(m[i] == 0.0f && v[i] == 0.0f);
}

/* --- SGD --- */

/* torch.optim.SGD without dampening and Nesterov, in its own words: the first buffer is the
 * gradient, later ones decay. */
static void ref_sgd(const struct sgd *a, int step, double *p, double g, double *m)
{
    g = g * a->grad_scale + a->decay * *p;
    *m = step == 0 ? g : a->momentum * *m + g;
    *p -= a->lr * *m;
}

static void check_sgd(double momentum, double decay)
{
    struct sgd a = {.lr = 1e-2, .momentum = momentum, .decay = decay, .grad_scale = 0.5};
    float *p = filled(N, 1), *g = floats(N), *m = floats(N);
    double *ref_p = widen(p, N), *ref_m = doubles(N);

    for (int step = 0; step < STEPS; step++) {
        fill(g, N, (uint64_t)step + 10);
        for (int i = 0; i < N; i++)
            ref_sgd(&a, step, &ref_p[i], g[i], &ref_m[i]);
        sgd_step(&a, p, g, m, N);
        for (int i = 0; i < N; i++)
            assert_true(g[i] == 0.0f);
    }
    assert_true(difference(m, ref_m, N) < 1e-6);
    assert_true(difference(p, ref_p, N) < 1e-6);
    free(p);
    free(g);
    free(m);
    free(ref_p);
    free(ref_m);
}

static void sgd_is_torch_sgd_over_20_steps(void **state)
{
    (void)state;
    check_sgd(0.9, 0.1);
}

static void sgd_without_momentum_and_decay_follows_the_gradient(void **state)
{
    (void)state;
    check_sgd(0.0, 0.0);
}

static void sgd_does_not_depend_on_threads(void **state)
{
    struct sgd a = {.lr = 1e-2, .momentum = 0.9, .decay = 0.01, .grad_scale = 1.0};
    float *p[2], *g[2], *m[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        p[i] = filled(N, 1);
        g[i] = filled(N, 2);
        m[i] = filled(N, 3);
        assert_int_equal(gemm_setup(1 + 2 * i, NULL), ERR_OK);
        sgd_step(&a, p[i], g[i], m[i], N);
    }
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_memory_equal(p[0], p[1], N * sizeof(float));
    assert_memory_equal(m[0], m[1], N * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(p[i]);
        free(g[i]);
        free(m[i]);
    }
}

static void sgd_momentum_of_a_silent_gradient_ends_at_zero(void **state)
{
    struct sgd a = {.lr = 1e-3, .momentum = 0.9, .grad_scale = 1.0};
    float p[3] = {1, 2, 3}, g[3] = {1, -1, 1e-3f}, m[3] = {0};

    (void)state;
    for (int step = 0; step < 1000; step++)
        sgd_step(&a, p, g, m, 3);
    for (int i = 0; i < 3; i++)
        assert_true(m[i] == 0.0f);
}

/* --- sums of squares --- */

/* The order that the header promises, written down naively. */
static double ref_sum(const float *x, size_t n)
{
    double total = 0.0;

    for (size_t at = 0; at < n; at += 4096) {
        double strands[16] = {0};

        for (size_t i = 0; i < 4096 && at + i < n; i++)
            strands[i % 16] += (double)x[at + i] * (double)x[at + i];
        for (int half = 8; half > 0; half /= 2)
            for (int i = 0; i < half; i++)
                strands[i] += strands[i + half];
        total += strands[0];
    }
    return total;
}

static void squares_sum_adds_in_the_documented_order(void **state)
{
    size_t n = 4096 * 300 + 4095;
    float *x = filled(n, 3);

    (void)state;
    assert_true(squares_sum(x, n) == ref_sum(x, n));
    assert_true(squares_sum(x + 1, n - 1) == ref_sum(x + 1, n - 1));
    assert_true(squares_sum(x, 0) == 0.0);
    free(x);
}

static void squares_sum_does_not_depend_on_threads(void **state)
{
    size_t n = 40007; /* several blocks and a tail */
    float *x = filled(n, 2);
    double alone = squares_sum(x, n);

    (void)state;
    assert_int_equal(gemm_setup(3, NULL), ERR_OK);
    assert_true(squares_sum(x, n) == alone);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_torch_adamw_over_20_steps),
        cmocka_unit_test(adamw_without_decay_is_adam),
        cmocka_unit_test(adamw_does_not_depend_on_threads),
        cmocka_unit_test(adamw_moments_of_a_silent_gradient_end_at_zero),
        cmocka_unit_test(sgd_is_torch_sgd_over_20_steps),
        cmocka_unit_test(sgd_without_momentum_and_decay_follows_the_gradient),
        cmocka_unit_test(sgd_does_not_depend_on_threads),
        cmocka_unit_test(sgd_momentum_of_a_silent_gradient_ends_at_zero),
        cmocka_unit_test(squares_sum_adds_in_the_documented_order),
        cmocka_unit_test(squares_sum_does_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
