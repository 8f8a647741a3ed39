#include "train/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* `n` steps, each of which took `elapsed_ms`. */
static void add(struct pace *p, int n, double elapsed_ms, double first_ms, double second_ms)
{
    for (int i = 0; i < n; i++)
        pace_add(p, elapsed_ms, (double[PACE_TIMES]){first_ms, second_ms});
}

static void pace_of_no_step_is_zero(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    assert_true(pace_of(&p, 0).median_ms == 0 && pace_of(&p, 1).mad_ms == 0);
}

static void pace_counts_the_first_steps_only_until_there_are_others(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    add(&p, PACE_WARM_STEPS, 100, 90, 30);
    assert_true(pace_of(&p, 0).median_ms == 90 && pace_of(&p, 1).median_ms == 30);
    add(&p, 1, 100, 10, 5);
    assert_true(pace_of(&p, 0).median_ms == 10 && pace_of(&p, 1).median_ms == 5);
    assert_int_equal(p.n_samples, 0);
}

static void pace_of_long_steps_has_a_sample_per_step(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    add(&p, PACE_WARM_STEPS, 5000, 1, 1);
    assert_int_equal(p.n_samples, 0);
    add(&p, 3, PACE_SAMPLE_MS, 40, 20);
    assert_int_equal(p.n_samples, 3);
    assert_true(pace_of(&p, 0).median_ms == 40 && pace_of(&p, 1).median_ms == 20);
}

/* Every third step is stopped by a quota: no single step takes the mean. */
static void pace_of_short_steps_is_the_mean_over_many(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    add(&p, PACE_WARM_STEPS, 10, 10, 10);
    for (int i = 0; i < 300; i++)
        add(&p, 1, 25, i % 3 == 0 ? 70 : 10, 10);
    assert_in_range((int)p.n_samples, 14, 15);
    assert_true(pace_of(&p, 0).median_ms > 27 && pace_of(&p, 0).median_ms < 34);
    assert_true(pace_of(&p, 1).median_ms == 10 && pace_of(&p, 1).mad_ms == 0);
}

static void pace_ignores_a_few_outliers(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    add(&p, PACE_WARM_STEPS, 1000, 1, 1);
    for (int i = 0; i < PACE_WINDOW; i++)
        add(&p, 1, 1000, i % 5 == 4 ? 1e6 : 100 + i % 3, 1);
    assert_true(pace_of(&p, 0).median_ms >= 100 && pace_of(&p, 0).median_ms <= 102);
    assert_true(pace_of(&p, 0).mad_ms <= 1);
}

static void pace_forgets_what_is_older_than_its_window(void **state)
{
    struct pace p = {.n_steps = 0};

    (void)state;
    add(&p, PACE_WARM_STEPS + 100, 1000, 10, 1);
    add(&p, PACE_WINDOW / 2 + 1, 1000, 30, 1);
    assert_true(pace_of(&p, 0).median_ms == 30);
    add(&p, PACE_WINDOW, 1000, 30, 1);
    assert_true(pace_of(&p, 0).median_ms == 30 && pace_of(&p, 0).mad_ms == 0);
    assert_int_equal(p.n_samples, 100 + PACE_WINDOW / 2 + 1 + PACE_WINDOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace_of_no_step_is_zero),
        cmocka_unit_test(pace_counts_the_first_steps_only_until_there_are_others),
        cmocka_unit_test(pace_of_long_steps_has_a_sample_per_step),
        cmocka_unit_test(pace_of_short_steps_is_the_mean_over_many),
        cmocka_unit_test(pace_ignores_a_few_outliers),
        cmocka_unit_test(pace_forgets_what_is_older_than_its_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
