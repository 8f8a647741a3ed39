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
    r.is_leaving = r.has_saved = true;
    hold(&r, 1, 2, 6, true);
    hold(&r, 4, 1, 7, false);
    r.origins = (struct resume_origins){1, {{1, 4}}};
    r.n_checkpoints = 2;
    r.checkpoints[0] = (struct resume_checkpoint){.lineage = 2, .end = r.end, .evaluated = 5};
    r.checkpoints[1] = (struct resume_checkpoint){
        .lineage = 1, .end = {.revision = 1, .step = 4}, .n_parts = 2, .parts = {{0, 2}, {4, 1}}};
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
    assert_true(back.is_leaving && back.has_saved);
    assert_int_equal(back.n_runs, 2);
    assert_int_equal(back.runs[0].first_unit, 1);
    assert_int_equal(back.runs[0].n_units, 2);
    assert_int_equal(back.runs[0].step, 6);
    assert_true(back.runs[0].is_finished);
    assert_false(back.runs[1].is_finished);
    assert_int_equal(back.origins.n, 1);
    assert_int_equal(back.origins.list[0].lineage, 1);
    assert_int_equal(back.origins.list[0].step, 4);
    assert_int_equal(back.n_checkpoints, 2);
    assert_int_equal(back.checkpoints[0].lineage, 2);
    assert_int_equal(back.checkpoints[0].end.step, 7);
    assert_true(back.checkpoints[0].end.rate == 1e-5 / 3);
    assert_int_equal(back.checkpoints[0].evaluated, 5);
    assert_int_equal(back.checkpoints[1].lineage, 1);
    assert_int_equal(back.checkpoints[1].end.step, 4);
    assert_int_equal(back.checkpoints[0].n_parts, 0);
    assert_int_equal(back.checkpoints[1].n_parts, 2);
    assert_int_equal(back.checkpoints[1].parts[1].first_unit, 4);
    assert_int_equal(back.checkpoints[1].parts[1].n_units, 1);
}

static void report_of_a_new_worker_is_nearly_empty(void **state)
{
    struct report r = {.slot = 0, .incarnation = 1};
    struct report back = read_back(&r);

    (void)state;
    assert_int_equal(back.session, REPORT_NONE);
    assert_int_equal(back.end.step, 0);
    assert_int_equal(back.n_runs, 0);
    assert_int_equal(back.origins.n, 0);
    assert_int_equal(back.n_checkpoints, 0);
}

static void report_at_its_limits_fits(void **state)
{
    struct report r = full_report();

    (void)state;
    r.n_runs = 0;
    memset(r.error, '"', sizeof r.error - 1);
    for (int i = 0; i < 2 * REPORT_RUNS_MAX; i++)
        hold(&r, 700 + i, 1, RESUME_STEP_MAX - i, true);
    r.lineage = r.evaluated = RESUME_STEP_MAX;
    r.origins.n = RESUME_ORIGINS_MAX;
    for (int i = 0; i < RESUME_ORIGINS_MAX; i++)
        r.origins.list[i] = (struct resume_origin){RESUME_STEP_MAX - 9 + i, RESUME_STEP_MAX};
    r.end = (struct step_end){.revision = PLAN_REVISION_MAX,
                              .step = RESUME_STEP_MAX,
                              .scale = -0x1.23456789abcdep-1000,
                              .rate = -0x1.23456789abcdep-1000,
                              .updates = RESUME_STEP_MAX,
                              .loss = -0x1.23456789abcdep-1000};
    r.n_checkpoints = RESUME_POINTS_MAX;
    for (int i = 0; i < RESUME_POINTS_MAX; i++)
        r.checkpoints[i] = (struct resume_checkpoint){
            .lineage = RESUME_STEP_MAX,
            .end = r.end,
            .evaluated = RESUME_STEP_MAX,
            .n_parts = RESUME_PARTS_MAX,
            .parts = {
                {700, 1}, {702, 1}, {704, 1}, {706, 1}, {708, 1}, {710, 1}, {712, 1}, {714, 1}}};
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
    refuse(BODY("1", "0", ""), "version: must be 2");
    refuse(BODY("2", "1000", ""), "slot: 1000 is not in 0..999");
    refuse(BODY("2", "0", "{\"firstUnit\":0,\"unitCount\":0,\"step\":1}"), "runs[0].unitCount: 0");
    refuse(BODY("2", "0", "{\"firstUnit\":0,\"unitCount\":1,\"step\":-1}"), "runs[0].step: -1");
    refuse(BODY("2", "0", "{\"firstUnit\":1026,\"unitCount\":2,\"step\":1}"), "runs[0]: 2 units");
    refuse(BODY("2", "0",
                "{\"firstUnit\":0,\"unitCount\":2,\"step\":1},"
                "{\"firstUnit\":1,\"unitCount\":2,\"step\":1}"),
           "runs[1]: 2 units from unit 1; must begin at 2 or later");
    refuse(
        "{\"version\":2,\"slot\":0,\"incarnation\":1,\"revision\":0,\"session\":\"None\","
        "\"checkpoints\":[{\"lineage\":1,\"end\":{\"revision\":1,\"step\":4,\"outcome\":\"Apply\"},"
        "\"parts\":[{\"firstUnit\":2,\"unitCount\":2},{\"firstUnit\":3,\"unitCount\":1}]}]}",
        "checkpoints[0].parts[1]: 1 units from unit 3; must begin at 4 or later");
    refuse("{\"version\":2,\"slot\":0,\"incarnation\":1,\"revision\":1,\"session\":\"Asleep\"}",
           "session: \"Asleep\"");
#define STORE(members)                                                                             \
    "{\"version\":2,\"slot\":0,\"incarnation\":1,\"revision\":0,\"session\":\"None\","             \
    "\"lineage\":3," members "}"
#define END(step) "{\"revision\":1,\"step\":" step ",\"outcome\":\"Apply\"}"
    refuse(STORE("\"origins\":[{\"lineage\":3,\"step\":1}]"), "origins[0]: step 1 of lineage 3");
    refuse(STORE("\"origins\":[{\"lineage\":1,\"step\":1},{\"lineage\":1,\"step\":2}]"),
           "origins[0]: step 1 of lineage 1");
    refuse(STORE("\"origins\":[{\"lineage\":1,\"step\":2},{\"lineage\":2,\"step\":1}]"),
           "origins[1]: step 1 of lineage 2");
    refuse(STORE("\"origins\":[{\"lineage\":1,\"step\":0}]"), "origins[0].step: 0 is not in 1..");
    refuse(STORE("\"checkpoints\":[{\"lineage\":1}]"), "checkpoints[0].end: missing");
    refuse(STORE("\"checkpoints\":[{\"lineage\":0,\"end\":" END("4") "}]"), "lineage: 0 is not");
    refuse(STORE("\"checkpoints\":[{\"lineage\":1,\"end\":" END("0") "}]"),
           "step: 0 is not in 1..");
    refuse(STORE("\"checkpoints\":[{\"lineage\":1,\"end\":" END("4") ",\"evaluated\":5}]"),
           "checkpoints[0].evaluated: 5 is after its step 4");
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
static const struct resume before = {.lineage = 1}; /* where the revision before went on from */
static struct resume at;                            /* by go_on() */

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
    resume_point(&next, list, n, SOURCE_RANDOM, &before, &at);
}

static void assert_rollback(const struct resume *r, int64_t lineage)
{
    assert_int_equal(r->lineage, lineage);
    assert_int_equal(r->step, 0);
    assert_int_equal(r->end.step, 0);
    assert_int_equal(r->evaluated, 0);
    assert_int_equal(r->origins.n, 0);
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
    resume_point(&next, NULL, 0, SOURCE_PRETRAINED, NULL, &at);
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

static void resume_counts_no_units_without_a_lineage(void **state)
{
    const struct report *list[] = {&held[0], &held[1], &held[2]};

    (void)state;
    hold_all(0, 5);
    resume_point(&next, list, 3, SOURCE_RANDOM, NULL, &at);
    assert_rollback(&at, 1);
}

/* --- with checkpoints --- */

static void resume_counts_steps_of_its_own_history_alone(void **state)
{
    const struct resume third = {.lineage = 3, .origins = {2, {{1, 4}, {2, 6}}}};

    (void)state;
    assert_true(resume_counts(&before, 1, 0));
    assert_true(resume_counts(&before, 1, 100));
    assert_false(resume_counts(&before, 2, 1));
    assert_true(resume_counts(&third, 1, 4));
    assert_false(resume_counts(&third, 1, 5)); /* undone by the first rollback */
    assert_true(resume_counts(&third, 2, 4));
    assert_true(resume_counts(&third, 2, 6));
    assert_false(resume_counts(&third, 2, 3)); /* lineage 2 began with 4 */
    assert_false(resume_counts(&third, 2, 7));
    assert_true(resume_counts(&third, 3, 6));
    assert_true(resume_counts(&third, 3, 100));
    assert_false(resume_counts(&third, 4, 100));
}

struct saved {
    int64_t lineage, step, evaluated;
};

/* What the worker with three, two and two units reports. */
struct holder {
    int64_t lineage, end; /* lineage 0: no report */
    int64_t step;         /* of its units; -1: it holds none */
    bool is_finished;
};

struct row {
    const char *name;
    int64_t last;                   /* lineage of the revision before; 0: there is none */
    struct resume_origins origins;  /* of that */
    struct resume_origins reported; /* of the lineages of workers, where that is another one */
    struct holder workers[N_WORKERS];
    struct saved saved[RESUME_POINTS_MAX];
    int64_t want_lineage, want_step, want_evaluated;
    struct resume_origins want_origins;
    const char *want; /* source of each unit: slot, "C"heckpoint, or "R"andom */
};

static struct row rows[] = {
    {.name = "resume_with_a_lost_worker_goes_back_to_the_checkpoint",
     .last = 1,
     .workers = {{1, 45, 45, false}, {1, 45, 45, false}},
     .saved = {{1, 40, 38}, {1, 20, 18}},
     .want_lineage = 2,
     .want_step = 40,
     .want_evaluated = 38,
     .want_origins = {1, {{1, 40}}},
     .want = "CCCCCCC"},
    {.name = "resume_needs_no_checkpoint_when_nothing_is_lost",
     .last = 1,
     .workers = {{1, 45, 45, false}, {1, 45, 45, false}, {1, 45, 45, false}},
     .saved = {{1, 40, 38}, {1, 45, 0}},
     .want_lineage = 1,
     .want_step = 45,
     .want_evaluated = 41,
     .want = "0001122"},
    {.name = "resume_takes_what_is_lost_from_a_checkpoint_of_the_very_step",
     .last = 1,
     .workers = {{1, 45, 45, false}, {0, 0, 0, false}, {1, 45, 45, false}},
     .saved = {{1, 45, 30}, {1, 40, 30}},
     .want_lineage = 1,
     .want_step = 45,
     .want_evaluated = 41,
     .want = "000CC22"},
    {.name = "resume_joins_a_checkpoint_with_workers_that_have_yet_to_update",
     .last = 1,
     .workers = {{1, 44, 44, true}, {1, 45, 45, false}, {0, 0, 0, false}},
     .saved = {{1, 45, 30}},
     .want_lineage = 1,
     .want_step = 45,
     .want_evaluated = 41,
     .want = "00011CC"},
    {.name = "resume_takes_the_evaluation_with_the_records_of_a_lost_leader",
     .last = 1,
     .workers = {{0, 0, 0, false}, {1, 45, 45, false}, {1, 45, 45, false}},
     .saved = {{1, 45, 30}},
     .want_lineage = 1,
     .want_step = 45,
     .want_evaluated = 30,
     .want = "CCC1122"},
    {.name = "resume_never_joins_a_checkpoint_with_gradients_without_an_end",
     .last = 1,
     .workers = {{1, 44, 44, true}, {1, 44, 44, true}, {0, 0, 0, false}},
     .saved = {{1, 44, 30}, {1, 40, 30}},
     .want_lineage = 1,
     .want_step = 44,
     .want_evaluated = 41,
     .want = "00011CC"},
    {.name = "resume_right_after_a_rollback_stays_in_its_lineage",
     .last = 2,
     .origins = {1, {{1, 40}}},
     .workers = {{2, 40, 40, false}, {0, 0, 0, false}, {2, 40, 40, false}},
     .saved = {{1, 45, 30}, {1, 40, 30}},
     .want_lineage = 2,
     .want_step = 40,
     .want_origins = {1, {{1, 40}}},
     .want = "000CC22"},
    {.name = "resume_never_counts_a_checkpoint_that_was_rolled_back",
     .last = 2,
     .origins = {1, {{1, 40}}},
     .workers = {{2, 45, 45, false}, {0, 0, 0, false}, {2, 45, 45, false}},
     .saved = {{1, 45, 30}, {1, 40, 30}},
     .want_lineage = 3,
     .want_step = 40,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 40}}},
     .want = "CCCCCCC"},
    {.name = "resume_goes_back_beyond_the_last_rollback",
     .last = 3,
     .origins = {2, {{1, 40}, {2, 50}}},
     .workers = {{3, 55, 55, false}},
     .saved = {{2, 55, 30}, {1, 45, 30}, {1, 30, 30}},
     .want_lineage = 4,
     .want_step = 30,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 30}}},
     .want = "CCCCCCC"},
    {.name = "resume_goes_back_into_the_lineage_before",
     .last = 3,
     .origins = {2, {{1, 40}, {2, 50}}},
     .workers = {{3, 55, 55, false}},
     .saved = {{2, 45, 30}, {1, 40, 30}},
     .want_lineage = 4,
     .want_step = 45,
     .want_evaluated = 30,
     .want_origins = {2, {{1, 40}, {2, 45}}},
     .want = "CCCCCCC"},
    {.name = "resume_takes_the_newer_of_two_checkpoints_with_a_step",
     .last = 2,
     .origins = {1, {{1, 40}}},
     .workers = {{2, 45, 45, false}},
     .saved = {{1, 40, 30}, {2, 40, 40}},
     .want_lineage = 3,
     .want_step = 40,
     .want_evaluated = 40,
     .want_origins = {2, {{1, 40}, {2, 40}}},
     .want = "CCCCCCC"},
    {.name = "resume_after_a_revision_that_no_worker_took_goes_back_once_more",
     .last = 2,
     .origins = {1, {{1, 40}}},
     .workers = {{1, 45, 45, false}, {1, 45, 45, false}, {1, 45, 45, false}},
     .saved = {{1, 45, 30}, {1, 40, 30}},
     .want_lineage = 3,
     .want_step = 40,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 40}}},
     .want = "CCCCCCC"},
    {.name = "resume_goes_back_to_any_checkpoint_before_it_begins_again",
     .last = 2,
     .workers = {{2, 45, 45, false}},
     .saved = {{1, 45, 30}, {1, 40, 30}},
     .want_lineage = 3,
     .want_step = 45,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 45}}},
     .want = "CCCCCCC"},
    {.name = "resume_of_an_interrupted_run_follows_its_newest_checkpoint",
     .reported = {2, {{1, 10}, {2, 20}}},
     .workers = {{3, 0, -1, false}, {3, 0, -1, false}, {3, 0, -1, false}},
     .saved = {{3, 30, 25}, {3, 25, 25}, {2, 40, 25}},
     .want_lineage = 4,
     .want_step = 30,
     .want_evaluated = 25,
     .want_origins = {3, {{1, 10}, {2, 20}, {3, 30}}},
     .want = "CCCCCCC"},
    /* All were replaced, and before they could report, the next revision had to begin with 0. */
    {.name = "resume_of_a_restarted_job_finds_what_its_store_has",
     .last = 4,
     .reported = {2, {{1, 10}, {2, 20}}},
     .workers = {{3, 0, -1, false}, {4, 0, 0, false}, {3, 0, -1, false}},
     .saved = {{3, 30, 25}, {3, 25, 25}, {2, 40, 25}},
     .want_lineage = 5,
     .want_step = 30,
     .want_evaluated = 25,
     .want_origins = {3, {{1, 10}, {2, 20}, {3, 30}}},
     .want = "CCCCCCC"},
    {.name = "resume_before_the_first_checkpoint_begins_again",
     .last = 1,
     .workers = {{1, 45, 45, false}, {1, 45, 45, false}},
     .want_lineage = 2,
     .want = "RRRRRRR"},
    /* It would have an end that no worker has: no order of events leads there. */
    {.name = "resume_prefers_a_checkpoint_that_is_ahead_of_all_workers",
     .last = 1,
     .workers = {{1, 44, 44, false}, {1, 44, 44, false}, {1, 44, 44, false}},
     .saved = {{1, 45, 30}},
     .want_lineage = 2,
     .want_step = 45,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 45}}},
     .want = "CCCCCCC"},
    {.name = "resume_never_repeats_the_lineage_of_a_checkpoint",
     .last = 1,
     .workers = {{1, 45, 45, false}},
     .saved = {{3, 50, 30}, {1, 40, 30}},
     .want_lineage = 4,
     .want_step = 40,
     .want_evaluated = 30,
     .want_origins = {1, {{1, 40}}},
     .want = "CCCCCCC"},
    {.name = "resume_forgets_the_oldest_of_many_rollbacks",
     .last = 9,
     .origins = {8, {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}}},
     .saved = {{9, 9, 9}},
     .workers = {{9, 9, 9, false}, {9, 10, 10, false}},
     .want_lineage = 10,
     .want_step = 9,
     .want_evaluated = 9,
     .want_origins = {8, {{2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}, {9, 9}}},
     .want = "CCCCCCC"},
};

static const char *source_letter(const struct resume_source *s)
{
    static const char *const worker[] = {"0", "1", "2"};

    return s->kind == SOURCE_WORKER       ? worker[s->slot]
           : s->kind == SOURCE_CHECKPOINT ? "C"
           : s->kind == SOURCE_RANDOM     ? "R"
                                          : "?";
}

static void check_row(void **state)
{
    const struct row *row = *state;
    const struct resume last = {.lineage = row->last, .origins = row->origins};
    const struct plan plan = plan_of(N_WORKERS, slots, cut);
    struct report reports[N_WORKERS];
    const struct report *list[N_WORKERS];
    struct resume got;
    char sources[N_UNITS + 1] = "";
    int n = 0;

    for (int i = 0, unit = 0; i < N_WORKERS; unit += cut[i++]) {
        const struct holder *h = &row->workers[i];
        struct report *r = &reports[n];

        if (h->lineage == 0)
            continue;
        *r = report_of(i, h->lineage, h->end);
        r->evaluated = h->end > 41 ? 41 : 0;
        if (h->lineage != row->last)
            r->origins = row->reported;
        if (h->step >= 0)
            hold(r, unit, cut[i], h->step, h->is_finished);
        for (int k = 0; k < RESUME_POINTS_MAX && row->saved[k].lineage > 0; k++)
            r->checkpoints[r->n_checkpoints++] =
                (struct resume_checkpoint){.lineage = row->saved[k].lineage,
                                           .end = {.revision = 7, .step = row->saved[k].step},
                                           .evaluated = row->saved[k].evaluated};
        list[n++] = r;
    }
    memset(&got, 0x5a, sizeof got);
    resume_point(&plan, list, n, SOURCE_RANDOM, row->last > 0 ? &last : NULL, &got);
    assert_int_equal(got.lineage, row->want_lineage);
    assert_int_equal(got.step, row->want_step);
    assert_int_equal(got.end.step, row->want_step);
    assert_int_equal(got.evaluated, row->want_evaluated);
    assert_int_equal(got.origins.n, row->want_origins.n);
    for (int i = 0; i < got.origins.n; i++) {
        assert_int_equal(got.origins.list[i].lineage, row->want_origins.list[i].lineage);
        assert_int_equal(got.origins.list[i].step, row->want_origins.list[i].step);
    }
    for (int i = 0; i < got.n_sources; i++)
        for (int u = 0; u < got.sources[i].n_units; u++)
            text_add(sources, sizeof sources, "%s", source_letter(&got.sources[i]));
    assert_string_equal(sources, row->want);
}

/* --- every combination of workers --- */

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
    resume_point(p, list, n, SOURCE_RANDOM, &before, &got);
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

/* --- every combination of workers, checkpoints and rollbacks --- */

/* Lineage 1 was left at step 4 and lineage 2 at step 5. */
#define N_LINEAGES 3
static const int64_t begins[N_LINEAGES + 1] = {0, 0, 4, 5};
static const struct resume_origins origins_of[N_LINEAGES + 1] = {
    [2] = {1, {{1, 4}}}, [3] = {2, {{1, 4}, {2, 5}}}};
static const struct saved shelf[] = {{1, 3, 3}, {1, 4, 4}, {1, 5, 5},
                                     {2, 4, 4}, {2, 6, 5}, {3, 6, 6}};
#define N_SHELF   (int)(sizeof shelf / sizeof shelf[0])
#define N_REPORTS (1 + N_LINEAGES * 3 * 4) /* none; lineage, STEP_END, units */

/* Does this step lead to lineage `newest`? Without the help of origins. */
static bool leads(int64_t newest, int64_t lineage, int64_t step)
{
    return lineage >= 1 && lineage <= newest && step >= begins[lineage] &&
           (lineage == newest || step <= begins[lineage + 1]);
}

static const int halves[] = {4, 3};

/* What worker 0 or 1 of two reports; false: nothing. */
static bool choose_report(int worker, int choice, unsigned saved, struct report *r)
{
    int64_t lineage = 1 + (choice - 1) % N_LINEAGES;
    int end = (choice - 1) / N_LINEAGES % 3;
    int what = (choice - 1) / N_LINEAGES / 3;
    int64_t step = end == 0 ? 0 : lineage == 1 ? 3 + end : begins[lineage] + end - 1;

    if (choice == 0)
        return false;
    *r = report_of(worker, lineage, step);
    r->evaluated = step;
    r->origins = origins_of[lineage];
    if (what == 1)
        hold(r, 4 * worker, halves[worker], step, false);
    if (what == 2)
        hold(r, 4 * worker, halves[worker], step, true);
    if (what == 3 && step > 0)
        hold(r, 4 * worker, halves[worker], step - 1, true);
    for (int i = 0; i < N_SHELF; i++)
        if (saved & 1u << i)
            r->checkpoints[r->n_checkpoints++] =
                (struct resume_checkpoint){.lineage = shelf[i].lineage,
                                           .end = {.revision = 7, .step = shelf[i].step},
                                           .evaluated = shelf[i].evaluated};
    return true;
}

/* Is the unit's state of this step, in the history of `newest`, where `s` says? */
static bool is_there(const struct resume_source *s, int unit, int64_t newest, int64_t step,
                     const struct report *const list[], int n)
{
    for (int i = 0; i < n; i++) {
        const struct report_run *run = report_find(list[i], unit);

        if (s->kind == SOURCE_WORKER && list[i]->slot == s->slot)
            return list[i]->lineage == newest && run &&
                   (run->step == step || (run->step == step - 1 && run->is_finished));
        for (int k = 0; s->kind == SOURCE_CHECKPOINT && k < list[i]->n_checkpoints; k++)
            if (list[i]->checkpoints[k].end.step == step &&
                leads(newest, list[i]->checkpoints[k].lineage, step))
                return true;
    }
    return s->kind == SOURCE_RANDOM && step == 0;
}

/* Could the job have stayed in `newest`, at its step `end`? */
static bool could_stay(int64_t newest, int64_t end, const struct report *const list[], int n)
{
    if (end < begins[newest])
        return false;
    for (int unit = 0; unit < N_UNITS; unit++) {
        const struct resume_source sources[] = {{unit, 1, SOURCE_WORKER, 0},
                                                {unit, 1, SOURCE_WORKER, 1},
                                                {unit, 1, SOURCE_CHECKPOINT, 0}};
        bool is_somewhere = false;

        for (int s = 0; s < 3; s++)
            is_somewhere = is_somewhere || is_there(&sources[s], unit, newest, end, list, n);
        if (!is_somewhere)
            return false;
    }
    return true;
}

/* The newest checkpoint that leads to this lineage; 0: none. */
static int64_t newest_saved(int64_t lineage, const struct report *const list[], int n)
{
    int64_t saved = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i]->n_checkpoints; k++) {
            const struct resume_checkpoint *c = &list[i]->checkpoints[k];

            if (leads(lineage, c->lineage, c->end.step) && c->end.step > saved)
                saved = c->end.step;
        }
    return saved;
}

static void check_history(const struct plan *p, int64_t last, const struct report *const list[],
                          int n)
{
    const struct resume last_point = {.lineage = last, .origins = origins_of[last]};
    struct resume got;
    int64_t newest = last, base;
    int64_t end = 0;
    int64_t saved; /* newest checkpoint that leads to lineage `base` */
    bool stays;
    bool is_known = true; /* what came before lineage `base` */

    for (int i = 0; i < n; i++)
        newest = list[i]->lineage > newest ? list[i]->lineage : newest;
    for (int i = 0; i < n; i++)
        if (list[i]->lineage == newest && list[i]->end.step > end)
            end = list[i]->end.step;
    base = newest;
    saved = newest_saved(base, list, n);
    stays = newest > 0 && saved <= end && could_stay(newest, end, list, n);
    for (int64_t older = newest; !stays && saved == 0 && older > 0; older--)
        for (int i = 0; i < n; i++)
            if (list[i]->lineage == older && newest_saved(older, list, n) > saved)
                saved = newest_saved(base = older, list, n);
    for (int i = 0; i < n && !stays && (saved == 0 || !is_known); i++)
        for (int k = 0; k < list[i]->n_checkpoints; k++) {
            const struct resume_checkpoint *c = &list[i]->checkpoints[k];

            is_known = false;
            if (c->end.step < saved || (c->end.step == saved && c->lineage < base))
                continue;
            saved = c->end.step;
            base = c->lineage;
        }
    resume_point(p, list, n, SOURCE_RANDOM, last > 0 ? &last_point : NULL, &got);

    assert_int_equal(got.step, stays ? end : saved);
    assert_int_equal(got.end.step, got.step);
    assert_in_range(got.evaluated, 0, got.step);
    assert_int_equal(got.lineage == newest, stays);
    for (int i = 0; i < n && !stays; i++) {
        assert_true(got.lineage > list[i]->lineage);
        for (int k = 0; k < list[i]->n_checkpoints; k++)
            assert_true(got.lineage > list[i]->checkpoints[k].lineage);
    }
    for (int s = 0; s < got.n_sources; s++)
        for (int u = 0; u < got.sources[s].n_units; u++)
            assert_true(
                is_there(&got.sources[s], got.sources[s].first_unit + u, base, got.step, list, n));
    /* Its history is that of one lineage, up to the step. */
    assert_int_equal(resume_origins_check(&got.origins, got.lineage, NULL), ERR_OK);
    for (int64_t lineage = 1; lineage <= newest; lineage++)
        for (int64_t step = 1; step <= 8; step++) {
            bool counts = resume_counts(&got, lineage, step);

            if (stays)
                assert_int_equal(counts, leads(base, lineage, step));
            else if (counts)
                assert_true(step <= got.step &&
                            (is_known ? leads(base, lineage, step) : lineage == base));
        }
}

static void resume_never_mixes_what_rollbacks_have_parted(void **state)
{
    static const int two_slots[] = {0, 1};
    const struct plan p = plan_of(2, two_slots, halves);

    (void)state;
    for (int64_t last = 0; last <= N_LINEAGES; last++)
        for (unsigned saved = 0; saved < 1u << N_SHELF; saved++)
            for (int k = 0; k < N_REPORTS * N_REPORTS; k++) {
                struct report r[2];
                const struct report *list[2];
                int n = 0;

                if (choose_report(0, k % N_REPORTS, saved, &r[n]))
                    list[n] = &r[n], n++;
                if (choose_report(1, k / N_REPORTS, saved, &r[n]))
                    list[n] = &r[n], n++;
                check_history(&p, last, list, n);
            }
}

/* --- every combination of workers' own stores --- */

/* Of the shards of three workers, which ones a worker has of the checkpoints of two steps. */
#define N_SHARDS (1 << N_WORKERS)
#define N_DISKS  (N_SHARDS * N_SHARDS)
static const int64_t saved_steps[] = {44, 40};

static struct report disk_of(int slot, int choice)
{
    struct report r = report_of(slot, 1, 45);

    for (int k = 0; k < 2; k++) {
        unsigned shards = (unsigned)(k == 0 ? choice % N_SHARDS : choice / N_SHARDS);
        struct resume_checkpoint *c = &r.checkpoints[r.n_checkpoints];

        if (shards == 0)
            continue;
        *c = (struct resume_checkpoint){
            .lineage = 1, .end = {.revision = 7, .step = saved_steps[k]}, .evaluated = 30};
        for (int w = 0; w < N_WORKERS; w++)
            if (shards & 1u << w)
                c->parts[c->n_parts++] = (struct resume_part){where_they_are[w].first_unit, cut[w]};
        r.n_checkpoints++;
    }
    return r;
}

/* Does worker `slot` have the shard of worker `w` of this step? From what was chosen. */
static bool has_shard(int choice, int k, int w)
{
    return (unsigned)(k == 0 ? choice % N_SHARDS : choice / N_SHARDS) & 1u << w;
}

/* All units in memory are lost. The first of the reports is of a worker that is not in the plan. */
static void check_disks(const struct plan *p, const int *choices)
{
    struct report r[N_WORKERS];
    const struct report *list[N_WORKERS];
    struct resume got;
    int k = 0;

    for (int i = 0; i < N_WORKERS; i++) {
        r[i] = disk_of(i, choices[i]);
        list[i] = &r[i];
    }
    for (; k < 2; k++) {
        bool is_whole = true;

        for (int w = 0; w < N_WORKERS; w++)
            is_whole = is_whole && (has_shard(choices[0], k, w) || has_shard(choices[1], k, w) ||
                                    has_shard(choices[2], k, w));
        if (is_whole)
            break;
    }
    resume_point(p, list, N_WORKERS, SOURCE_RANDOM, &before, &got);
    if (k == 2) {
        assert_rollback(&got, 2);
        return;
    }
    assert_int_equal(got.lineage, 2);
    assert_int_equal(got.step, saved_steps[k]);
    assert_int_equal(got.evaluated, 30);
    for (int s = 0, unit = 0; s < got.n_sources; s++)
        for (int i = 0; i < got.sources[s].n_units; i++, unit++) {
            int w = unit < 3 ? 0 : unit < 5 ? 1 : 2; /* whose shard it is in */
            int own = p->workers[0].slot == 0 ? w : unit < 4 ? 2 : 1;
            int first = 0;

            while (!has_shard(choices[first], k, w))
                first++;
            assert_int_equal(got.sources[s].kind, SOURCE_PEER);
            assert_int_equal(got.sources[s].first_unit + i, unit);
            assert_int_equal(got.sources[s].slot, has_shard(choices[own], k, w) ? own : first);
        }
}

static void resume_finds_what_is_left_of_checkpoints_on_any_disks(void **state)
{
    static const int two_slots[] = {2, 1};
    static const int two[] = {4, 3};
    const struct plan plans[] = {plan_of(N_WORKERS, slots, cut), plan_of(2, two_slots, two)};

    (void)state;
    for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++)
        for (int k = 0; k < N_DISKS * N_DISKS * N_DISKS; k++)
            check_disks(&plans[p],
                        (const int[]){k % N_DISKS, k / N_DISKS % N_DISKS, k / N_DISKS / N_DISKS});
}

/* What is lost with a worker is in the keeper's store, of the very step. */
static void resume_takes_what_is_lost_from_a_disk_when_it_has_the_very_step(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        held[i].n_checkpoints = 1;
        held[i].checkpoints[0] = (struct resume_checkpoint){
            .lineage = 1,
            .end = held[i].end,
            .n_parts = 1,
            .parts = {{i == 0 ? 0 : 3, i == 0 ? 3 : 4}}}; /* worker 1 keeps for worker 2 */
    }
    go_on(2);
    assert_int_equal(at.lineage, 1);
    assert_int_equal(at.step, 5);
    assert_int_equal(at.n_sources, 3);
    assert_int_equal(at.sources[1].kind, SOURCE_WORKER);
    assert_int_equal(at.sources[2].kind, SOURCE_PEER);
    assert_int_equal(at.sources[2].slot, 1);
    assert_int_equal(at.sources[2].first_unit, 5);
}

#define FROM_HELD(test) cmocka_unit_test_setup(test, set_up)

#define N_TESTS 23

int main(void)
{
    struct CMUnitTest tests[N_TESTS + sizeof rows / sizeof rows[0]] = {
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
        FROM_HELD(resume_counts_no_units_without_a_lineage),
        cmocka_unit_test(resume_is_right_for_whatever_three_workers_hold),
        cmocka_unit_test(resume_counts_steps_of_its_own_history_alone),
        cmocka_unit_test(resume_never_mixes_what_rollbacks_have_parted),
        FROM_HELD(resume_takes_what_is_lost_from_a_disk_when_it_has_the_very_step),
        cmocka_unit_test(resume_finds_what_is_left_of_checkpoints_on_any_disks),
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[N_TESTS + i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
