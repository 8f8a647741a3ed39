#include "train/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tiny_model.h"

static const struct spec spec = {.model = TINY_MODEL,
                                 .training = {.optimizer = SPEC_OPTIMIZER_ADAMW,
                                              .beta1 = 0.9,
                                              .beta2 = 0.999,
                                              .epsilon = 1e-8,
                                              .seed = 3}};
static struct state s;

static int set_up(void **state)
{
    (void)state;
    s = (struct state){.lineage = 1, .step = 4, .updates = 3};
    return state_add(&s, &spec, 0, 2, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    state_deinit(&s);
    return 0;
}

static struct step_end end_of(int64_t step, int64_t updates)
{
    return (struct step_end){
        .revision = 1, .step = step, .scale = 1, .rate = 0.1, .updates = updates, .loss = 0.5};
}

/* A worker whose backward passes of step 5 are done. */
static float finish_step(void)
{
    for (int u = 0; u < 2; u++)
        s.units[u].grads[0] = 1;
    s.is_finished = true;
    return s.units[0].params[0];
}

static void resume_at(int64_t lineage, int64_t step, const struct step_end *end)
{
    static struct resume at;

    at = (struct resume){.lineage = lineage, .step = step};
    if (end)
        at.end = *end;
    assert_int_equal(state_resume(&s, &spec, &at, NULL), ERR_OK);
}

static void state_units_begin_alike_wherever_they_are(void **state)
{
    struct state *other = calloc(1, sizeof *other);

    (void)state;
    assert_non_null(other);
    assert_int_equal(state_add(other, &spec, 1, 3, NULL), ERR_OK);
    assert_memory_equal(other->units[1].params, s.units[1].params,
                        s.units[1].count * sizeof(float));
    assert_false(state_has(other, 0));
    assert_true(state_has(other, 3));
    state_deinit(other);
    free(other);
}

static void state_apply_updates_own_units_and_drops_kept_ones(void **state)
{
    struct step_end end = end_of(5, 3);
    float before = finish_step();

    (void)state;
    assert_int_equal(state_add(&s, &spec, 3, 1, NULL), ERR_OK);
    s.hold[3] = STATE_KEPT;
    assert_int_equal(state_apply(&s, &spec, &end, NULL), ERR_OK);
    assert_true(s.units[0].params[0] < before);
    assert_true(s.units[0].grads[0] == 0);
    assert_int_equal(s.step, 5);
    assert_int_equal(s.updates, 4);
    assert_false(s.is_finished);
    assert_false(state_has(&s, 3));
}

static void state_apply_of_a_skipped_step_changes_no_weight(void **state)
{
    struct step_end end = end_of(5, 3);
    float before = finish_step();

    (void)state;
    end.outcome = STEP_SKIP;
    assert_int_equal(state_apply(&s, &spec, &end, NULL), ERR_OK);
    assert_true(s.units[0].params[0] == before);
    assert_true(s.units[0].grads[0] == 0);
    assert_int_equal(s.step, 5);
    assert_int_equal(s.updates, 3);
}

static void state_apply_fails_with_the_job(void **state)
{
    struct step_end end = end_of(5, 3);
    struct err err;

    (void)state;
    end.outcome = STEP_FAIL;
    assert_int_equal(state_apply(&s, &spec, &end, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "step 5: the loss or a gradient is not finite"));
}

/* The STEP_END that another worker has received. */
static void state_resume_does_the_update_that_is_missing(void **state)
{
    struct step_end end = end_of(5, 3);
    float before = finish_step();

    (void)state;
    resume_at(1, 5, &end);
    assert_true(s.units[0].params[0] < before);
    assert_int_equal(s.step, 5);
    assert_int_equal(s.updates, 4);
    assert_int_equal(s.hold[0], STATE_KEPT);
}

static void state_resume_does_no_update_twice(void **state)
{
    struct step_end end = end_of(4, 3);
    float before = finish_step();

    (void)state;
    end.outcome = STEP_SKIP;
    resume_at(1, 4, &end);
    assert_true(s.units[0].params[0] == before);
    assert_true(s.units[0].grads[0] == 0); /* that step is computed again */
    assert_int_equal(s.step, 4);
    assert_int_equal(s.updates, 3);
    assert_false(s.is_finished);
}

static void state_resume_drops_what_is_of_another_step_or_lineage(void **state)
{
    static const struct {
        int64_t lineage, step;
        bool is_finished;
    } rows[] = {{2, 4, true}, {2, 0, false}, {1, 6, true}, {1, 5, false}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct step_end end = end_of(rows[i].step, rows[i].step - 1);

        tear_down(NULL);
        assert_int_equal(set_up(NULL), 0);
        s.is_finished = rows[i].is_finished;
        resume_at(rows[i].lineage, rows[i].step, rows[i].step > 0 ? &end : NULL);
        assert_false(state_has(&s, 0));
        assert_int_equal(s.step, rows[i].step);
        assert_int_equal(s.updates, rows[i].step);
        assert_int_equal(s.lineage, rows[i].lineage);
    }
}

static void state_reaches_its_own_step_and_with_gradients_the_next_one(void **state)
{
    static const struct {
        int64_t lineage, step;
        bool without, with; /* gradients */
    } rows[] = {{1, 4, true, true},   {1, 5, false, true},  {1, 3, false, false},
                {1, 6, false, false}, {2, 4, false, false}, {2, 5, false, false}};

    (void)state;
    s.hold[1] = STATE_KEPT; /* its gradients are another worker's */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct resume at = {.lineage = rows[i].lineage, .step = rows[i].step};

        s.is_finished = false;
        assert_int_equal(state_reaches(&s, 0, &at), rows[i].without);
        assert_int_equal(state_reaches(&s, 1, &at), rows[i].without);
        s.is_finished = true;
        assert_int_equal(state_reaches(&s, 0, &at), rows[i].with);
        assert_int_equal(state_reaches(&s, 1, &at), rows[i].without);
        assert_false(state_reaches(&s, 2, &at));
    }
}

static void state_is_past_what_its_lineage_has_done_before(void **state)
{
    static const struct {
        int64_t lineage, step;
        bool want;
    } rows[] = {{2, 3, true}, {2, 4, false}, {2, 5, false}, {1, 5, true}, {3, 0, false}};

    (void)state;
    s.lineage = 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct resume at = {.lineage = rows[i].lineage, .step = rows[i].step};

        assert_int_equal(state_is_past(&s, &at), rows[i].want);
    }
}

static void state_resume_drops_a_unit_that_came_only_in_part(void **state)
{
    struct step_end end = end_of(4, 3);

    (void)state;
    assert_int_equal(state_take(&s, &spec, 2, NULL), ERR_OK);
    assert_false(state_has(&s, 2));
    resume_at(1, 4, &end);
    assert_null(s.units[2].params);
    assert_true(state_has(&s, 1));
}

static void state_report_has_runs_of_whole_units(void **state)
{
    struct report r = {.slot = 1};

    (void)state;
    assert_int_equal(state_add(&s, &spec, 3, 1, NULL), ERR_OK);
    s.hold[3] = STATE_KEPT;
    assert_int_equal(state_take(&s, &spec, 4, NULL), ERR_OK); /* on its way */
    s.is_finished = true;
    s.end = end_of(4, 3);
    state_report(&s, &r);
    assert_int_equal(r.lineage, 1);
    assert_int_equal(r.end.step, 4);
    assert_int_equal(r.n_runs, 2);
    assert_int_equal(r.runs[0].n_units, 2);
    assert_int_equal(r.runs[0].step, 4);
    assert_true(r.runs[0].is_finished);
    assert_int_equal(r.runs[1].first_unit, 3);
    assert_int_equal(r.runs[1].n_units, 1);
    assert_false(r.runs[1].is_finished);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(state_units_begin_alike_wherever_they_are),
        TEST(state_apply_updates_own_units_and_drops_kept_ones),
        TEST(state_apply_of_a_skipped_step_changes_no_weight),
        TEST(state_apply_fails_with_the_job),
        TEST(state_resume_does_the_update_that_is_missing),
        TEST(state_resume_does_no_update_twice),
        TEST(state_resume_drops_what_is_of_another_step_or_lineage),
        TEST(state_reaches_its_own_step_and_with_gradients_the_next_one),
        TEST(state_is_past_what_its_lineage_has_done_before),
        TEST(state_resume_drops_a_unit_that_came_only_in_part),
        TEST(state_report_has_runs_of_whole_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
