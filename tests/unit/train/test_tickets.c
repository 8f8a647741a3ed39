#include "train/tickets.h"

#include "suite.h"

#define REPLICAS 3

static int64_t take(struct tickets *t, int replica)
{
    int64_t ticket = -1;

    assert_true(tickets_take(t, replica, 0, &ticket));
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
        tickets_return(&t, 2, 0, false);
    }
    assert_false(tickets_take(&t, 2, 0, &ticket));
    assert_false(tickets_are_over(&t));
    tickets_return(&t, 1, 0, false);
    tickets_return(&t, 0, 0, false);
    assert_true(tickets_are_over(&t));
}

static void a_step_is_done_when_as_many_tickets_have_ended(void **state)
{
    struct tickets t;

    (void)state;
    tickets_begin(&t, REPLICAS, 2, 9);
    (void)take(&t, 0);
    for (int i = 0; i < 2 * REPLICAS; i++) {
        assert_int_equal(tickets_steps_done(&t), 2 + i / REPLICAS);
        (void)take(&t, 1);
        tickets_return(&t, 1, 0, false);
    }
    assert_int_equal(tickets_steps_done(&t), 4); /* one of the first is held still */
    for (int i = 0; i < REPLICAS - 1; i++) {
        (void)take(&t, 1);
        tickets_return(&t, 1, 0, false);
    }
    tickets_return(&t, 0, 0, false);
    assert_int_equal(tickets_steps_done(&t), 5);
}

static void staleness_counts_what_has_ended_meanwhile(void **state)
{
    struct tickets t;

    (void)state;
    tickets_begin(&t, REPLICAS, 0, 9);
    (void)take(&t, 0);
    for (int i = 0; i < 4; i++) {
        (void)take(&t, 1);
        tickets_return(&t, 1, 0, false);
    }
    tickets_return(&t, 0, 0, true);
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
        tickets_return(&t, 0, 0, false);
    }
    tickets_close(&t);
    assert_int_equal(take(&t, 1), REPLICAS + 1);
    assert_int_equal(take(&t, 2), REPLICAS + 2);
    assert_false(tickets_take(&t, 0, 0, &ticket));
    tickets_close(&t);
    tickets_return(&t, 1, 0, false);
    tickets_return(&t, 2, 0, false);
    assert_true(tickets_are_over(&t));
    assert_int_equal(tickets_steps_done(&t), 2);
}

/* Two of three replicas take 10 ms for a ticket, the third one 40: all run until there is nothing
 * left for them. */
static void a_slow_replica_leaves_the_last_tickets_to_the_others(void **state)
{
    static const int64_t pace_ms[REPLICAS] = {10, 40, 10};
    int n[REPLICAS] = {0};
    bool is_over[REPLICAS] = {false};
    int64_t now_ms = 0, ended_ms = 0;
    struct tickets t;

    (void)state;
    tickets_begin(&t, REPLICAS, 0, 12);
    for (; !tickets_are_over(&t) && now_ms < 1000; now_ms++)
        for (int r = 0; r < REPLICAS; r++) {
            int64_t ticket;

            if (t.held[r].ticket >= 0 && now_ms < t.held[r].given_ms + pace_ms[r])
                continue;
            if (t.held[r].ticket >= 0) {
                tickets_return(&t, r, now_ms, false);
                ended_ms = now_ms;
            }
            if (!is_over[r])
                is_over[r] = !tickets_take(&t, r, now_ms, &ticket);
            n[r] += !is_over[r];
        }
    assert_true(tickets_are_over(&t));
    assert_int_equal(n[0] + n[1] + n[2], 12 * REPLICAS);
    assert_int_equal(n[1], 4);
    assert_int_equal(ended_ms, 160); /* and 36 tickets at 9 in 40 ms take as long */
}

/* Two of three replicas, twice as fast before, keep the tickets that they have. */
static void the_last_tickets_are_not_left_to_replicas_that_stand_still(void **state)
{
    struct tickets t;
    int64_t ticket, now_ms;

    (void)state;
    tickets_begin(&t, REPLICAS, 0, 4);
    for (int r = 0; r < REPLICAS; r++) {
        assert_true(tickets_take(&t, r, 0, &ticket));
        tickets_return(&t, r, r == 0 ? 20 : 10, false);
    }
    for (int r = 1; r < REPLICAS; r++)
        assert_true(tickets_take(&t, r, 10, &ticket));
    for (now_ms = 20; tickets_take(&t, 0, now_ms, &ticket); now_ms += 20)
        tickets_return(&t, 0, now_ms + 20, false);
    assert_int_equal(ticket, 11);
}

/* All tickets are used, whichever replica becomes slow, and whenever. */
static void tickets_are_used_up_however_paces_change(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t due_ms[REPLICAS] = {0};
        bool is_over[REPLICAS] = {false};
        struct tickets t;

        tickets_begin(&t, REPLICAS, 0, 5);
        for (int64_t now_ms = 0; now_ms < 10000 && !tickets_are_over(&t); now_ms++)
            for (int r = 0; r < REPLICAS; r++) {
                int64_t ticket;

                if (t.held[r].ticket >= 0 && now_ms >= due_ms[r])
                    tickets_return(&t, r, now_ms, false);
                if (t.held[r].ticket >= 0 || is_over[r])
                    continue;
                is_over[r] = !tickets_take(&t, r, now_ms, &ticket);
                random = random * 1664525u + 1013904223u;
                due_ms[r] = now_ms + (random >> 16) % 40;
            }
        assert_true(tickets_are_over(&t));
    }
}

/* Whatever tickets take, none is more stale, and all are used: with the least bound one after the
 * other. */
static void staleness_stays_within_a_bound(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int most = 1; most <= 12; most++) {
        int64_t due_ms[REPLICAS] = {0};
        bool is_over[REPLICAS] = {false};
        struct tickets t;

        tickets_begin(&t, REPLICAS, 0, 50);
        for (int64_t now_ms = 0; now_ms < 100000 && !tickets_are_over(&t); now_ms++)
            for (int r = 0; r < REPLICAS; r++) {
                int64_t ticket;

                if (t.held[r].ticket >= 0 && now_ms >= due_ms[r])
                    tickets_return(&t, r, now_ms, false);
                if (t.held[r].ticket >= 0 || is_over[r] || tickets_must_wait(&t, r, most))
                    continue;
                is_over[r] = !tickets_take(&t, r, now_ms, &ticket);
                random = random * 1664525u + 1013904223u;
                due_ms[r] = now_ms + (random >> 16) % (r == 0 ? 200 : 20);
            }
        assert_true(tickets_are_over(&t));
        assert_in_range(t.staleness_max, 1, most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_replica_gets_more_tickets_and_none_is_given_twice),
        cmocka_unit_test(a_step_is_done_when_as_many_tickets_have_ended),
        cmocka_unit_test(staleness_counts_what_has_ended_meanwhile),
        cmocka_unit_test(staleness_stays_within_a_bound),
        cmocka_unit_test(a_round_that_is_closed_ends_with_the_step_that_was_begun),
        cmocka_unit_test(tickets_are_used_up_however_paces_change),
        cmocka_unit_test(a_slow_replica_leaves_the_last_tickets_to_the_others),
        cmocka_unit_test(the_last_tickets_are_not_left_to_replicas_that_stand_still),
    };

    return cmocka_run_group_tests_name("tickets", tests, NULL, NULL);
}
