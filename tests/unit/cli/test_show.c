#include "cli/show.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void show_writes_numbers_with_commas(void **state)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0, "0"},          {999, "999"}, {1000, "1,000"}, {12345678, "12,345,678"},
                {-1234, "-1,234"}, {1e300, "0"}, {NAN, "0"}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        show_number(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void show_writes_durations_like_a_clock(void **state)
{
    char text[32];

    (void)state;
    show_duration(0.4, text);
    assert_string_equal(text, "0:00");
    show_duration(42, text);
    assert_string_equal(text, "0:42");
    show_duration(3723, text);
    assert_string_equal(text, "1:02:03");
    show_duration(-1, text);
    assert_string_equal(text, "0:00");
    show_duration(INFINITY, text);
    assert_string_equal(text, "0:00");
}

static void show_writes_ages_in_the_largest_unit_that_is_exact_enough(void **state)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {{-5, "0s"},   {119, "119s"},   {120, "2m"},    {7199, "119m"},
                {7200, "2h"}, {172799, "47h"}, {172800, "2d"}, {8640000, "100d"}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        show_age(1000 * rows[i].seconds, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void show_progress_holds_step_loss_speed_stages_and_eta(void **state)
{
    struct progress p = {.state = PROGRESS_TRAINING,
                         .step = 120,
                         .total_steps = 375,
                         .loss = 0.84321,
                         .tokens_per_second = 5321,
                         .eta_seconds = 42,
                         .n_stage_ms = 2,
                         .stage_ms = {3.2, 4.14}};
    char text[SHOW_LINE_BYTES];

    (void)state;
    show_progress_text(&p, text);
    assert_string_equal(text,
                        "step 120/375  loss 0.8432  5,321 tokens/s  stages 3.2 4.1 ms  ETA 0:42");
    p.skipped_steps = 3;
    show_progress_text(&p, text);
    assert_non_null(strstr(text, "  5,321 tokens/s  3 skipped  stages"));
    (void)snprintf(p.best_metric, sizeof p.best_metric, "f1");
    p.best = (struct progress_best){.value = 0.9, .step = 90};
    show_progress_text(&p, text);
    assert_non_null(strstr(text, "  3 skipped  best f1 0.9000 at 90  stages"));
    p.sync = (struct progress_sync){"ASP", 2.96, 7, "replica 1 is slow"};
    show_progress_text(&p, text);
    assert_non_null(
        strstr(text, "  3 skipped  ASP, 3.0 updates late, at most 7; replica 1 is slow  best f1"));
    p.sync = (struct progress_sync){.protocol = "Local"};
    show_progress_text(&p, text);
    assert_non_null(strstr(text, "  3 skipped  Local  best f1"));
    p.n_stage_ms = SPEC_STAGES_MAX;
    for (int i = 0; i < SPEC_STAGES_MAX; i++)
        p.stage_ms[i] = 123456;
    show_progress_text(&p, text);
    assert_int_equal(strlen(text), SHOW_LINE_BYTES - 1);
}

static void show_progress_is_the_state_before_the_first_step(void **state)
{
    struct progress p = {.state = PROGRESS_STARTING, .loss = NAN, .eta_seconds = -1};
    char text[SHOW_LINE_BYTES];

    (void)state;
    show_progress_text(&p, text);
    assert_string_equal(text, "workers are starting");
    p.state = PROGRESS_WAITING;
    show_progress_text(&p, text);
    assert_string_equal(text, "workers are connecting");
    p.state = PROGRESS_TRAINING;
    p.total_steps = 9;
    show_progress_text(&p, text);
    assert_string_equal(text, "step 0/9");
}

static void expect_result(const struct progress *p, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    show_result(out, p);
    (void)fclose(out);
    assert_string_equal(text, want);
    free(text);
}

static void show_result_has_metrics_and_notes(void **state)
{
    struct progress p = {.step = 40,
                         .loss = 0.25,
                         .skipped_steps = 2,
                         .n_metrics = 2,
                         .metrics = {{"nextSentenceAccuracy", 0.5}, {"evalLoss", NAN}},
                         .best_metric = "evalLoss",
                         .best = {.value = 0.75, .step = 10},
                         .has_ended_early = true,
                         .saved = {20, true},
                         .randomly_initialized = "classifier"};

    (void)state;
    expect_result(&p, "  loss                 0.2500\n"
                      "  nextSentenceAccuracy 0.5000\n"
                      "  evalLoss             NaN\n"
                      "  skipped steps        2 (loss or gradient was not finite)\n"
                      "  best evaluation      evalLoss 0.7500 at step 10\n"
                      "  checkpoints          the last one could not be written; the workers' logs "
                      "tell why\n"
                      "  ended early          at step 40: no better evaluation\n"
                      "  started at random    classifier\n");
    expect_result(&(struct progress){.loss = NAN}, "");
}

static void show_summary_is_a_line_of_figures(void **state)
{
    struct progress p = {.step = 1200, .loss = 0.5, .tokens_per_second = 5321};
    char line[SHOW_SUMMARY_BYTES];

    (void)state;
    p.n_metrics = 2;
    p.metrics[0] = (struct progress_metric){"accuracy", 0.81};
    p.metrics[1] = (struct progress_metric){"f1", NAN};
    show_summary(&p, 62, "out", line);
    assert_string_equal(line, "done: 1200 steps in 1:02, 5,321 tokens/s, loss 0.5000, accuracy "
                              "0.8100, f1 NaN, model in out");
    p = (struct progress){.step = 0, .loss = NAN};
    show_summary(&p, 3, NULL, line);
    assert_string_equal(line, "done: 0 steps in 0:03, model not kept (use --output DIR)");
}

static void show_evaluation_names_the_step_and_every_metric(void **state)
{
    static const char text[] = "{\"step\":10,\"metrics\":{\"accuracy\":0.81,\"f1\":null}}";
    char line[SHOW_SUMMARY_BYTES];
    struct json *record = NULL;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, &record, NULL), ERR_OK);
    show_evaluation(record, line);
    assert_string_equal(line, "evaluated at step 10: accuracy 0.8100, f1 NaN");
    json_free(record);
}

static void show_lines_come_slowly_where_they_cannot_be_written_over(void **state)
{
    char *text = NULL;
    size_t n = 0;
    struct show s = {.out = open_memstream(&text, &n)};

    (void)state;
    show_line(&s, "wait a", false, 1000);
    show_line(&s, "wait b", false, 1000 + SHOW_EVERY_MS - 1);
    show_line(&s, "wait c", true, 1000 + SHOW_EVERY_MS - 1);
    show_line(&s, "wait c", true, 1000 + SHOW_EVERY_MS);
    show_line(&s, "step 1", false, 1000 + SHOW_EVERY_MS);
    show_line(&s, "step 2", false, 1000 + SHOW_EVERY_MS);
    show_line(&s, "step 3", false, 1000 + 2 * SHOW_EVERY_MS);
    show_end(&s);
    (void)fclose(s.out);
    assert_string_equal(text, "wait a\nwait c\nstep 1\nstep 3\n");
    free(text);
}

static void show_is_quiet_but_for_a_line_that_can_be_written_over(void **state)
{
    char *text = NULL;
    size_t n = 0;
    struct show s = {.out = open_memstream(&text, &n), .is_quiet = true};

    (void)state;
    show_line(&s, "step 1", true, 1000);
    show_note(&s, "evaluated");
    s.is_tty = true;
    show_line(&s, "step 2", true, 2000);
    show_note(&s, "evaluated");
    s.is_quiet = false;
    show_note(&s, "done");
    show_end(&s);
    (void)fclose(s.out);
    assert_string_equal(text, "\rstep 2\033[K\rdone\033[K\n");
    free(text);
}

#define LONG_HEAD "gke-training-east1-"
#define LONG_TAIL "pool-2-7f3c9d1b-xk2"

static void show_names_that_are_long_lose_their_middle(void **state)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"worker-0", "worker-0"},
        {LONG_HEAD LONG_TAIL "-4", LONG_HEAD LONG_TAIL "-4"}, /* as long as may be */
        {LONG_HEAD "-of-the-" LONG_TAIL, "gke-training-east1-...ool-2-7f3c9d1b-xk2"},
    };
    char text[SHOW_NAME_CHARS + 1];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(show_name(rows[i].name, text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
    }
}

static const struct status training = {
    .state = "Running",
    .revision = 2,
    .progress = {.step = 12,
                 .total_steps = 40,
                 .loss = "0.5000",
                 .tokens_per_second = 1234,
                 .step_ms = 25,
                 .remaining_seconds = 9,
                 .n_metrics = 1,
                 .metrics = {{"accuracy", "0.9100"}}},
    .n_stages = 2,
    .stages =
        {{.plan = {.node = "small", .units = "embeddings to attention 0", .predicted_ms = 3.25},
          .measured_ms = 3.5,
          .busy_percent = 87,
          .state = "Running"},
         {.plan = {.node = "large", .units = "head", .predicted_ms = 4}}},
    .placement = {.summary = {.explanation = "Because.", .predicted_step_ms = 20}},
};

static void expect_line(const struct status *s, const char *want)
{
    char line[SHOW_LINE_BYTES];

    show_status_text(s, line);
    assert_string_equal(line, want);
}

static void show_status_line_is_progress_or_what_the_job_waits_for(void **state)
{
    (void)state;
    expect_line(&(struct status){.state = ""}, "the operator has not seen the job yet");
    expect_line(&(struct status){.state = "Pending", .message = "no node is free"},
                "Pending: no node is free");
    expect_line(&(struct status){.state = "Starting"}, "Starting");
    expect_line(&training, "step 12/40  loss 0.5000  1,234 tokens/s  stages 3.5 ms  ETA 0:09");
}

static void expect_end(const struct status *s, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    show_status_end(out, s);
    (void)fclose(out);
    if (!strstr(text, want))
        fail_msg("printed \"%s\"", text);
    free(text);
}

static void show_status_end_is_complete_or_failed_with_its_reason(void **state)
{
    struct status s = training;

    (void)state;
    s.conditions[CONDITION_COMPLETE].value = CONDITION_TRUE;
    expect_end(&s, "accuracy             0.9100");
    s = (struct status){.conditions = {[CONDITION_FAILED] = {.value = CONDITION_TRUE,
                                                             .reason = "Config",
                                                             .message = "no such file"}}};
    expect_end(&s, "Failed: Config: no such file");
}

static void show_status_placement_lists_stages_and_the_explanation(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    show_status_placement(out, &training, true);
    (void)fclose(out);
    assert_non_null(strstr(text, "\n0      small embeddings to attention 0"));
    assert_non_null(strstr(text, "3.2 ms      3.5 ms   87%  Running"));
    assert_non_null(strstr(text, "4.0 ms           -     -"));
    assert_non_null(strstr(text, "\nstep: 20 ms predicted, 25 ms measured (+25%)\n"));
    assert_non_null(strstr(text, "\nBecause.\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(show_writes_numbers_with_commas),
        cmocka_unit_test(show_writes_durations_like_a_clock),
        cmocka_unit_test(show_writes_ages_in_the_largest_unit_that_is_exact_enough),
        cmocka_unit_test(show_progress_holds_step_loss_speed_stages_and_eta),
        cmocka_unit_test(show_progress_is_the_state_before_the_first_step),
        cmocka_unit_test(show_result_has_metrics_and_notes),
        cmocka_unit_test(show_summary_is_a_line_of_figures),
        cmocka_unit_test(show_evaluation_names_the_step_and_every_metric),
        cmocka_unit_test(show_lines_come_slowly_where_they_cannot_be_written_over),
        cmocka_unit_test(show_is_quiet_but_for_a_line_that_can_be_written_over),
        cmocka_unit_test(show_names_that_are_long_lose_their_middle),
        cmocka_unit_test(show_status_line_is_progress_or_what_the_job_waits_for),
        cmocka_unit_test(show_status_end_is_complete_or_failed_with_its_reason),
        cmocka_unit_test(show_status_placement_lists_stages_and_the_explanation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
