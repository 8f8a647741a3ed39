#include "train/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct spec spec_of(enum spec_schedule schedule)
{
    struct spec s = {0};

    s.training.learning_rate = 2.0;
    s.training.warmup_ratio = 0.1;
    s.training.schedule = schedule;
    return s;
}

static void optimizer_rate_rises_to_the_full_rate_and_falls_to_zero(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    assert_true(optimizer_rate(&s, 0, 100) == 0);
    assert_true(optimizer_rate(&s, 5, 100) == 1.0);
    assert_true(optimizer_rate(&s, 10, 100) == 2.0);
    assert_true(fabs(optimizer_rate(&s, 55, 100) - 1.0) < 1e-12);
    assert_true(optimizer_rate(&s, 100, 100) == 0);
}

static void optimizer_rate_stays_when_constant(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_CONSTANT);

    (void)state;
    assert_true(optimizer_rate(&s, 5, 100) == 1.0);
    assert_true(optimizer_rate(&s, 10, 100) == 2.0);
    assert_true(optimizer_rate(&s, 99, 100) == 2.0);
}

/* As transformers' Trainer: ceil(0.1 * 15) steps. */
static void optimizer_rounds_the_warm_up_up(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    assert_true(optimizer_rate(&s, 0, 15) == 0);
    assert_true(optimizer_rate(&s, 1, 15) == 1.0);
    assert_true(optimizer_rate(&s, 2, 15) == 2.0);
    assert_true(optimizer_rate(&s, 0, 3) == 0);
    assert_true(optimizer_rate(&s, 1, 3) == 2.0);
}

static void optimizer_rate_is_full_at_once_without_a_warm_up(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    s.training.warmup_ratio = 0;
    assert_true(optimizer_rate(&s, 0, 3) == 2.0);
}

static void optimizer_scale_brings_a_large_norm_down_and_leaves_a_small_one(void **state)
{
    (void)state;
    assert_true(fabs(optimizer_scale(16.0, 1.0) - 0.25) < 1e-6);
    assert_true(optimizer_scale(0.25, 1.0) == 1.0);
    assert_true(optimizer_scale(1e30, 0) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizer_rate_rises_to_the_full_rate_and_falls_to_zero),
        cmocka_unit_test(optimizer_rate_stays_when_constant),
        cmocka_unit_test(optimizer_rounds_the_warm_up_up),
        cmocka_unit_test(optimizer_rate_is_full_at_once_without_a_warm_up),
        cmocka_unit_test(optimizer_scale_brings_a_large_norm_down_and_leaves_a_small_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
