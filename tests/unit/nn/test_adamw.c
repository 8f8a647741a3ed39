#include "nn/adamw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "reference.h"

#define N     40007 /* several blocks and a tail */
#define STEPS 20

/* torch.optim.AdamW with amsgrad and maximize off, parameter by parameter. */
static void ref_step(const struct adamw *a, double *p, double g, double *m, double *v)
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

static void check_steps(double decay)
{
    struct adamw a = {
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = decay, .grad_scale = 0.5};
    float *p = filled(N, 1), *g = floats(N), *m = floats(N), *v = floats(N);
    double *ref_p = widen(p, N), *ref_m = doubles(N), *ref_v = doubles(N), *start = widen(p, N);
    double *moved = doubles(N);

    for (a.step = 1; a.step <= STEPS; a.step++) {
        fill(g, N, (uint64_t)a.step + 10);
        for (int i = 0; i < N; i++)
            ref_step(&a, &ref_p[i], g[i], &ref_m[i], &ref_v[i]);
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
    check_steps(0.01);
}

static void adamw_without_decay_is_adam(void **state)
{
    (void)state;
    check_steps(0.0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_torch_adamw_over_20_steps),
        cmocka_unit_test(adamw_without_decay_is_adam),
        cmocka_unit_test(adamw_does_not_depend_on_threads),
        cmocka_unit_test(adamw_moments_of_a_silent_gradient_end_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
