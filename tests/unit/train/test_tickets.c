#include "train/tickets.h"

#include "suite.h"

#define REPLICAS 3

static int64_t take(struct tickets *t, int replica)
{
    int64_t ticket = -1;

    assert_true(tickets_take(t, replica, &ticket));
    return ticket;
}

static void a_fast_replica_gets_more_tickets_and_none_is_given_twice(void **state)
{
    struct tickets t;
    int64_t ticket;

    (void)state;
    tickets_begin(&t, REPLICAS, 2, 4);
    assert_int_equal(take(&t, 0), 6);
    assert_int_equal(take(&t, 1), 7);
    for (int i = 8; i < 12; i++) {
        assert_int_equal(take(&t, 2), i);
        tickets_return(&t, 2, false);
    }
    assert_false(tickets_take(&t, 2, &ticket));
    assert_false(tickets_are_over(&t));
    tickets_return(&t, 1, false);
    tickets_return(&t, 0, false);
    assert_true(tickets_are_over(&t));
}

static void a_step_is_done_when_all_of_its_tickets_have_ended(void **state)
{
    struct tickets t;

    (void)state;
    tickets_begin(&t, REPLICAS, 2, 9);
    (void)take(&t, 0);
    for (int i = 0; i < 2 * REPLICAS; i++) {
        (void)take(&t, 1);
        tickets_return(&t, 1, false);
    }
    assert_int_equal(tickets_steps_done(&t), 2);
    tickets_return(&t, 0, false);
    assert_int_equal(tickets_steps_done(&t), 4);
}

static void staleness_counts_what_has_ended_meanwhile(void **state)
{
    struct tickets t;

    (void)state;
    tickets_begin(&t, REPLICAS, 0, 9);
    (void)take(&t, 0);
    for (int i = 0; i < 4; i++) {
        (void)take(&t, 1);
        tickets_return(&t, 1, false);
    }
    tickets_return(&t, 0, true);
    assert_int_equal(t.staleness_max, 4);
    assert_int_equal(t.n_skipped, 1);
    assert_true(tickets_mean_staleness(&t) == 4.0 / 5);
}

static void a_round_that_is_closed_ends_with_the_step_that_was_begun(void **state)
{
    struct tickets t;
    int64_t ticket;

    (void)state;
    tickets_begin(&t, REPLICAS, 0, 50);
    for (int i = 0; i <= REPLICAS; i++) {
        (void)take(&t, 0);
        tickets_return(&t, 0, false);
    }
    tickets_close(&t);
    assert_int_equal(take(&t, 1), REPLICAS + 1);
    assert_int_equal(take(&t, 2), REPLICAS + 2);
    assert_false(tickets_take(&t, 0, &ticket));
    tickets_close(&t);
    tickets_return(&t, 1, false);
    tickets_return(&t, 2, false);
    assert_true(tickets_are_over(&t));
    assert_int_equal(tickets_steps_done(&t), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_replica_gets_more_tickets_and_none_is_given_twice),
        cmocka_unit_test(a_step_is_done_when_all_of_its_tickets_have_ended),
        cmocka_unit_test(staleness_counts_what_has_ended_meanwhile),
        cmocka_unit_test(a_round_that_is_closed_ends_with_the_step_that_was_begun),
    };

    return cmocka_run_group_tests_name("tickets", tests, NULL, NULL);
}
