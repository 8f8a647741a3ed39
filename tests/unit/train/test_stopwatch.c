#include "train/stopwatch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

static void a_stage_under_a_quota_takes_its_cpu_time_over_the_quota(void **state)
{
    (void)state;
    assert_true(stopwatch_ms(10, 9, 250) == 36);
}

static void a_stage_that_others_slow_down_takes_its_wall_time(void **state)
{
    (void)state;
    assert_true(stopwatch_ms(10, 4, 1000) == 10);
}

static void two_threads_do_not_count_twice_where_two_cores_are_allowed(void **state)
{
    (void)state;
    assert_true(stopwatch_ms(10, 19, 2000) == 10);
}

static void one_thread_is_busy_for_its_cpu_time_and_several_until_the_last_is_done(void **state)
{
    const struct stopwatch w = {.wall_ns = 30000000, .cpu_ns = 20000000};

    (void)state;
    assert_true(stopwatch_busy_ms(&w, 1) == 20);
    assert_true(stopwatch_busy_ms(&w, 2) == 30);
}

static void sleep_between_a_stop_and_a_start_does_not_count(void **state)
{
    struct timespec pause = {.tv_nsec = 20000000};
    struct stopwatch w = {0};
    int64_t from_ns = clock_now_ns();

    (void)state;
    stopwatch_start(&w);
    stopwatch_stop(&w);
    (void)nanosleep(&pause, NULL);
    stopwatch_start(&w);
    stopwatch_stop(&w);
    assert_true(w.wall_ns >= 0 && w.wall_ns <= clock_now_ns() - from_ns - pause.tv_nsec);
    assert_true(w.cpu_ns >= 0);
}

static void sleep_is_wall_time_and_no_cpu_time(void **state)
{
    struct timespec pause = {.tv_nsec = 20000000};
    struct stopwatch w = {0};

    (void)state;
    stopwatch_start(&w);
    (void)nanosleep(&pause, NULL);
    stopwatch_stop(&w);
    assert_true(w.wall_ns >= pause.tv_nsec);
    assert_true(w.cpu_ns < w.wall_ns);
}

static void the_best_stretch_is_the_fastest_that_was_long_enough(void **state)
{
    static const double ms[] = {600, 600, 600, 300, 450, 780, 30, 30};
    static const double best[] = {0, 0, 600, 600, 600, 510, 510, 510};
    struct stretch s = {0};

    (void)state;
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        stretch_add(&s, ms[i]);
        assert_true(s.best_ms == best[i]);
    }
}

static void a_step_longer_than_a_stretch_is_one_by_itself(void **state)
{
    struct stretch s = {0};

    (void)state;
    stretch_add(&s, 3000);
    stretch_add(&s, 2000);
    stretch_add(&s, 2500);
    assert_true(s.best_ms == 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_under_a_quota_takes_its_cpu_time_over_the_quota),
        cmocka_unit_test(a_stage_that_others_slow_down_takes_its_wall_time),
        cmocka_unit_test(two_threads_do_not_count_twice_where_two_cores_are_allowed),
        cmocka_unit_test(one_thread_is_busy_for_its_cpu_time_and_several_until_the_last_is_done),
        cmocka_unit_test(sleep_between_a_stop_and_a_start_does_not_count),
        cmocka_unit_test(sleep_is_wall_time_and_no_cpu_time),
        cmocka_unit_test(the_best_stretch_is_the_fastest_that_was_long_enough),
        cmocka_unit_test(a_step_longer_than_a_stretch_is_one_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
