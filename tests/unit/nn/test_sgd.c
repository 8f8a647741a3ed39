#include "nn/sgd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "reference.h"

#define N     40007 /* several blocks and a tail */
#define STEPS 20

/* torch.optim.SGD without dampening and Nesterov, in its own words: the first buffer is the
 * gradient, later ones decay. */
static void ref_step(const struct sgd *a, int step, double *p, double g, double *m)
{
    g = g * a->grad_scale + a->decay * *p;
    *m = step == 0 ? g : a->momentum * *m + g;
    *p -= a->lr * *m;
}

static void check_steps(double momentum, double decay)
{
    struct sgd a = {.lr = 1e-2, .momentum = momentum, .decay = decay, .grad_scale = 0.5};
    float *p = filled(N, 1), *g = floats(N), *m = floats(N);
    double *ref_p = widen(p, N), *ref_m = doubles(N);

    for (int step = 0; step < STEPS; step++) {
        fill(g, N, (uint64_t)step + 10);
        for (int i = 0; i < N; i++)
            ref_step(&a, step, &ref_p[i], g[i], &ref_m[i]);
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
    check_steps(0.9, 0.1);
}

static void sgd_without_momentum_and_decay_follows_the_gradient(void **state)
{
    (void)state;
    check_steps(0.0, 0.0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_torch_sgd_over_20_steps),
        cmocka_unit_test(sgd_without_momentum_and_decay_follows_the_gradient),
        cmocka_unit_test(sgd_does_not_depend_on_threads),
        cmocka_unit_test(sgd_momentum_of_a_silent_gradient_ends_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
