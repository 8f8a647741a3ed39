#include "api/resume.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define N_UNITS   7
#define N_WORKERS 3

/* Workers `slots`, each with this many units. */
static struct plan plan_of(int n, const int *slots, const int *units)
{
    struct plan p = {.revision = 9, .n_workers = n};
    int next = 0;

    assert_int_equal(model_preset("BertTiny", &p.spec.model, NULL), ERR_OK);
    for (int i = 0; i < n; i++) {
        p.workers[i] = (struct plan_worker){
            .slot = slots[i], .incarnation = 1, .first_unit = next, .n_units = units[i]};
        next += units[i];
    }
    assert_int_equal(next, model_units(&p.spec.model));
    return p;
}

static struct report report_of(int slot, int64_t lineage, int64_t end)
{
    struct report r = {.slot = slot,
                       .incarnation = 1,
                       .revision = 8,
                       .session = REPORT_HALTED,
                       .lineage = lineage};

    if (end > 0)
        r.end = (struct step_end){.revision = 8, .step = end, .scale = 0.5, .updates = end - 1};
    return r;
}

static void hold(struct report *r, int first, int n, int64_t step, bool is_finished)
{
    report_add(r, &(struct report_run){first, n, step, is_finished});
}

/* --- documents --- */

static struct report full_report(void)
{
    struct report r = report_of(3, 2, 7);

    r.incarnation = 5;
    r.cause = PROGRESS_CAUSE_PEER_LOST;
    strcpy(r.error, "worker 2 is gone");
    r.end.outcome = STEP_SKIP;
    r.end.scale = 0.1;
    r.end.rate = 1e-5 / 3;
    r.end.loss = NAN;
    r.evaluated = 5;
    hold(&r, 1, 2, 6, true);
    hold(&r, 4, 1, 7, false);
    return r;
}

/* What is read back is written alike. */
static struct report read_back(const struct report *r)
{
    struct buf first = {.max = REPORT_TEXT_MAX_BYTES}, second = {.max = REPORT_TEXT_MAX_BYTES};
    struct report back;

    assert_int_equal(report_write(r, &first, NULL), ERR_OK);
    assert_int_equal(report_parse(first.data, first.len, &back, NULL), ERR_OK);
    assert_int_equal(report_write(&back, &second, NULL), ERR_OK);
    assert_string_equal(buf_text(&first), buf_text(&second));
    buf_deinit(&first);
    buf_deinit(&second);
    return back;
}

static void report_reads_back_what_was_written(void **state)
{
    struct report r = full_report();
    struct report back = read_back(&r);

    (void)state;
    assert_int_equal(back.slot, 3);
    assert_int_equal(back.incarnation, 5);
    assert_int_equal(back.revision, 8);
    assert_int_equal(back.session, REPORT_HALTED);
    assert_int_equal(back.cause, PROGRESS_CAUSE_PEER_LOST);
    assert_string_equal(back.error, "worker 2 is gone");
    assert_int_equal(back.lineage, 2);
    assert_int_equal(back.end.revision, 8);
    assert_int_equal(back.end.step, 7);
    assert_int_equal(back.end.outcome, STEP_SKIP);
    assert_true(back.end.scale == 0.1);
    assert_true(back.end.rate == 1e-5 / 3); /* every bit of it */
    assert_int_equal(back.end.updates, 6);
    assert_true(isnan(back.end.loss));
    assert_int_equal(back.evaluated, 5);
    assert_int_equal(back.n_runs, 2);
    assert_int_equal(back.runs[0].first_unit, 1);
    assert_int_equal(back.runs[0].n_units, 2);
    assert_int_equal(back.runs[0].step, 6);
    assert_true(back.runs[0].is_finished);
    assert_false(back.runs[1].is_finished);
}

static void report_of_a_new_worker_is_nearly_empty(void **state)
{
    struct report r = {.slot = 0, .incarnation = 1};
    struct report back = read_back(&r);

    (void)state;
    assert_int_equal(back.session, REPORT_NONE);
    assert_int_equal(back.end.step, 0);
    assert_int_equal(back.n_runs, 0);
}

static void report_at_its_limits_fits(void **state)
{
    struct report r = full_report();

    (void)state;
    r.n_runs = 0;
    memset(r.error, '"', sizeof r.error - 1);
    for (int i = 0; i < 2 * REPORT_RUNS_MAX; i++)
        hold(&r, 700 + i, 1, RESUME_STEP_MAX - i, true);
    assert_int_equal(read_back(&r).n_runs, REPORT_RUNS_MAX); /* the others are not reported */
}

static void refuse(const char *text, const char *says)
{
    struct report back = {.slot = 99};
    struct err err = {0};

    assert_int_equal(report_parse(text, strlen(text), &back, &err), ERR_INVALID);
    if (!strstr(err.text, says))
        fail_msg("said \"%s\"", err.text);
    assert_int_equal(back.slot, 99);
}

static void report_is_refused_when_it_is_out_of_bounds(void **state)
{
#define BODY(version, slot, runs)                                                                  \
    "{\"version\":" version ",\"slot\":" slot ",\"incarnation\":1,\"revision\":0,"                 \
    "\"session\":\"None\",\"runs\":[" runs "]}"
    (void)state;
    refuse("{", "report: ");
    refuse(BODY("2", "0", ""), "version: must be 1");
    refuse(BODY("1", "1000", ""), "slot: 1000 is not in 0..999");
    refuse(BODY("1", "0", "{\"firstUnit\":0,\"unitCount\":0,\"step\":1}"), "runs[0].unitCount: 0");
    refuse(BODY("1", "0", "{\"firstUnit\":0,\"unitCount\":1,\"step\":-1}"), "runs[0].step: -1");
    refuse(BODY("1", "0", "{\"firstUnit\":1026,\"unitCount\":2,\"step\":1}"), "runs[0]: 2 units");
    refuse(BODY("1", "0",
                "{\"firstUnit\":0,\"unitCount\":2,\"step\":1},"
                "{\"firstUnit\":1,\"unitCount\":2,\"step\":1}"),
           "runs[1]: 2 units from unit 1; must begin at 2 or later");
    refuse("{\"version\":1,\"slot\":0,\"incarnation\":1,\"revision\":1,\"session\":\"Asleep\"}",
           "session: \"Asleep\"");
}

static void report_survives_every_cut_and_flip_of_its_text(void **state)
{
    struct report r = full_report();
    struct report back;
    struct buf out = {.max = REPORT_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(report_write(&r, &out, NULL), ERR_OK);
    for (size_t n = 0; n < out.len; n++)
        assert_int_not_equal(report_parse(out.data, n, &back, NULL), ERR_OK);
    for (size_t i = 0; i < out.len; i++) {
        char was = out.data[i];

        out.data[i] = (char)(was ^ 1);
        (void)!report_parse(out.data, out.len, &back, NULL);
        out.data[i] = was;
    }
    buf_deinit(&out);
}

static void report_joins_units_in_the_same_state(void **state)
{
    struct report r = {.n_runs = 0};

    (void)state;
    hold(&r, 0, 2, 4, false);
    hold(&r, 2, 1, 4, false);
    hold(&r, 3, 1, 4, true);
    hold(&r, 5, 1, 4, true);
    hold(&r, 6, 1, 5, true);
    assert_int_equal(r.n_runs, 4);
    assert_int_equal(r.runs[0].n_units, 3);
    assert_ptr_equal(report_find(&r, 2), &r.runs[0]);
    assert_ptr_equal(report_find(&r, 3), &r.runs[1]);
    assert_null(report_find(&r, 4));
    assert_ptr_equal(report_find(&r, 6), &r.runs[3]);
    assert_null(report_find(&r, 7));
}

/* --- where to go on from --- */

static const int slots[] = {0, 1, 2};
static const int cut[] = {3, 2, 2};

/* By set_up(): three workers that hold the units of `cut` at step 5 of lineage 1, and a plan by
 * which they go on as before. */
static struct report held[N_WORKERS];
static struct plan next;
static struct resume at; /* by go_on() */

static void hold_all(int64_t lineage, int64_t step)
{
    for (int i = 0, unit = 0; i < N_WORKERS; unit += cut[i++]) {
        held[i] = report_of(i, lineage, step);
        hold(&held[i], unit, cut[i], step, false);
    }
}

static int set_up(void **state)
{
    (void)state;
    next = plan_of(N_WORKERS, slots, cut);
    hold_all(1, 5);
    return 0;
}

/* From the reports of the first `n` workers. */
static void go_on(int n)
{
    const struct report *list[N_WORKERS];

    for (int i = 0; i < n; i++)
        list[i] = &held[i];
    memset(&at, 0x5a, sizeof at); /* it is the output alone */
    resume_point(&next, list, n, SOURCE_RANDOM, 1, &at);
}

static void assert_rollback(const struct resume *r, int64_t lineage)
{
    assert_int_equal(r->lineage, lineage);
    assert_int_equal(r->step, 0);
    assert_int_equal(r->end.step, 0);
    assert_int_equal(r->evaluated, 0);
    assert_int_equal(r->n_sources, 1);
    assert_int_equal(r->sources[0].kind, SOURCE_RANDOM);
    assert_int_equal(r->sources[0].first_unit, 0);
    assert_int_equal(r->sources[0].n_units, N_UNITS);
}

struct piece {
    int slot, first_unit, n_units;
};

/* In lineage 1, from `step` on, with units as these workers have them. */
static void assert_goes_on(int64_t step, const struct piece *want, int n)
{
    assert_int_equal(at.lineage, 1);
    assert_int_equal(at.step, step);
    assert_int_equal(at.end.step, step);
    assert_int_equal(at.n_sources, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(at.sources[i].kind, SOURCE_WORKER);
        assert_int_equal(at.sources[i].slot, want[i].slot);
        assert_int_equal(at.sources[i].first_unit, want[i].first_unit);
        assert_int_equal(at.sources[i].n_units, want[i].n_units);
    }
}

static const struct piece where_they_are[] = {{0, 0, 3}, {1, 3, 2}, {2, 5, 2}};

static void resume_begins_a_job_with_what_units_begin_with(void **state)
{
    (void)state;
    resume_point(&next, NULL, 0, SOURCE_PRETRAINED, 0, &at);
    assert_int_equal(at.lineage, 1);
    assert_int_equal(at.step, 0);
    assert_int_equal(at.n_sources, 1);
    assert_int_equal(at.sources[0].kind, SOURCE_PRETRAINED);
    assert_int_equal(at.sources[0].n_units, N_UNITS);
}

static void resume_after_a_cut_link_keeps_every_unit_where_it_is(void **state)
{
    (void)state;
    go_on(3);
    assert_goes_on(5, where_they_are, 3);
    assert_memory_equal(&at.end, &held[0].end, sizeof at.end);
}

/* The last worker has decided step 6 and done it; the others have not received its end. */
static void resume_rolls_forward_to_the_newest_step_end(void **state)
{
    (void)state;
    held[0].runs[0].is_finished = held[1].runs[0].is_finished = true;
    held[2] = report_of(2, 1, 6);
    hold(&held[2], 5, 2, 6, false);
    go_on(3);
    assert_goes_on(6, where_they_are, 3);
}

static void resume_computes_a_step_without_an_end_again(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        held[i].runs[0].is_finished = true;
    go_on(3);
    assert_goes_on(5, where_they_are, 3);
}

static void resume_moves_units_to_workers_that_come_and_from_those_that_leave(void **state)
{
    static const int next_slots[] = {2, 4};
    static const int next_cut[] = {4, 3};

    (void)state;
    next = plan_of(2, next_slots, next_cut);
    go_on(3);
    assert_goes_on(5, where_they_are, 3);
}

static void resume_without_a_lost_worker_begins_again_in_a_new_lineage(void **state)
{
    (void)state;
    hold_all(4, 5);
    held[0].evaluated = 5;
    go_on(2);
    assert_rollback(&at, 5);
}

/* Worker 2 was replaced: what its new pod holds does not count for the old one's. */
static void resume_counts_nothing_of_a_worker_that_is_new(void **state)
{
    (void)state;
    held[2] = (struct report){.slot = 2, .incarnation = 2};
    go_on(3);
    assert_rollback(&at, 2);
}

static const int moved_cut[] = {3, 1, 3}; /* worker 1 gives unit 4 to worker 2 */

/* ... and the link broke before it had all of it. */
static void resume_finds_a_unit_where_it_was_kept(void **state)
{
    (void)state;
    next = plan_of(3, slots, moved_cut);
    go_on(3);
    assert_goes_on(5, where_they_are, 3);
}

/* ... and once step 6 has an end, its own copy counts, and the kept one is too old. */
static void resume_takes_the_copy_of_the_unit_that_has_gone_on(void **state)
{
    static const struct piece moved[] = {{0, 0, 3}, {1, 3, 1}, {2, 4, 3}};

    (void)state;
    next = plan_of(3, slots, moved_cut);
    for (int i = 0; i < 3; i++) {
        held[i] = report_of(i, 1, 6);
        hold(&held[i], moved[i].first_unit, moved[i].n_units, 6, false);
    }
    hold(&held[1], 4, 1, 5, false);
    go_on(3);
    assert_goes_on(6, moved, 3);
    go_on(2);
    assert_rollback(&at, 2);
}

/* A worker that was cut off while the others rolled back has gone as far as they have now. */
static void resume_never_mixes_lineages(void **state)
{
    (void)state;
    hold_all(3, 41);
    held[1].lineage = 2;
    go_on(3);
    assert_rollback(&at, 4);
    hold_all(1, 41);
    held[1].end.step = 50;
    held[1].lineage = 0; /* older than what the last revision had */
    go_on(3);
    assert_rollback(&at, 2);
}

static void resume_keeps_the_newest_evaluation(void **state)
{
    (void)state;
    held[1].evaluated = 4;
    held[2].evaluated = 2;
    go_on(3);
    assert_int_equal(at.evaluated, 4);
}

/* --- every combination --- */

enum holding {
    HELD_NOTHING,
    HELD_BEHIND,   /* its units at step 4 */
    HELD_FINISHED, /* the same, with the gradients of step 5 */
    HELD_DONE,     /* its units at step 5 */
    HELD_NEXT,     /* the same, with the gradients of step 6 */
    HELD_OTHERS,   /* its units at 5, and all others', which it gave away at 4 */
    N_HELD,
};
static const int64_t ends[] = {0, 4, 5};
#define N_CHOICES (2 * 3 * N_HELD) /* lineage, newest STEP_END, units */

static struct report choose(int worker, int choice)
{
    int first = where_they_are[worker].first_unit;
    struct report r = report_of(worker, 1 + choice % 2, ends[choice / 2 % 3]);
    enum holding what = (enum holding)(choice / 6);
    int64_t step = what == HELD_BEHIND || what == HELD_FINISHED ? 4 : 5;

    if (what == HELD_NOTHING)
        return r;
    if (what == HELD_OTHERS && first > 0)
        hold(&r, 0, first, 4, false);
    hold(&r, first, cut[worker], step, what == HELD_FINISHED || what == HELD_NEXT);
    if (what == HELD_OTHERS && first + cut[worker] < N_UNITS)
        hold(&r, first + cut[worker], N_UNITS - first - cut[worker], 4, false);
    return r;
}

/* Can this worker have the unit at the end of `step`? From what was chosen, not from its report. */
static bool can_have(int worker, int choice, int unit, int64_t lineage, int64_t step)
{
    enum holding what = (enum holding)(choice / 6);
    const struct piece *own = &where_they_are[worker];
    bool is_own = unit >= own->first_unit && unit < own->first_unit + own->n_units;

    if (1 + choice % 2 != lineage)
        return false;
    switch (what) {
    case HELD_BEHIND:
        return is_own && step == 4;
    case HELD_FINISHED:
        return is_own && (step == 4 || step == 5);
    case HELD_DONE:
    case HELD_NEXT: /* 6 has no end */
        return is_own && step == 5;
    case HELD_OTHERS:
        return is_own ? step == 5 : step == 4;
    default:
        return false;
    }
}

static void check(const struct plan *p, const int *choices, unsigned present)
{
    struct report w[N_WORKERS];
    const struct report *list[N_WORKERS];
    struct resume got;
    int64_t lineage = 1;
    int64_t step = 0;
    bool is_lost = false;
    int n = 0;

    for (int i = 0; i < N_WORKERS; i++) {
        if (!(present & 1u << i))
            continue;
        w[i] = choose(i, choices[i]);
        list[n++] = &w[i];
        lineage = choices[i] % 2 == 1 ? 2 : lineage;
    }
    for (int i = 0; i < N_WORKERS; i++)
        if (present & 1u << i && w[i].lineage == lineage && ends[choices[i] / 2 % 3] > step)
            step = ends[choices[i] / 2 % 3];
    for (int unit = 0; unit < N_UNITS; unit++) {
        bool has = false;

        for (int i = 0; i < N_WORKERS; i++)
            has = has || (present & 1u << i && can_have(i, choices[i], unit, lineage, step));
        is_lost = is_lost || !has;
    }
    resume_point(p, list, n, SOURCE_RANDOM, 1, &got);
    if (is_lost) {
        assert_rollback(&got, lineage + 1);
        return;
    }
    assert_int_equal(got.lineage, lineage);
    assert_int_equal(got.step, step);
    assert_int_equal(got.end.step, step);
    for (int s = 0, unit = 0; s < got.n_sources; s++) {
        const struct resume_source *from = &got.sources[s];

        assert_int_equal(from->kind, SOURCE_WORKER);
        assert_int_equal(from->first_unit, unit);
        assert_true(from->n_units > 0 && present & 1u << from->slot);
        for (; unit < from->first_unit + from->n_units; unit++) {
            int own = -1;

            assert_true(can_have(from->slot, choices[from->slot], unit, lineage, step));
            for (int i = 0; i < p->n_workers; i++)
                if (unit >= p->workers[i].first_unit)
                    own = p->workers[i].slot;
            if (own < N_WORKERS && present & 1u << own &&
                can_have(own, choices[own], unit, lineage, step))
                assert_int_equal(from->slot, own);
        }
        assert_int_equal(unit == N_UNITS, s == got.n_sources - 1);
    }
}

static void resume_is_right_for_whatever_three_workers_hold(void **state)
{
    static const int two_slots[] = {5, 1};
    static const int two[] = {4, 3};
    static const int other[] = {1, 1, 5};
    const struct plan plans[] = {plan_of(3, slots, cut), plan_of(3, slots, other),
                                 plan_of(2, two_slots, two)};

    (void)state;
    for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++)
        for (unsigned present = 0; present < 1u << N_WORKERS; present++)
            for (int k = 0; k < N_CHOICES * N_CHOICES * N_CHOICES; k++) {
                int choices[] = {k % N_CHOICES, k / N_CHOICES % N_CHOICES,
                                 k / N_CHOICES / N_CHOICES};
                bool is_repeat = false; /* a worker without a report has only the first choice */

                for (int i = 0; i < N_WORKERS; i++)
                    is_repeat = is_repeat || (!(present & 1u << i) && choices[i] > 0);
                if (!is_repeat)
                    check(&plans[p], choices, present);
            }
}

#define FROM_HELD(test) cmocka_unit_test_setup(test, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_reads_back_what_was_written),
        cmocka_unit_test(report_of_a_new_worker_is_nearly_empty),
        cmocka_unit_test(report_at_its_limits_fits),
        cmocka_unit_test(report_is_refused_when_it_is_out_of_bounds),
        cmocka_unit_test(report_survives_every_cut_and_flip_of_its_text),
        cmocka_unit_test(report_joins_units_in_the_same_state),
        FROM_HELD(resume_begins_a_job_with_what_units_begin_with),
        FROM_HELD(resume_after_a_cut_link_keeps_every_unit_where_it_is),
        FROM_HELD(resume_rolls_forward_to_the_newest_step_end),
        FROM_HELD(resume_computes_a_step_without_an_end_again),
        FROM_HELD(resume_moves_units_to_workers_that_come_and_from_those_that_leave),
        FROM_HELD(resume_without_a_lost_worker_begins_again_in_a_new_lineage),
        FROM_HELD(resume_counts_nothing_of_a_worker_that_is_new),
        FROM_HELD(resume_finds_a_unit_where_it_was_kept),
        FROM_HELD(resume_takes_the_copy_of_the_unit_that_has_gone_on),
        FROM_HELD(resume_never_mixes_lineages),
        FROM_HELD(resume_keeps_the_newest_evaluation),
        cmocka_unit_test(resume_is_right_for_whatever_three_workers_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
