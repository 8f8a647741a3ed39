#include "api/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define STAGES_MAX 9
#define MICRO_MAX  20

static void each_schedule(void (*check)(const struct schedule *s))
{
    for (int n_stages = 1; n_stages <= STAGES_MAX; n_stages++)
        for (int n_micro = 1; n_micro <= MICRO_MAX; n_micro++)
            for (int serial = 0; serial < 2; serial++)
                check(&(struct schedule){.n_stages = n_stages,
                                         .n_microbatches = n_micro,
                                         .is_serial = serial,
                                         .first_microbatch = 3 * serial});
}

static void check_stage(const struct schedule *s, int stage)
{
    int next_forward = s->first_microbatch;
    int next_backward = s->first_microbatch;

    for (int i = 0; i < schedule_length(s); i++) {
        struct schedule_op op = schedule_op(s, stage, i);

        if (op.is_backward)
            assert_int_equal(op.microbatch, next_backward++);
        else
            assert_int_equal(op.microbatch, next_forward++);
        assert_true(next_backward <= next_forward);
        assert_true(next_forward - next_backward <= schedule_in_flight(s, stage));
    }
    assert_int_equal(next_forward, s->first_microbatch + s->n_microbatches);
    assert_int_equal(next_backward, s->first_microbatch + s->n_microbatches);
}

static void check_complete(const struct schedule *s)
{
    for (int stage = 0; stage < s->n_stages; stage++)
        check_stage(s, stage);
}

static void schedule_runs_every_microbatch_once_in_order_within_its_memory(void **state)
{
    (void)state;
    each_schedule(check_complete);
}

/* Run all stages against each other with messages of unlimited number: nobody may get stuck. */
static void check_no_deadlock(const struct schedule *s)
{
    int at[STAGES_MAX] = {0};
    int forwards[STAGES_MAX] = {0};
    int backwards[STAGES_MAX] = {0};
    bool moved = true;

    while (moved) {
        moved = false;
        for (int stage = 0; stage < s->n_stages; stage++) {
            struct schedule_op op;

            if (at[stage] == schedule_length(s))
                continue;
            op = schedule_op(s, stage, at[stage]);
            if (!op.is_backward && stage > 0 &&
                s->first_microbatch + forwards[stage - 1] <= op.microbatch)
                continue;
            if (op.is_backward && stage < s->n_stages - 1 &&
                s->first_microbatch + backwards[stage + 1] <= op.microbatch)
                continue;
            forwards[stage] += !op.is_backward;
            backwards[stage] += op.is_backward;
            at[stage]++;
            moved = true;
            if (s->is_serial) /* the next one starts only when this one is back */
                assert_true(forwards[0] - backwards[0] <= 1);
        }
    }
    for (int stage = 0; stage < s->n_stages; stage++)
        assert_int_equal(at[stage], schedule_length(s));
}

static void schedule_never_waits_for_itself(void **state)
{
    (void)state;
    each_schedule(check_no_deadlock);
}

static void check_alternates(const struct schedule *s, int stage)
{
    for (int i = 0; i < schedule_length(s); i++) {
        struct schedule_op op = schedule_op(s, stage, i);

        assert_int_equal(op.is_backward, i % 2);
        assert_int_equal(op.microbatch, i / 2);
    }
}

static void schedule_of_the_last_stage_alternates(void **state)
{
    (void)state;
    check_alternates(&(struct schedule){.n_stages = 3, .n_microbatches = 4}, 2);
}

static void schedule_of_every_serial_stage_alternates(void **state)
{
    const struct schedule s = {.n_stages = 3, .n_microbatches = 4, .is_serial = true};

    (void)state;
    for (int stage = 0; stage < s.n_stages; stage++) {
        assert_int_equal(schedule_in_flight(&s, stage), 1);
        check_alternates(&s, stage);
    }
}

static void schedules_of_replicas_make_up_the_batch(void **state)
{
    struct plan p = {.micro_batches = 8, .n_shares = 2, .shares = {5, 3}, .n_workers = 3};
    static const struct {
        int n_seqs, n[2];
    } rows[] = {{16, {5, 3}}, {8, {5, 3}}, {6, {5, 1}}, {4, {4, 0}}};

    (void)state;
    p.workers[1].replica = p.workers[2].replica = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int r = 0; r < 2; r++) {
            struct schedule s = schedule_of(&p, r, rows[i].n_seqs);

            assert_int_equal(s.n_stages, 1 + r);
            assert_int_equal(s.n_microbatches, rows[i].n[r]);
            assert_int_equal(s.first_microbatch, r * rows[i].n[0]);
        }
}

/* Whichever replica has them; the last one is the largest. */
static void tickets_make_up_the_batch(void **state)
{
    struct plan p = {.micro_batches = 8, .n_shares = 3, .shares = {5, 2, 1}, .n_workers = 3};
    static const struct {
        int n_seqs, n[3];
    } rows[] = {{16, {2, 3, 3}}, {6, {2, 2, 2}}, {2, {0, 1, 1}}};

    (void)state;
    p.workers[1].replica = 1;
    p.workers[2].replica = 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int part = 0, first = 0; part < 3; first += rows[i].n[part++]) {
            struct schedule s = schedule_of_ticket(&p, 2 - part, part, rows[i].n_seqs);

            assert_int_equal(s.n_stages, 1);
            assert_int_equal(s.n_microbatches, rows[i].n[part]);
            assert_int_equal(s.first_microbatch, first);
        }
}

/* A replica whose share is small has memory for a larger ticket. */
static void slots_are_enough_for_shares_and_tickets(void **state)
{
    struct plan p = {.micro_batches = 8, .n_shares = 2, .shares = {7, 1}, .n_workers = 7};

    (void)state;
    p.spec.training.batch_size = 8;
    for (int i = 1; i < 7; i++)
        p.workers[i].replica = 1;
    assert_int_equal(schedule_slots(&p, 1), 1);
    p.spec.sync.protocol = SPEC_PROTOCOL_ASP;
    assert_int_equal(schedule_slots(&p, 1), 4);
    assert_int_equal(schedule_slots(&p, 6), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_runs_every_microbatch_once_in_order_within_its_memory),
        cmocka_unit_test(schedule_never_waits_for_itself),
        cmocka_unit_test(schedule_of_the_last_stage_alternates),
        cmocka_unit_test(schedule_of_every_serial_stage_alternates),
        cmocka_unit_test(schedules_of_replicas_make_up_the_batch),
        cmocka_unit_test(tickets_make_up_the_batch),
        cmocka_unit_test(slots_are_enough_for_shares_and_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
