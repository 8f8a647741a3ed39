#include "nn/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reference.h"

#define C 100
#define N 100000

/* --- Philox --- */

/* The known answers that Random123 publishes for philox4x32-10. */
static void check(const uint32_t counter[4], const uint32_t key[2], const uint32_t want[4])
{
    uint32_t got[4];

    philox(counter, key, got);
    assert_memory_equal(got, want, sizeof got);
}

static void philox_answers_the_published_vectors(void **state)
{
    (void)state;
    check((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0},
          (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check((uint32_t[]){0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
          (uint32_t[]){0xffffffff, 0xffffffff},
          (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
          (uint32_t[]){0xa4093822, 0x299f31d0},
          (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/* --- dropout --- */

static const struct dropout drop = {.seed = 5, .step = 9, .unit = 4, .rate = 0.3f};

static float *ones(size_t n)
{
    float *x = floats(n);

    for (size_t i = 0; i < n; i++)
        x[i] = 1.0f;
    return x;
}

static float *masks(const int32_t *starts, const uint32_t *samples, int n_seqs,
                    const struct dropout *d)
{
    struct packed batch = {n_seqs, starts, samples};
    float *x = ones((size_t)packed_tokens(&batch) * C);

    dropout_apply(x, x, &batch, C, d);
    return x;
}

static void dropout_depends_on_the_sample_and_not_on_the_batch(void **state)
{
    float *two = masks((int32_t[]){0, 4, 9}, (uint32_t[]){11, 22}, 2, &drop);
    float *swapped = masks((int32_t[]){0, 5, 9}, (uint32_t[]){22, 11}, 2, &drop);
    float *alone = masks((int32_t[]){0, 5}, (uint32_t[]){22}, 1, &drop);

    (void)state;
    assert_memory_equal(two + 4 * C, swapped, 5 * C * sizeof(float));
    assert_memory_equal(two + 4 * C, alone, 5 * C * sizeof(float));
    assert_memory_equal(two, swapped + 5 * C, 4 * C * sizeof(float));
    free(two);
    free(swapped);
    free(alone);
}

static void assert_other(struct dropout d, uint32_t sample)
{
    float *a = masks((int32_t[]){0, 5}, (uint32_t[]){22}, 1, &drop);
    float *b = masks((int32_t[]){0, 5}, &sample, 1, &d);
    int differing = 0;

    for (int i = 0; i < 5 * C; i++)
        differing += (a[i] != 0.0f) != (b[i] != 0.0f);
    assert_in_range(differing, 5 * C * 30 / 100, 5 * C * 54 / 100); /* 2 * 0.3 * 0.7 = 42% */
    free(a);
    free(b);
}

static void dropout_differs_with_seed_step_unit_and_sample(void **state)
{
    (void)state;
    assert_other((struct dropout){5 + (1ull << 40), 9, 4, 0.3f}, 22);
    assert_other((struct dropout){6, 9, 4, 0.3f}, 22);
    assert_other((struct dropout){5, 10, 4, 0.3f}, 22);
    assert_other((struct dropout){5, 9, 5, 0.3f}, 22);
    assert_other(drop, 23);
}

static void dropout_drops_the_rate_and_keeps_the_mean(void **state)
{
    int32_t starts[] = {0, 2000};
    float *x = masks(starts, (uint32_t[]){1}, 1, &drop);
    double sum = 0.0, dropped = 0.0;

    (void)state;
    for (int i = 0; i < 2000 * C; i++) {
        sum += x[i];
        dropped += x[i] == 0.0f;
    }
    assert_true(fabs(dropped / (2000 * C) - 0.3) < 0.005);
    assert_true(fabs(sum / (2000 * C) - 1.0) < 0.01);
    free(x);
}

static void dropout_at_rate_zero_changes_nothing(void **state)
{
    struct dropout none = drop;
    struct packed batch = {1, (int32_t[]){0, 5}, (uint32_t[]){1}};
    float *x = filled(5 * C, 1), *y = floats(5 * C);

    (void)state;
    none.rate = 0.0f;
    dropout_apply(y, x, &batch, C, &none);
    assert_memory_equal(x, y, 5 * C * sizeof(float));
    assert_int_equal(dropout_token(&none, &batch, 2).threshold, 0);
    free(x);
    free(y);
}

static void packed_finds_the_sequence_of_every_token(void **state)
{
    int32_t starts[] = {0, 1, 2, 7, 8, 30};
    struct packed batch = {.n_seqs = 5, .starts = starts};

    (void)state;
    assert_int_equal(packed_tokens(&batch), 30);
    assert_int_equal(packed_longest(&batch), 22);
    for (int s = 0; s < 5; s++)
        for (int t = starts[s]; t < starts[s + 1]; t++)
            assert_int_equal(packed_seq_of(&batch, t), s);
}

/* --- the random start --- */

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
        cmocka_unit_test(philox_answers_the_published_vectors),
        cmocka_unit_test(dropout_depends_on_the_sample_and_not_on_the_batch),
        cmocka_unit_test(dropout_differs_with_seed_step_unit_and_sample),
        cmocka_unit_test(dropout_drops_the_rate_and_keeps_the_mean),
        cmocka_unit_test(dropout_at_rate_zero_changes_nothing),
        cmocka_unit_test(packed_finds_the_sequence_of_every_token),
        cmocka_unit_test(init_normal_is_box_muller_on_philox),
        cmocka_unit_test(init_normal_has_the_moments_of_a_normal),
        cmocka_unit_test(init_normal_depends_on_seed_tensor_and_element_only),
        cmocka_unit_test(init_constant_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
