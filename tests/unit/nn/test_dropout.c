#include "nn/dropout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reference.h"

#define C 100

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropout_depends_on_the_sample_and_not_on_the_batch),
        cmocka_unit_test(dropout_differs_with_seed_step_unit_and_sample),
        cmocka_unit_test(dropout_drops_the_rate_and_keeps_the_mean),
        cmocka_unit_test(dropout_at_rate_zero_changes_nothing),
        cmocka_unit_test(packed_finds_the_sequence_of_every_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
