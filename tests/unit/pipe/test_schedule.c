#include "pipe/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define STAGES_MAX 9
#define MICRO_MAX  20

static void each_stage(void (*check)(int stage, int n_stages, int n_micro))
{
    for (int n_stages = 1; n_stages <= STAGES_MAX; n_stages++)
        for (int stage = 0; stage < n_stages; stage++)
            for (int n_micro = 1; n_micro <= MICRO_MAX; n_micro++)
                check(stage, n_stages, n_micro);
}

static void check_complete(int stage, int n_stages, int n_micro)
{
    int next_forward = 0;
    int next_backward = 0;

    for (int i = 0; i < schedule_length(n_micro); i++) {
        struct schedule_op op = schedule_op(stage, n_stages, n_micro, i);

        if (op.is_backward)
            assert_int_equal(op.microbatch, next_backward++);
        else
            assert_int_equal(op.microbatch, next_forward++);
        assert_true(next_backward <= next_forward);
        assert_true(next_forward - next_backward <= schedule_in_flight(stage, n_stages, n_micro));
    }
    assert_int_equal(next_forward, n_micro);
    assert_int_equal(next_backward, n_micro);
}

static void schedule_runs_every_microbatch_once_in_order_within_its_memory(void **state)
{
    (void)state;
    each_stage(check_complete);
}

/* Run all stages against each other with messages of unlimited number: nobody may get stuck. */
static void check_no_deadlock(int stage, int n_stages, int n_micro)
{
    int at[STAGES_MAX] = {0};
    int forwards[STAGES_MAX] = {0};
    int backwards[STAGES_MAX] = {0};
    bool moved = true;

    if (stage != 0)
        return;
    while (moved) {
        moved = false;
        for (int s = 0; s < n_stages; s++) {
            struct schedule_op op;

            if (at[s] == schedule_length(n_micro))
                continue;
            op = schedule_op(s, n_stages, n_micro, at[s]);
            if (!op.is_backward && s > 0 && forwards[s - 1] <= op.microbatch)
                continue;
            if (op.is_backward && s < n_stages - 1 && backwards[s + 1] <= op.microbatch)
                continue;
            forwards[s] += !op.is_backward;
            backwards[s] += op.is_backward;
            at[s]++;
            moved = true;
        }
    }
    for (int s = 0; s < n_stages; s++)
        assert_int_equal(at[s], schedule_length(n_micro));
}

static void schedule_never_waits_for_itself(void **state)
{
    (void)state;
    each_stage(check_no_deadlock);
}

static void schedule_of_the_last_stage_alternates(void **state)
{
    (void)state;
    for (int i = 0; i < schedule_length(4); i++) {
        struct schedule_op op = schedule_op(2, 3, 4, i);

        assert_int_equal(op.is_backward, i % 2);
        assert_int_equal(op.microbatch, i / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_runs_every_microbatch_once_in_order_within_its_memory),
        cmocka_unit_test(schedule_never_waits_for_itself),
        cmocka_unit_test(schedule_of_the_last_stage_alternates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
