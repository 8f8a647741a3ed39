#include "train/history.h"

#include <math.h>

#include "base/clock.h"
#include "scratch.h"
#include "train/scalars.h"

#include "event.h" /* needs cmocka */

static char in_folder[64], beside[64];
static struct history h;

static int make(void **state)
{
    int failed = scratch_make(state);

    (void)snprintf(in_folder, sizeof in_folder, "%s/history.jsonl", scratch);
    (void)snprintf(beside, sizeof beside, "%s/beside", scratch);
    return failed;
}

static int clean(void **state)
{
    history_close(&h);
    return scratch_remove(state);
}

static void expect_file(const char *path, const char *want)
{
    struct buf text = {.max = 1 << 20};

    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    assert_string_equal(text.len > 0 ? buf_text(&text) : "", want);
    buf_deinit(&text);
}

static int count_lines(const char *path)
{
    struct buf text = {.max = 1 << 21};
    int n = 0;

    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '\n';
    buf_deinit(&text);
    return n;
}

static void history_is_a_line_per_step_and_evaluation(void **state)
{
    struct progress p = {
        .step = 1, .total_steps = 2, .loss = 0.75, .tokens_per_second = 5321, .step_ms = 48.5};

    (void)state;
    assert_int_equal(history_open(&h, true, NULL, NULL), ERR_OK);
    history_step(&h, &p, h.start_ms + 1500);
    p.n_metrics = 2;
    p.metrics[0] = (struct progress_metric){"accuracy", 0.5};
    p.metrics[1] = (struct progress_metric){"evalLoss", 1.25};
    history_evaluation(&h, &p, h.start_ms + 2000);
    assert_int_equal(history_save(&h, scratch, NULL), ERR_OK);
    expect_file(in_folder, "{\"step\":1,\"seconds\":1.500,\"loss\":0.75,\"tokensPerSecond\":5321,"
                           "\"stepMilliseconds\":48.5}\n"
                           "{\"step\":1,\"seconds\":2.000,\"metrics\":{\"accuracy\":0.5,"
                           "\"evalLoss\":1.25}}\n");
}

static void history_goes_to_two_files(void **state)
{
    struct progress p = {.step = 1, .total_steps = 1};

    (void)state;
    assert_int_equal(history_open(&h, true, beside, NULL), ERR_OK);
    history_step(&h, &p, h.start_ms);
    assert_int_equal(access(in_folder, F_OK), -1); /* before it is saved */
    assert_int_equal(history_save(&h, scratch, NULL), ERR_OK);
    assert_int_equal(count_lines(in_folder), 1);
    assert_int_equal(count_lines(beside), 1);
}

static void history_has_null_for_what_is_not_finite(void **state)
{
    struct progress p = {.step = 1, .total_steps = 1, .loss = NAN};

    (void)state;
    assert_int_equal(history_open(&h, false, beside, NULL), ERR_OK);
    history_step(&h, &p, h.start_ms);
    expect_file(beside, "{\"step\":1,\"seconds\":0.000,\"loss\":null,\"tokensPerSecond\":0,"
                        "\"stepMilliseconds\":0}\n");
}

static void history_of_a_long_run_is_bounded(void **state)
{
    struct progress p = {.total_steps = 25 * (int64_t)HISTORY_STEPS_MAX / 10 + 1};

    (void)state;
    assert_int_equal(history_open(&h, true, NULL, NULL), ERR_OK);
    for (p.step = 1; p.step <= p.total_steps; p.step++)
        history_step(&h, &p, h.start_ms);
    assert_int_equal(history_save(&h, scratch, NULL), ERR_OK);
    assert_in_range(count_lines(in_folder), HISTORY_STEPS_MAX / 2, HISTORY_STEPS_MAX);
}

/* What one leader has recorded goes on at the next. */
static void history_goes_on_at_another_worker(void **state)
{
    struct progress p = {.step = 1, .total_steps = 9};
    struct buf text = {.max = HISTORY_MAX_BYTES};
    struct history other;

    (void)state;
    assert_int_equal(history_open(&h, true, NULL, NULL), ERR_OK);
    assert_int_equal(history_open(&other, true, beside, NULL), ERR_OK);
    history_step(&other, &p, other.start_ms); /* of an earlier time as a leader */
    history_step(&h, &p, h.start_ms);
    p.step++;
    history_step(&h, &p, h.start_ms);
    assert_int_equal(history_text(&h, &text, NULL), ERR_OK);
    history_restart(&other, text.data, text.len);
    p.step++;
    history_step(&other, &p, other.start_ms);
    assert_int_equal(history_save(&other, scratch, NULL), ERR_OK);
    assert_int_equal(count_lines(in_folder), 3);
    assert_int_equal(count_lines(beside), 3);
    history_restart(&other, "", 0);
    assert_int_equal(history_save(&other, scratch, NULL), ERR_OK);
    assert_int_equal(count_lines(in_folder), 0);
    history_close(&other);
    buf_deinit(&text);
}

static void history_is_an_event_file_too(void **state)
{
    struct progress p = {
        .step = 7, .total_steps = 9, .loss = 0.5, .tokens_per_second = NAN, .step_ms = 48};
    static const char stray[] = "no JSON\n{}\n";
    struct buf events = {.max = 1 << 20};
    double now_seconds = (double)clock_wall_ms() / 1e3;
    char path[128];
    struct event e;
    size_t place = 0;

    (void)state;
    assert_int_equal(history_open(&h, true, NULL, NULL), ERR_OK);
    history_restart(&h, stray, strlen(stray));
    history_step(&h, &p, h.start_ms + 2000);
    p.n_metrics = 1;
    p.metrics[0] = (struct progress_metric){"accuracy", 0.75};
    history_evaluation(&h, &p, h.start_ms + 3000);
    assert_int_equal(history_save(&h, scratch, NULL), ERR_OK);
    (void)snprintf(path, sizeof path, "%s/%s", scratch, SCALARS_NAME);
    assert_int_equal(file_read(path, &events, NULL), ERR_OK);
    assert_true(event_next(&events, &place, &e));
    assert_string_equal(e.version, "brain.Event:2");
    assert_true(event_next(&events, &place, &e));
    assert_true(e.step == 7 && e.n_values == 2 && fabs(e.wall_seconds - now_seconds - 2) < 1);
    assert_string_equal(e.values[0].tag, "train/loss");
    assert_true(e.values[0].value == 0.5F);
    assert_string_equal(e.values[1].tag, "train/stepMilliseconds");
    assert_true(event_next(&events, &place, &e));
    assert_true(e.step == 7 && e.n_values == 1 && fabs(e.wall_seconds - now_seconds - 3) < 1);
    assert_string_equal(e.values[0].tag, "evaluation/accuracy");
    assert_true(e.values[0].value == 0.75F);
    assert_false(event_next(&events, &place, &e));
    buf_deinit(&events);
}

static void history_that_is_not_open_writes_nothing(void **state)
{
    struct progress p = {.step = 1, .total_steps = 1};

    (void)state;
    h = (struct history){0};
    history_step(&h, &p, 0);
    history_evaluation(&h, &p, 0);
    assert_int_equal(history_save(&h, scratch, NULL), ERR_OK);
    assert_int_equal(access(in_folder, F_OK), -1);
}

static void history_names_a_file_that_cannot_be_made(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(history_open(&h, false, "/nowhere/history", &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nowhere/history"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(history_is_a_line_per_step_and_evaluation),
        TEST(history_goes_to_two_files),
        TEST(history_has_null_for_what_is_not_finite),
        TEST(history_of_a_long_run_is_bounded),
        TEST(history_goes_on_at_another_worker),
        TEST(history_is_an_event_file_too),
        TEST(history_that_is_not_open_writes_nothing),
        TEST(history_names_a_file_that_cannot_be_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
