#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void bucket_gives_its_burst_and_then_one_every_so_often(void **state)
{
    struct bucket b = {.burst = 3, .refill_ms = 100};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(bucket_take(&b, 1000));
    assert_false(bucket_take(&b, 1000));
    assert_int_equal(bucket_wait_ms(&b, 1000), 100);
    assert_int_equal(bucket_wait_ms(&b, 1060), 40);
    assert_false(bucket_take(&b, 1099));
    assert_true(bucket_take(&b, 1100));
    assert_false(bucket_take(&b, 1199));
    assert_true(bucket_take(&b, 1200));
}

static void bucket_does_not_save_up_more_than_its_burst(void **state)
{
    struct bucket b = {.burst = 2, .refill_ms = 100};

    (void)state;
    assert_true(bucket_take(&b, 1000000));
    assert_true(bucket_take(&b, 1000000));
    assert_false(bucket_take(&b, 1000000));
    assert_true(bucket_take(&b, 1000100));
}

static void bucket_keeps_the_long_run_rate(void **state)
{
    struct bucket b = {.burst = 5, .refill_ms = 20};
    int n = 0;

    (void)state;
    for (int64_t now_ms = 0; now_ms < 10000; now_ms += 7)
        n += bucket_take(&b, now_ms);
    assert_in_range(n, 500, 505);
}

static void bucket_survives_a_clock_that_stands(void **state)
{
    struct bucket b = {.burst = 1, .refill_ms = 100};

    (void)state;
    assert_true(bucket_take(&b, 5000));
    assert_false(bucket_take(&b, 5000));
    assert_false(bucket_take(&b, 5000));
    assert_true(bucket_take(&b, 5100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_gives_its_burst_and_then_one_every_so_often),
        cmocka_unit_test(bucket_does_not_save_up_more_than_its_burst),
        cmocka_unit_test(bucket_keeps_the_long_run_rate),
        cmocka_unit_test(bucket_survives_a_clock_that_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
