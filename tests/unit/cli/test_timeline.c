#include "cli/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct timeline_params params;

static struct timeline_params *pipeline(int n_stages, int m, double ms)
{
    params = (struct timeline_params){.n_stages = n_stages, .micro_batches = {m, m}};
    for (int i = 0; i < n_stages; i++) {
        params.stages[i] = (struct timeline_stage){.ms = ms, .is_measured = true};
        (void)snprintf(params.stages[i].node, sizeof params.stages[i].node, "node-%d", i);
    }
    return &params;
}

static double sum_of(const struct timeline *t, int stage, enum timeline_kind kind)
{
    double sum = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].stage == stage && t->spans[i].kind == kind)
            sum += t->spans[i].ms;
    return sum;
}

static void expect_near(double value, double want)
{
    if (!(fabs(value - want) < 1e-9))
        fail_msg("%.12g is not %.12g", value, want);
}

static void timeline_of_equal_stages_takes_m_plus_s_minus_1(void **state)
{
    struct timeline t;

    (void)state;
    assert_int_equal(timeline_make(pipeline(4, 8, 3), &t, NULL), ERR_OK);
    expect_near(t.end_ms, (8 + 4 - 1) * 3.0);
    for (int s = 0; s < 4; s++) {
        expect_near(sum_of(&t, s, TIMELINE_FORWARD), 8);
        expect_near(sum_of(&t, s, TIMELINE_BACKWARD), 16);
        expect_near(sum_of(&t, s, TIMELINE_IDLE), 9);
        expect_near(sum_of(&t, s, TIMELINE_EXCHANGE), 0);
    }
    timeline_deinit(&t);
}

static void timeline_of_a_serial_step_takes_m_times_s(void **state)
{
    struct timeline t;

    (void)state;
    pipeline(3, 5, 3)->is_serial = true;
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    expect_near(t.end_ms, 3 * 5 * 3.0);
    timeline_deinit(&t);
}

static void timeline_has_no_gaps_and_no_overlaps(void **state)
{
    struct timeline t;

    (void)state;
    pipeline(6, 7, 3);
    for (int i = 0; i < 6; i++) {
        params.stages[i].ms = 1 + (i * 7) % 5;
        params.stages[i].replica = i / 3;
    }
    params.micro_batches[1] = 2;
    params.step_ms = 500;
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    expect_near(t.end_ms, 500);
    for (size_t i = 0; i < t.n_spans; i++) {
        const struct timeline_span *s = &t.spans[i];
        bool is_first = i == 0 || t.spans[i - 1].stage != s->stage;

        assert_true(s->ms > 0);
        expect_near(s->from_ms, is_first ? 0 : t.spans[i - 1].from_ms + t.spans[i - 1].ms);
        if (i + 1 == t.n_spans || t.spans[i + 1].stage != s->stage)
            expect_near(s->from_ms + s->ms, 500);
    }
    timeline_deinit(&t);
}

static void timeline_gives_what_is_left_of_a_step_to_the_exchange(void **state)
{
    struct timeline t;

    (void)state;
    pipeline(2, 4, 3)->step_ms = 20;
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    expect_near(sum_of(&t, 0, TIMELINE_EXCHANGE), 5); /* the pipeline takes 15 */
    expect_near(sum_of(&t, 1, TIMELINE_EXCHANGE), 5); /* after the first stage has ended, too */
    timeline_deinit(&t);
    params.stages[1].replica = 1; /* two pipelines of 12 */
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    expect_near(sum_of(&t, 1, TIMELINE_EXCHANGE), 8);
    assert_int_equal(t.spans[t.n_spans - 2].microbatch, 7); /* behind those of replica 0 */
    timeline_deinit(&t);
}

static void timeline_counts_recomputed_activations_as_backward(void **state)
{
    struct timeline t;

    (void)state;
    pipeline(1, 2, 4)->recomputes = true;
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    expect_near(sum_of(&t, 0, TIMELINE_FORWARD), 2);
    expect_near(sum_of(&t, 0, TIMELINE_BACKWARD), 6);
    timeline_deinit(&t);
}

static void timeline_needs_the_time_of_every_stage(void **state)
{
    struct timeline t = {.spans = NULL};
    struct err err;

    (void)state;
    assert_int_equal(timeline_make(pipeline(0, 1, 1), &t, &err), ERR_INVALID);
    pipeline(2, 1, 1)->stages[1].ms = 0;
    assert_int_equal(timeline_make(&params, &t, &err), ERR_INVALID);
    assert_string_equal(err.text, "the time of stage 1 on node-1 is not known");
    params.stages[1].ms = NAN;
    assert_int_equal(timeline_make(&params, &t, &err), ERR_INVALID);
    assert_int_equal(timeline_make(pipeline(64, 1000000, 1), &t, &err), ERR_LIMIT);
    assert_null(t.spans);
}

static void timeline_trace_has_threads_and_complete_events(void **state)
{
    struct buf text = {.max = 1 << 20};
    struct json *root = NULL;
    struct timeline t;
    const struct json *e;
    double end_us = 0;
    int n_names = 0;

    (void)state;
    pipeline(2, 3, 3);
    (void)snprintf(params.stages[1].node, sizeof params.stages[1].node, "\"\n</script>");
    assert_int_equal(timeline_make(&params, &t, NULL), ERR_OK);
    assert_int_equal(timeline_trace(&t, "mnli", &text, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&text), text.len, &root, NULL), ERR_OK);
    assert_non_null(strstr(json_text(root, "otherData.source"), "not a recording"));
    for (e = json_first(json_get(root, "traceEvents")); e; e = json_next(e)) {
        const char *ph = json_text(e, "ph");

        assert_int_equal(json_int(json_get(e, "pid"), 0), 1);
        assert_in_range(json_int(json_get(e, "tid"), 0), 1, 2);
        if (strcmp(ph, "M") == 0) {
            n_names++;
            continue;
        }
        assert_string_equal(ph, "X");
        end_us = fmax(end_us,
                      json_double(json_get(e, "ts"), NAN) + json_double(json_get(e, "dur"), NAN));
    }
    assert_int_equal(n_names, 3);
    expect_near(end_us, 12000);
    json_free(root);
    buf_deinit(&text);
    timeline_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeline_of_equal_stages_takes_m_plus_s_minus_1),
        cmocka_unit_test(timeline_of_a_serial_step_takes_m_times_s),
        cmocka_unit_test(timeline_has_no_gaps_and_no_overlaps),
        cmocka_unit_test(timeline_gives_what_is_left_of_a_step_to_the_exchange),
        cmocka_unit_test(timeline_counts_recomputed_activations_as_backward),
        cmocka_unit_test(timeline_needs_the_time_of_every_stage),
        cmocka_unit_test(timeline_trace_has_threads_and_complete_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
