#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void clock_writes_and_reads_the_same_second(void **state)
{
    char text[CLOCK_TEXT_BYTES];
    int64_t wall_ms = 0;

    (void)state;
    clock_format(1795248000000 + 999, text);
    assert_string_equal(text, "2026-11-21T08:00:00Z");
    assert_int_equal(clock_parse(text, &wall_ms, NULL), ERR_OK);
    assert_true(wall_ms == 1795248000000);
}

static void clock_reads_fractions_of_any_length(void **state)
{
    int64_t wall_ms = 0;

    (void)state;
    assert_int_equal(clock_parse("1970-01-01T00:00:01.5Z", &wall_ms, NULL), ERR_OK);
    assert_true(wall_ms == 1500);
    assert_int_equal(clock_parse("1970-01-01T00:00:01.123456789Z", &wall_ms, NULL), ERR_OK);
    assert_true(wall_ms == 1123);
}

static void clock_refuses_what_is_not_utc(void **state)
{
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "2026-11-21",
                                      "2026-11-21T08:00:00",
                                      "2026-11-21T08:00:00+01:00",
                                      "2026-11-21T08:00:00Zx",
                                      "2026-11-21T08:00:00.1e9Z",
                                      "2026-13-21T08:00:00Z"};
    int64_t wall_ms = 42;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(clock_parse(bad[i], &wall_ms, NULL), ERR_INVALID);
    assert_true(wall_ms == 42);
}

static void clock_now_does_not_go_back(void **state)
{
    int64_t before_ns = clock_now_ns();
    int64_t before_ms = clock_now_ms();

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_true(clock_now_ns() >= before_ns && clock_now_ms() >= before_ms);
    assert_true(clock_wall_ms() > 1700000000000);
}

static void backoff_doubles_up_to_its_limit(void **state)
{
    static const int64_t want_ms[] = {0, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};

    (void)state;
    for (int i = 0; i < 9; i++)
        assert_int_equal(backoff_ms(i, 800, 30000), want_ms[i]);
    assert_int_equal(backoff_ms(1000000000, 800, 30000), 30000);
}

static void backoff_never_exceeds_a_limit_below_the_first_pause(void **state)
{
    (void)state;
    assert_int_equal(backoff_ms(1, 800, 500), 500);
}

/* --- buckets --- */

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
        cmocka_unit_test(clock_writes_and_reads_the_same_second),
        cmocka_unit_test(clock_reads_fractions_of_any_length),
        cmocka_unit_test(clock_refuses_what_is_not_utc),
        cmocka_unit_test(clock_now_does_not_go_back),
        cmocka_unit_test(backoff_doubles_up_to_its_limit),
        cmocka_unit_test(backoff_never_exceeds_a_limit_below_the_first_pause),
        cmocka_unit_test(bucket_gives_its_burst_and_then_one_every_so_often),
        cmocka_unit_test(bucket_does_not_save_up_more_than_its_burst),
        cmocka_unit_test(bucket_keeps_the_long_run_rate),
        cmocka_unit_test(bucket_survives_a_clock_that_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
