#include "wire/bf16.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static float through(float x)
{
    uint16_t packed;
    float back;

    bf16_pack(&packed, &x, 1);
    bf16_unpack(&back, &packed, 1);
    return back;
}

static void bf16_keeps_every_bfloat16_as_it_is(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= UINT16_MAX; i++) {
        uint16_t before = (uint16_t)i, after;
        float x;

        bf16_unpack(&x, &before, 1);
        bf16_pack(&after, &x, 1);
        if (isnan(x))
            assert_true(isnan(through(x)));
        else
            assert_int_equal(after, before);
    }
}

static void bf16_rounds_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    assert_true(through(1.0f + 0x1p-9f) == 1.0f);             /* below half */
    assert_true(through(1.0f + 0x1p-8f) == 1.0f);             /* half: to even */
    assert_true(through(1.0f + 0x3p-8f) == 1.0f + 0x1p-6f);   /* half: to even */
    assert_true(through(1.0f + 0x1.1p-8f) == 1.0f + 0x1p-7f); /* above half */
    assert_true(through(-1.0f - 0x1.1p-8f) == -1.0f - 0x1p-7f);
    assert_true(isinf(through(FLT_MAX)) && isinf(through(-INFINITY)));
}

static void bf16_is_off_by_at_most_a_256th(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        float x;

        seed = seed * 1664525u + 1013904223u;
        memcpy(&x, &seed, sizeof x);
        if (isnormal(x) && fabsf(x) < 0x1p127f)
            assert_true(fabsf(through(x) - x) <= fabsf(x) * 0x1p-8f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_keeps_every_bfloat16_as_it_is),
        cmocka_unit_test(bf16_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(bf16_is_off_by_at_most_a_256th),
    };
    return cmocka_run_group_tests_name("bf16", tests, NULL, NULL);
}
