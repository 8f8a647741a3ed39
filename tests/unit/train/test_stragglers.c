/* Which replicas lag, and what they are given to do then. */
#include "train/stragglers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SAMPLE_MS ((double)STRAGGLERS_SAMPLE_MS)

/* Samples of a replica in which a micro-batch takes `ms`, give or take a twentieth. Returns how
 * often that has changed what it is. */
static int add(struct stragglers *s, int replica, int n, double ms)
{
    int n_changes = 0;

    for (int i = 0; i < n; i++)
        n_changes += stragglers_add(s, replica, ms * (1 + 0.05 * (i % 3 - 1)), SAMPLE_MS);
    return n_changes;
}

static void a_replica_lags_after_a_row_of_slow_samples(void **state)
{
    struct stragglers s = {0};

    (void)state;
    assert_int_equal(add(&s, 1, STRAGGLERS_LEAST, 10), 0);
    assert_true(stragglers_usual_ms(&s, 1) == 10);
    assert_int_equal(add(&s, 1, STRAGGLERS_ROW - 1, 30), 0);
    assert_int_equal(stragglers_found(&s), 0);
    assert_int_equal(add(&s, 1, 1, 30), 1);
    assert_int_equal(stragglers_found(&s), 2);
    assert_int_equal(add(&s, 1, STRAGGLERS_ROW - 1, 10), 0);
    assert_int_equal(add(&s, 1, 1, 10), 1);
    assert_int_equal(stragglers_found(&s), 0);
    assert_true(stragglers_usual_ms(&s, 1) < 11);
}

static void single_slow_samples_are_no_row(void **state)
{
    struct stragglers s = {0};

    (void)state;
    (void)add(&s, 0, 20, 10);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(add(&s, 0, STRAGGLERS_ROW - 1, 50), 0);
        assert_int_equal(add(&s, 0, 1, 10), 0);
    }
}

/* Nor is a replica that has always been slow, or that always varies as much. */
static void what_is_usual_is_not_slow(void **state)
{
    struct stragglers s = {0};

    (void)state;
    assert_int_equal(add(&s, 0, 50, 10) + add(&s, 1, 50, 100), 0);
    assert_int_equal(add(&s, 0, 50, 14), 0);
    for (int i = 0; i < 20; i++)
        (void)add(&s, 2, 1, i % 2 ? 10 : 40);
    assert_int_equal(add(&s, 2, 10, 45), 0);
}

static void what_lasts_becomes_usual(void **state)
{
    struct stragglers s = {0};

    (void)state;
    (void)add(&s, 0, 20, 10);
    assert_int_equal(add(&s, 0, STRAGGLERS_ROW + STRAGGLERS_LASTS - 1, 30), 1);
    assert_int_equal(stragglers_found(&s), 1);
    assert_int_equal(add(&s, 0, 1, 30), 1);
    assert_int_equal(stragglers_found(&s), 0);
    assert_int_equal(add(&s, 0, 50, 30), 0);
    assert_true(stragglers_usual_ms(&s, 0) == 30);
}

/* Under a quota, one short step in four is stopped for a while. */
static void short_steps_are_sampled_together(void **state)
{
    struct stragglers s = {0};
    int n_changes = 0;

    (void)state;
    for (int i = 0; i < 4000; i++)
        n_changes += stragglers_add(&s, 0, i % 4 ? 2 : 60, SAMPLE_MS / 20);
    assert_int_equal(n_changes, 0);
    assert_true(stragglers_usual_ms(&s, 0) == 16.5);
}

/* Three replicas on a stage each, but for the last one. */
static struct plan make_plan(int last_stages)
{
    struct plan plan = {.micro_batches = 12, .n_shares = 3, .shares = {5, 5, 2}};

    plan.spec.sync.stragglers = SPEC_STRAGGLERS_ELASTIC;

    for (int i = 0; i < 2 + last_stages; i++)
        plan.workers[plan.n_workers++].replica = i < 2 ? i : 2;
    return plan;
}

static void assert_shares(const struct stragglers *s, const struct plan *plan, int64_t step, int a,
                          int b, int c)
{
    struct stragglers_answer answer = stragglers_answer(s, plan, step);

    assert_int_equal(answer.shares[0], a);
    assert_int_equal(answer.shares[1], b);
    assert_int_equal(answer.shares[2], c);
}

static void shares_are_those_of_the_plan_until_all_times_are_known(void **state)
{
    struct plan plan = make_plan(1);
    struct stragglers s = {0};

    (void)state;
    assert_shares(&s, &plan, 1, 5, 5, 2);
    (void)add(&s, 0, 10, 10);
    (void)add(&s, 1, 10, 10);
    (void)add(&s, 2, 10, 20);
    assert_shares(&s, &plan, 1, 5, 5, 2);
    (void)add(&s, 1, 4, 20); /* the last is of 19 ms */
    assert_shares(&s, &plan, 1, 6, 3, 3);
}

/* It has a micro-batch now and then. */
static void a_replica_that_would_hold_up_all_is_left_out(void **state)
{
    struct plan plan = make_plan(1);
    struct stragglers s = {0};

    (void)state;
    (void)add(&s, 0, 10, 10);
    (void)add(&s, 1, 10, 10);
    (void)add(&s, 2, 10, 20);
    (void)add(&s, 1, 4, 200);
    assert_shares(&s, &plan, 1, 8, 0, 4);
    assert_shares(&s, &plan, STRAGGLERS_LOOK, 7, 1, 4);
    for (int i = 0; i < STRAGGLERS_LASTS - 2; i++) /* what it has nothing to do with counts, too */
        assert_false(stragglers_add(&s, 1, 0, SAMPLE_MS));
    assert_true(stragglers_add(&s, 1, 0, SAMPLE_MS));
}

static void a_replica_has_no_more_micro_batches_than_room(void **state)
{
    struct plan plan = make_plan(3);
    struct stragglers s = {0};

    (void)state;
    (void)add(&s, 0, 10, 10);
    (void)add(&s, 1, 10, 10);
    (void)add(&s, 2, 10, 10);
    (void)add(&s, 1, 4, 200);
    assert_shares(&s, &plan, 1, 10, 0, 2);
}

/* Three replicas, of which the last has lagged since a micro-batch takes `ms` in it instead of 10.
 */
static struct stragglers_answer answer_to(enum spec_stragglers how, const int shares[3], double ms)
{
    struct plan plan = make_plan(1);
    struct stragglers s = {0};

    plan.spec.sync.stragglers = how;
    plan.micro_batches = 0;
    for (int k = 0; k < 3; k++) {
        plan.shares[k] = shares[k];
        plan.micro_batches += shares[k];
        (void)add(&s, k, 10, 10);
    }
    for (int i = 0; i < STRAGGLERS_ROW; i++)
        (void)stragglers_add(&s, 2, ms, SAMPLE_MS);
    assert_int_equal(stragglers_found(&s), 4);
    return stragglers_answer(&s, &plan, 1);
}

static void assert_answer(struct stragglers_answer answer, enum spec_stragglers how, double wait_ms,
                          double ms, int first)
{
    assert_int_equal(answer.how, how);
    assert_true(answer.wait_ms == wait_ms);
    assert_true(fabs(answer.ms - ms) < 1e-9);
    assert_int_equal(answer.shares[0], first);
}

static void auto_takes_other_shares_if_that_gains_a_tenth(void **state)
{
    (void)state;
    assert_answer(answer_to(SPEC_STRAGGLERS_AUTO, (const int[]){4, 4, 4}, 40),
                  SPEC_STRAGGLERS_ELASTIC, 160, 60, 6);
    assert_answer(answer_to(SPEC_STRAGGLERS_AUTO, (const int[]){8, 8, 1}, 40), SPEC_STRAGGLERS_WAIT,
                  80, 80, 8);
}

/* In step, one of them takes 20 ms, whatever is done. */
static void auto_leaves_step_where_shares_are_too_coarse(void **state)
{
    (void)state;
    assert_answer(answer_to(SPEC_STRAGGLERS_AUTO, (const int[]){1, 1, 1}, 16), SPEC_STRAGGLERS_WAIT,
                  16, 16, 1);
    assert_answer(answer_to(SPEC_STRAGGLERS_AUTO, (const int[]){1, 1, 1}, 20),
                  SPEC_STRAGGLERS_GREEDY, 20, 12, 1);
}

static void a_policy_that_is_given_is_kept_to(void **state)
{
    (void)state;
    assert_answer(answer_to(SPEC_STRAGGLERS_WAIT, (const int[]){4, 4, 4}, 40), SPEC_STRAGGLERS_WAIT,
                  160, 160, 4);
    assert_answer(answer_to(SPEC_STRAGGLERS_GREEDY, (const int[]){4, 4, 4}, 40),
                  SPEC_STRAGGLERS_GREEDY, 160, 12 / 0.225, 4);
    assert_answer(answer_to(SPEC_STRAGGLERS_ELASTIC, (const int[]){8, 8, 1}, 40),
                  SPEC_STRAGGLERS_ELASTIC, 80, 80, 8);
}

static void auto_waits_until_all_times_are_known(void **state)
{
    struct plan plan = make_plan(1);
    struct stragglers s = {0};
    struct stragglers_answer answer;

    (void)state;
    plan.spec.sync.stragglers = SPEC_STRAGGLERS_AUTO;
    (void)add(&s, 1, 10, 10);
    (void)add(&s, 1, 4, 200);
    answer = stragglers_answer(&s, &plan, 1);
    assert_int_equal(answer.how, SPEC_STRAGGLERS_WAIT);
    assert_true(answer.wait_ms == 0);
    assert_int_equal(answer.shares[2], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replica_lags_after_a_row_of_slow_samples),
        cmocka_unit_test(single_slow_samples_are_no_row),
        cmocka_unit_test(what_is_usual_is_not_slow),
        cmocka_unit_test(what_lasts_becomes_usual),
        cmocka_unit_test(short_steps_are_sampled_together),
        cmocka_unit_test(shares_are_those_of_the_plan_until_all_times_are_known),
        cmocka_unit_test(a_replica_that_would_hold_up_all_is_left_out),
        cmocka_unit_test(a_replica_has_no_more_micro_batches_than_room),
        cmocka_unit_test(auto_takes_other_shares_if_that_gains_a_tenth),
        cmocka_unit_test(auto_leaves_step_where_shares_are_too_coarse),
        cmocka_unit_test(a_policy_that_is_given_is_kept_to),
        cmocka_unit_test(auto_waits_until_all_times_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
