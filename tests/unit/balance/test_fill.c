#include "balance/fill.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static double share(int cpu_milli, double balanced_ms)
{
    struct node n = {.cpu_milli = cpu_milli};

    return fill_share(&n, balanced_ms, 8);
}

static void fill_of_whole_cores_is_as_slow_as_the_rest(void **state)
{
    (void)state;
    assert_true(share(1000, 50) == 1);
    assert_true(share(2500, 50) == 1);
    assert_true(share(0, 50) == 1); /* nobody knows */
}

static void fill_within_a_periods_quota_runs_at_the_speed_of_a_core(void **state)
{
    (void)state;
    assert_true(fabs(share(250, 8) - 0.25) < 1e-12);
    assert_true(fabs(share(750, 100) - 0.75) < 1e-12);
}

/* Forward: 100 ms of CPU of which 50 are at hand, 50 + 50 / 0.5. Backward: 50 + 150 / 0.5. */
static void fill_beyond_a_periods_quota_is_stopped_for_the_rest(void **state)
{
    (void)state;
    assert_true(fabs(share(500, 600) - (150 + 350) / 600.0) < 1e-12);
    assert_true(share(500, 1e6) > 0.999);
}

static void fill_of_one_micro_batch_is_all_there_is(void **state)
{
    struct node n = {.cpu_milli = 250};

    (void)state;
    assert_true(fill_share(&n, 8, 1) == 1);
    assert_true(fill_busy(1, 1) == 1);
}

/* The slowest stage takes M t, whatever its share. */
static void busy_and_fill_are_all_micro_batches_of_the_slowest_stage(void **state)
{
    (void)state;
    for (int m = 2; m <= 64; m *= 2)
        for (double f = 0.1; f <= 1; f += 0.1)
            assert_true(fabs((m - 1) * fill_busy(f, m) + f - m) < 1e-9);
}

static void balanced_time_is_that_of_all_nodes_together(void **state)
{
    struct node nodes[] = {{.gflops = 10}, {.gflops = 30}};
    struct partition_request r = {.nodes = nodes, .n_nodes = 2};

    (void)state;
    assert_true(fabs(fill_balanced_ms(&r, 80e6) - 2) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_of_whole_cores_is_as_slow_as_the_rest),
        cmocka_unit_test(fill_within_a_periods_quota_runs_at_the_speed_of_a_core),
        cmocka_unit_test(fill_beyond_a_periods_quota_is_stopped_for_the_rest),
        cmocka_unit_test(fill_of_one_micro_batch_is_all_there_is),
        cmocka_unit_test(busy_and_fill_are_all_micro_batches_of_the_slowest_stage),
        cmocka_unit_test(balanced_time_is_that_of_all_nodes_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
