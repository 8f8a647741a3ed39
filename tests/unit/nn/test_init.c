#include "nn/init.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/philox.h"
#include "reference.h"

#define N 100000

/* Element i by the definition, in double. */
static double ref_normal(uint64_t seed, uint32_t tensor, uint32_t i)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, words[4];
    uint32_t counter[4] = {i / 64 * 16 + i % 16, 0xffffffffu, tensor, 0};
    uint32_t pair = i / 32 % 2 * 2;
    double u, angle;

    philox(counter, key, words);
    u = (double)(((float)(words[pair] >> 1) + 0.5f) * 4.656612873e-10f);
    angle =
        ((double)(words[pair + 1] >> 30) + (double)(int32_t)(words[pair + 1] << 2) / 4294967296.0) *
        acos(0.0);
    return sqrt(-2.0 * log(u)) * (i / 16 % 2 ? sin(angle) : cos(angle));
}

static void init_normal_is_box_muller_on_philox(void **state)
{
    float *x = floats(N);
    double worst = 0.0;

    (void)state;
    init_normal(x, N, 1.0f, 0x123456789abcu, 7);
    for (uint32_t i = 0; i < N; i++)
        worst = fmax(worst, fabs(x[i] - ref_normal(0x123456789abcu, 7, i)));
    print_message("worst error %.2g\n", worst);
    assert_true(worst < 2e-6);
    free(x);
}

static void init_normal_has_the_moments_of_a_normal(void **state)
{
    float *x = floats(N);
    double sum = 0.0, square = 0.0, fourth = 0.0, beyond = 0.0;

    (void)state;
    init_normal(x, N, 0.02f, 1, 0);
    for (int i = 0; i < N; i++) {
        double z = x[i] / 0.02;

        sum += z / N;
        square += z * z / N;
        fourth += z * z * z * z / N;
        beyond += fabs(z) > 1.959964 ? 1.0 / N : 0.0;
    }
    assert_true(fabs(sum) < 0.012);
    assert_true(fabs(square - 1.0) < 0.02);
    assert_true(fabs(fourth - 3.0) < 0.15);
    assert_true(fabs(beyond - 0.05) < 0.003);
    free(x);
}

/* A tensor in a smaller area has the same elements, and another tensor has others. */
static void init_normal_depends_on_seed_tensor_and_element_only(void **state)
{
    float a[200], b[131], other[200];

    (void)state;
    init_normal(a, 200, 1.0f, 1, 3);
    init_normal(b, 131, 1.0f, 1, 3);
    assert_memory_equal(a, b, sizeof b);
    init_normal(other, 200, 1.0f, 1, 4);
    for (int i = 0; i < 200; i++)
        assert_true(a[i] != other[i]);
    init_normal(other, 200, 1.0f, 2, 3);
    for (int i = 0; i < 200; i++)
        assert_true(a[i] != other[i]);
}

static void init_constant_fills(void **state)
{
    float x[5] = {0};

    (void)state;
    init_constant(x, 4, 1.0f);
    assert_true(x[0] == 1.0f && x[3] == 1.0f && x[4] == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_normal_is_box_muller_on_philox),
        cmocka_unit_test(init_normal_has_the_moments_of_a_normal),
        cmocka_unit_test(init_normal_depends_on_seed_tensor_and_element_only),
        cmocka_unit_test(init_constant_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
