#include "cli/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct row {
    const char *name, *text;
    const char *says; /* NULL: it is read */
} rows[] = {
    {"cut_may_begin_with_any_worker", "7=2:3,0:4", NULL},
    {"cut_may_be_one_worker", "1=0:7", NULL},
    {"cut_without_a_step_is_refused", "2:3,0:4", "must be STEP=WORKER:UNITS,..."},
    {"cut_at_step_0_is_refused", "0=0:7", "must be STEP=WORKER:UNITS,..."},
    {"cut_without_workers_is_refused", "7=", "must be STEP=WORKER:UNITS,..."},
    {"cut_without_units_is_refused", "7=0", "must be STEP=WORKER:UNITS,..."},
    {"cut_with_no_units_for_a_worker_is_refused", "7=0:0,1:7", "must be STEP=WORKER:UNITS,..."},
    {"cut_with_a_comma_at_its_end_is_refused", "7=0:3,1:4,", "must be STEP=WORKER:UNITS,..."},
    {"cut_with_more_after_it_is_refused", "7=0:3,1:4 ", "must be STEP=WORKER:UNITS,..."},
    {"cut_with_a_sign_is_refused", "7=+0:7", "must be STEP=WORKER:UNITS,..."},
    {"cut_for_a_worker_that_is_not_there_is_refused", "7=3:7", "worker 3 is none of --workers"},
    {"cut_with_a_worker_twice_is_refused", "7=0:3,1:1,0:3", "worker 0 is given twice"},
    {"cut_with_too_few_units_is_refused", "7=0:3,1:3", "has 6 units, the model has 7"},
    {"cut_with_too_many_units_is_refused", "7=0:3,1:5", "has 8 units, the model has 7"},
};

static struct model tiny(void)
{
    struct model m;

    assert_int_equal(model_preset("BertTiny", &m, NULL), ERR_OK);
    return m;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    const struct model m = tiny();
    struct cut got = {.step = -1};
    struct err err = {.code = ERR_OK};
    enum err_code rc = cut_parse(row->text, 3, &m, &got, &err);

    assert_int_equal(rc, row->says ? ERR_INVALID : ERR_OK);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("said \"%s\"", err.text);
    if (row->says)
        assert_int_equal(got.step, -1);
}

static void cut_replaces_the_plans_workers(void **state)
{
    static const struct node workers[] = {{.name = "worker-0", .cpu_milli = 100},
                                          {.name = "worker-1", .cpu_milli = 200},
                                          {.name = "worker-2", .cpu_milli = 300}};
    struct plan p = {.revision = 5,
                     .spec.model = tiny(),
                     .n_workers = 2,
                     .workers = {{.slot = 0, .n_units = 3, .predicted_ms = 1},
                                 {.slot = 1, .first_unit = 3, .n_units = 4}}};
    struct cut cut;

    (void)state;
    assert_int_equal(cut_parse("7=2:1,1:6", 3, &p.spec.model, &cut, NULL), ERR_OK);
    assert_int_equal(cut.step, 7);
    cut_apply(&cut, workers, &p);
    assert_int_equal(p.n_workers, 2);
    assert_int_equal(p.workers[0].slot, 2);
    assert_string_equal(p.workers[0].node, "worker-2");
    assert_int_equal(p.workers[0].cpu_milli, 300);
    assert_int_equal(p.workers[0].n_units, 1);
    assert_string_equal(p.workers[0].units, "embeddings");
    assert_true(p.workers[0].predicted_ms == 0);
    assert_int_equal(p.workers[1].slot, 1);
    assert_int_equal(p.workers[1].first_unit, 1);
    assert_int_equal(p.workers[1].n_units, 6);
}

int main(void)
{
    struct CMUnitTest tests[1 + sizeof rows / sizeof rows[0]] = {
        cmocka_unit_test(cut_replaces_the_plans_workers)};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[1 + i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
