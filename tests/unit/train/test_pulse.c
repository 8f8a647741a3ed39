#include "train/pulse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static atomic_int n_stalls;
static _Atomic int64_t still_ms;

static void note(void *ctx, int64_t ms)
{
    (void)ctx;
    still_ms = ms;
    n_stalls++;
}

static int set_up(void **state)
{
    (void)state;
    n_stalls = 0;
    return 0;
}

static void pulse_tells_once_of_a_trainer_that_hangs(void **state)
{
    struct pulse p = {.beats = 7};

    (void)state;
    assert_int_equal(pulse_start(&p, 40, note, NULL, NULL), ERR_OK);
    while (n_stalls == 0)
        (void)usleep(1000);
    assert_int_equal(still_ms, 40);
    (void)usleep(100000);
    pulse_stop(&p);
    assert_int_equal(n_stalls, 1);
}

static void pulse_counts_from_the_last_beat(void **state)
{
    struct pulse p = {.beats = 0};

    (void)state;
    assert_int_equal(pulse_tick(&p, 10), 10);
    assert_int_equal(pulse_tick(&p, 10), 20);
    pulse_beat(&p);
    assert_int_equal(pulse_tick(&p, 10), 0);
    assert_int_equal(pulse_tick(&p, 10), 10);
}

static void pulse_stops_without_waiting_for_its_tick(void **state)
{
    struct pulse p = {.beats = 0};

    (void)state;
    assert_int_equal(pulse_start(&p, 20 * 3600000, note, NULL, NULL), ERR_OK);
    pulse_stop(&p); /* else this takes an hour */
    assert_int_equal(n_stalls, 0);
}

static void pulse_watches_again_after_it_was_stopped(void **state)
{
    struct pulse p = {.beats = 0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        n_stalls = 0;
        assert_int_equal(pulse_start(&p, 20, note, NULL, NULL), ERR_OK);
        while (n_stalls == 0)
            (void)usleep(1000);
        pulse_stop(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pulse_tells_once_of_a_trainer_that_hangs, set_up),
        cmocka_unit_test_setup(pulse_counts_from_the_last_beat, set_up),
        cmocka_unit_test_setup(pulse_stops_without_waiting_for_its_tick, set_up),
        cmocka_unit_test_setup(pulse_watches_again_after_it_was_stopped, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
