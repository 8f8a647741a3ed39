#include "nn/squares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "reference.h"

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
        cmocka_unit_test(squares_sum_adds_in_the_documented_order),
        cmocka_unit_test(squares_sum_does_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
