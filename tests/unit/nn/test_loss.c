#include "nn/loss.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reference.h"

#define B 5
#define N 3

static const int32_t labels[B] = {0, 2, 1, 1, 0};

static double loss_of(const double *row, int label)
{
    double sum = 0.0;

    for (int i = 0; i < N; i++)
        sum += exp(row[i]);
    return log(sum) - row[label];
}

static void loss_is_the_negative_log_likelihood(void **state)
{
    float *logits = filled(B * N, 1), losses[B];
    double *wide = widen(logits, B * N);

    (void)state;
    loss_cross_entropy(losses, NULL, logits, labels, B, N, 1.0f);
    for (int b = 0; b < B; b++)
        assert_true(fabs(losses[b] - loss_of(wide + b * N, labels[b])) < 1e-6);
    free(logits);
    free(wide);
}

static void loss_gradient_is_the_slope_times_the_factor(void **state)
{
    float *logits = filled(B * N, 1), losses[B];
    double *wide = widen(logits, B * N);

    (void)state;
    loss_cross_entropy(losses, logits, logits, labels, B, N, 0.25f);
    for (int i = 0; i < B * N; i++) {
        double at = wide[i], high, low;

        wide[i] = at + 1e-6;
        high = loss_of(wide + i / N * N, labels[i / N]);
        wide[i] = at - 1e-6;
        low = loss_of(wide + i / N * N, labels[i / N]);
        wide[i] = at;
        assert_true(fabs(logits[i] - 0.25 * (high - low) / 2e-6) < 1e-7);
    }
    free(logits);
    free(wide);
}

static void loss_stays_finite_with_huge_logits(void **state)
{
    float logits[N] = {3e38f, -3e38f, 0.0f}, losses[1], d[N];

    (void)state;
    loss_cross_entropy(losses, d, logits, &labels[0], 1, N, 1.0f);
    assert_true(losses[0] == 0.0f && d[0] == 0.0f && d[1] == 0.0f);
}

/* Logits spread over 40, so that some shares are far below the others. */
static void loss_vocabulary_is_the_cross_entropy_and_the_prediction(void **state)
{
    enum { ROWS = 7, WORDS = 4001 };
    float *logits = filled(ROWS * WORDS, 1), *want_d = floats(ROWS * WORDS);
    float losses[ROWS], want[ROWS];
    int32_t words[ROWS], predictions[ROWS], want_p[ROWS];
    double *wide_d;

    (void)state;
    for (int b = 0; b < ROWS; b++)
        words[b] = b * 571 % WORDS;
    for (int i = 0; i < ROWS * WORDS; i++)
        logits[i] *= 20.0f;
    loss_cross_entropy(want, want_d, logits, words, ROWS, WORDS, 0.25f);
    loss_predict(want_p, logits, ROWS, WORDS);
    loss_vocabulary(losses, predictions, logits, words, ROWS, WORDS, 0.25f);
    wide_d = widen(want_d, ROWS * WORDS);
    for (int b = 0; b < ROWS; b++)
        assert_true(fabs((double)losses[b] - (double)want[b]) < 2e-6);
    assert_memory_equal(predictions, want_p, sizeof predictions);
    assert_true(difference(logits, wide_d, ROWS * WORDS) < 1e-6);
    free(logits);
    free(want_d);
    free(wide_d);
}

static void loss_squared_is_the_square_and_its_slope(void **state)
{
    float *outs = filled(B, 1), *targets = filled(B, 2), losses[B], douts[B], again[B];

    (void)state;
    loss_squared(losses, douts, outs, targets, B, 0.25f);
    for (int b = 0; b < B; b++) {
        double high = outs[b] + 1e-6 - targets[b], low = outs[b] - 1e-6 - targets[b];
        double error = (double)outs[b] - targets[b];

        assert_true(fabs(losses[b] - error * error) < 1e-7);
        assert_true(fabs(douts[b] - 0.25 * (high * high - low * low) / 2e-6) < 1e-7);
    }
    loss_squared(again, NULL, outs, targets, B, 0.25f);
    assert_memory_equal(again, losses, sizeof losses);
    loss_squared(losses, outs, outs, targets, B, 0.25f);
    assert_memory_equal(outs, douts, sizeof douts);
    free(outs);
    free(targets);
}

static void loss_predict_takes_the_first_of_equals(void **state)
{
    float logits[] = {1, 2, 2, 0, 0, 0, -1, -2, 3};
    int32_t predictions[3];

    (void)state;
    loss_predict(predictions, logits, 3, N);
    assert_memory_equal(predictions, ((int32_t[]){1, 0, 2}), sizeof predictions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_is_the_negative_log_likelihood),
        cmocka_unit_test(loss_gradient_is_the_slope_times_the_factor),
        cmocka_unit_test(loss_stays_finite_with_huge_logits),
        cmocka_unit_test(loss_vocabulary_is_the_cross_entropy_and_the_prediction),
        cmocka_unit_test(loss_squared_is_the_square_and_its_slope),
        cmocka_unit_test(loss_predict_takes_the_first_of_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
