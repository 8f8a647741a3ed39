#include "cli/watched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct status training = {
    .state = "Running",
    .attempt = 2,
    .progress = {.step = 12,
                 .total_steps = 40,
                 .loss = "0.5000",
                 .tokens_per_second = 1234,
                 .step_ms = 25,
                 .remaining_seconds = 9,
                 .n_metrics = 1,
                 .metrics = {{"accuracy", "0.9100"}}},
    .n_stages = 2,
    .stages = {{.node = "small",
                .units = "embeddings to attention 0",
                .predicted_ms = 3.25,
                .measured_ms = 3.5,
                .busy_percent = 87,
                .state = "Running"},
               {.node = "large", .units = "head", .predicted_ms = 4}},
    .placement = {.summary = {.explanation = "Because.", .predicted_step_ms = 20}},
};

static void expect_line(const struct status *s, const char *want)
{
    char line[SHOW_LINE_BYTES];

    watched_line(s, line);
    assert_string_equal(line, want);
}

static void watched_line_is_progress_or_what_the_job_waits_for(void **state)
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

    watched_print_end(out, s);
    (void)fclose(out);
    if (!strstr(text, want))
        fail_msg("printed \"%s\"", text);
    free(text);
}

static void watched_end_is_complete_or_failed_with_its_reason(void **state)
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

static void watched_placement_lists_stages_and_the_explanation(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    watched_print_stages(out, &training);
    watched_print_explanation(out, &training);
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
        cmocka_unit_test(watched_line_is_progress_or_what_the_job_waits_for),
        cmocka_unit_test(watched_end_is_complete_or_failed_with_its_reason),
        cmocka_unit_test(watched_placement_lists_stages_and_the_explanation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
