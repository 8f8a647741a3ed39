#include "api/recover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define N_WORKERS 3
#define NUMBER    4 /* of the revision, which goes on from step 7 */

/* A worker in a word. */
enum look {
    LOOK_STARTS,  /* has yet to answer */
    LOOK_OLDER,   /* its session of revision 3 has halted */
    LOOK_TOLD,    /* has accepted revision 4, and has not reported since */
    LOOK_OLD,     /* likewise; its report is of before */
    LOOK_RUNS,    /* and reports so */
    LOOK_ORDERED, /* has taken the order to halt, and has not reported since */
    LOOK_HALTED,  /* its session has ended before the job */
    LOOK_FAILED,
    LOOK_DONE,
    LOOK_GONE,
    N_LOOKS,
};

struct view {
    struct report reports[N_WORKERS];
    struct recover_worker workers[N_WORKERS];
    struct recover_input in;
};

/* Workers 0 and 1 are the plan's; worker 2 leaves. */
static struct revision revision = {
    .plan = {.revision = NUMBER,
             .n_workers = 2,
             .workers = {{.slot = 0, .incarnation = 1}, {.slot = 1, .incarnation = 2}}},
    .resume.step = 7,
    .n_leaving = 1,
    .leaving = {{2, 1}}};

static void set_look(struct view *v, int i, enum look look)
{
    struct recover_worker *w = &v->workers[i];
    struct report *r = &v->reports[i];
    bool is_old = look == LOOK_OLDER || look == LOOK_OLD;

    *w = (struct recover_worker){.id = revision_worker(&revision, i),
                                 .is_gone = look == LOOK_GONE,
                                 .accepted = look == LOOK_STARTS  ? 0
                                             : look == LOOK_OLDER ? NUMBER - 1
                                                                  : NUMBER,
                                 .is_halted = look == LOOK_ORDERED};
    *r = (struct report){.slot = w->id.slot,
                         .incarnation = w->id.incarnation,
                         .revision = is_old ? NUMBER - 1 : NUMBER,
                         .session = look == LOOK_RUNS     ? REPORT_RUNNING
                                    : look == LOOK_FAILED ? REPORT_FAILED
                                    : look == LOOK_DONE   ? REPORT_DONE
                                                          : REPORT_HALTED};
    if (look != LOOK_STARTS && look != LOOK_TOLD && look != LOOK_ORDERED && look != LOOK_GONE)
        w->report = r;
}

static void set_all(struct view *v, const enum look looks[static N_WORKERS])
{
    *v = (struct view){.in = {.revision = &revision,
                              .n_workers = N_WORKERS,
                              .has_progress = true,
                              .state = PROGRESS_TRAINING,
                              .step = 7}};
    v->in.workers = v->workers;
    for (int i = 0; i < N_WORKERS; i++)
        set_look(v, i, looks[i]);
}

static struct row {
    const char *name;
    enum look looks[N_WORKERS];
    int64_t step; /* the leader's; 0: 7, none since the revision began */
    bool is_halting, may_end;
    bool must_halt;
    enum recover_phase phase;
    enum recover_order orders[N_WORKERS];
} rows[] = {
    {"recover_tells_every_worker_that_does_not_have_the_revision",
     {LOOK_STARTS, LOOK_OLDER, LOOK_TOLD},
     .phase = RECOVER_TELL,
     .orders = {ORDER_REVISION, ORDER_REVISION}},
    {"recover_leaves_workers_alone_that_train",
     {LOOK_RUNS, LOOK_RUNS, LOOK_RUNS},
     .phase = RECOVER_RUN},
    {"recover_takes_no_end_of_an_older_session_for_one_of_this",
     {LOOK_RUNS, LOOK_OLD, LOOK_RUNS},
     .phase = RECOVER_RUN},
    {"recover_halts_when_a_session_has_ended",
     {LOOK_RUNS, LOOK_HALTED, LOOK_RUNS},
     .must_halt = true,
     .phase = RECOVER_RUN},
    {"recover_halts_when_a_worker_has_failed",
     {LOOK_RUNS, LOOK_FAILED, LOOK_RUNS},
     .must_halt = true,
     .phase = RECOVER_RUN},
    {"recover_halts_when_a_worker_is_gone",
     {LOOK_RUNS, LOOK_GONE, LOOK_RUNS},
     .must_halt = true,
     .phase = RECOVER_RUN},
    {"recover_halts_when_one_that_leaves_is_gone_before_its_units_are",
     {LOOK_RUNS, LOOK_RUNS, LOOK_GONE},
     .must_halt = true,
     .phase = RECOVER_RUN},
    {"recover_does_without_one_that_has_left",
     {LOOK_RUNS, LOOK_RUNS, LOOK_GONE},
     .step = 8,
     .phase = RECOVER_RUN},
    {"recover_ends_one_that_leaves_after_the_first_step",
     {LOOK_RUNS, LOOK_RUNS, LOOK_DONE},
     .step = 8,
     .phase = RECOVER_RUN,
     .orders = {ORDER_NONE, ORDER_NONE, ORDER_HALT}},
    {"recover_keeps_one_that_leaves_until_then",
     {LOOK_RUNS, LOOK_RUNS, LOOK_DONE},
     .phase = RECOVER_RUN},
    {"recover_orders_all_to_halt_whose_session_may_run",
     {LOOK_RUNS, LOOK_HALTED, LOOK_TOLD},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_HALT,
     .orders = {ORDER_HALT, ORDER_NONE, ORDER_HALT}},
    {"recover_waits_for_the_report_after_the_order",
     {LOOK_ORDERED, LOOK_HALTED, LOOK_HALTED},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_HALT},
    {"recover_does_not_believe_a_report_of_before_the_revision",
     {LOOK_OLD, LOOK_HALTED, LOOK_HALTED},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_HALT,
     .orders = {ORDER_HALT}},
    {"recover_revises_when_no_session_runs",
     {LOOK_HALTED, LOOK_OLDER, LOOK_DONE},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_REVISE},
    {"recover_revises_without_a_worker_that_is_gone",
     {LOOK_HALTED, LOOK_GONE, LOOK_HALTED},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_REVISE},
    {"recover_revises_when_another_plan_is_due",
     {LOOK_HALTED, LOOK_OLDER, LOOK_OLDER},
     .is_halting = true,
     .must_halt = true,
     .phase = RECOVER_REVISE},
    {"recover_keeps_a_leader_that_is_done",
     {LOOK_DONE, LOOK_DONE, LOOK_GONE},
     .step = 30,
     .phase = RECOVER_END},
    {"recover_releases_a_leader_whose_progress_is_kept",
     {LOOK_DONE, LOOK_GONE, LOOK_GONE},
     .step = 30,
     .may_end = true,
     .phase = RECOVER_END,
     .orders = {ORDER_HALT}},
    {"recover_calls_a_job_done_that_another_has_not_heard_the_end_of",
     {LOOK_DONE, LOOK_HALTED, LOOK_GONE},
     .step = 30,
     .is_halting = true,
     .phase = RECOVER_END},
    {"recover_does_not_take_another_worker_that_is_done_for_the_leader",
     {LOOK_RUNS, LOOK_DONE, LOOK_DONE},
     .phase = RECOVER_RUN},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct view v;

    set_all(&v, row->looks);
    v.in.step = row->step > 0 ? row->step : 7;
    v.in.is_halting = row->is_halting;
    v.in.may_end = row->may_end;
    assert_int_equal(recover_must_halt(&v.in), row->must_halt);
    assert_int_equal(recover_phase(&v.in), row->phase);
    for (int i = 0; i < N_WORKERS; i++)
        assert_int_equal(recover_order(&v.in, i), row->orders[i]);
}

/* One that is of another incarnation than the revision's is not its worker. */
static void recover_gives_no_order_to_an_older_incarnation(void **state)
{
    static const enum look looks[] = {LOOK_RUNS, LOOK_RUNS, LOOK_RUNS};
    struct view v;

    (void)state;
    set_all(&v, looks);
    v.workers[1].id.incarnation = 1;
    v.workers[1].accepted = NUMBER - 1;
    assert_int_equal(recover_order(&v.in, 1), ORDER_NONE);
    assert_true(recover_must_halt(&v.in));
    v.in.n_workers = 1; /* the others are not even listed */
    assert_true(recover_must_halt(&v.in));
}

/* The effect of an order on a worker that answers. */
static void obey(struct view *v, int i, enum recover_order order)
{
    if (order == ORDER_REVISION)
        set_look(v, i, LOOK_RUNS);
    else if (order == ORDER_HALT)
        set_look(v, i,
                 v->workers[i].report && v->workers[i].report->session == REPORT_DONE
                     ? LOOK_GONE
                     : LOOK_HALTED);
}

/* From whatever there is: every worker that answers is asked for its report, is given its orders,
 * and in the end there are none. */
static void recover_comes_to_rest_from_every_state(void **state)
{
    (void)state;
    for (int k = 0; k < N_LOOKS * N_LOOKS * N_LOOKS * 2; k++) {
        const enum look looks[] = {(enum look)(k / 2 % N_LOOKS),
                                   (enum look)(k / 2 / N_LOOKS % N_LOOKS),
                                   (enum look)(k / 2 / N_LOOKS / N_LOOKS)};
        enum recover_phase phase;
        struct view v;
        int n_orders = 1;

        set_all(&v, looks);
        v.in.may_end = true;
        v.in.step = 7 + k % 2;
        v.in.state = looks[0] == LOOK_DONE ? PROGRESS_DONE : PROGRESS_TRAINING;
        for (int round = 0; n_orders > 0; round++) {
            assert_true(round < 4);
            for (int i = 0; i < N_WORKERS; i++) /* what a question brings to light */
                if (v.workers[i].is_halted)
                    set_look(&v, i, LOOK_HALTED);
                else if (!v.workers[i].is_gone && v.workers[i].accepted == NUMBER &&
                         (!v.workers[i].report || v.workers[i].report->revision < NUMBER))
                    set_look(&v, i, LOOK_RUNS);
            v.in.is_halting = v.in.is_halting || recover_must_halt(&v.in);
            n_orders = 0;
            for (int i = 0; i < N_WORKERS; i++) {
                enum recover_order order = recover_order(&v.in, i);

                n_orders += order != ORDER_NONE;
                assert_true(order == ORDER_NONE || !v.workers[i].is_gone);
                obey(&v, i, order);
            }
            /* One that has left is ended by its owner. */
            if (v.in.step > 7 && n_orders > 0 && v.workers[2].report &&
                v.workers[2].report->session != REPORT_RUNNING)
                set_look(&v, 2, LOOK_GONE);
        }
        phase = recover_phase(&v.in);
        assert_int_equal(phase, looks[0] == LOOK_DONE ? RECOVER_END
                                : v.in.is_halting     ? RECOVER_REVISE
                                                      : RECOVER_RUN);
    }
}

int main(void)
{
    struct CMUnitTest tests[2 + sizeof rows / sizeof rows[0]] = {
        cmocka_unit_test(recover_gives_no_order_to_an_older_incarnation),
        cmocka_unit_test(recover_comes_to_rest_from_every_state),
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[2 + i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
