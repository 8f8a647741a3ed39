#include "cli/watched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STAGES                                                                                     \
    "\"attempt\": 2, \"stages\": [{\"stage\": 0, \"node\": \"small\", \"units\": \"embeddings to " \
    "attention 0\", \"predictedMs\": 3.25, \"measuredMs\": 3.5, \"busyPercent\": 87, \"state\": "  \
    "\"Running\"}, "                                                                               \
    "{\"stage\": 1, \"node\": \"large\", \"units\": \"head\", \"predictedMs\": 4}], "              \
    "\"placement\": {\"reason\": \"Because.\", \"predictedStepMs\": 20}, "
#define PROGRESS                                                                                   \
    "\"progress\": {\"step\": 12, \"stepMs\": 25, \"totalSteps\": 40, \"loss\": \"0.5000\", "      \
    "\"tokensPerSecond\": "                                                                        \
    "1234, \"estimatedRemainingSeconds\": 9, \"metrics\": [{\"name\": \"accuracy\", \"value\": "   \
    "\"0.9100\"}]}"

static struct json *object_of(const char *status)
{
    struct buf text = {.max = 1 << 16};
    struct json *object = NULL;

    assert_int_equal(buf_addf(&text, NULL, "{\"status\": {%s}}", status), ERR_OK);
    assert_int_equal(json_parse(text.data, text.len, &object, NULL), ERR_OK);
    buf_deinit(&text);
    return object;
}

static void expect_line(const char *status, const char *want)
{
    struct json *object = object_of(status);
    char line[SHOW_LINE_BYTES];

    watched_line(object, line);
    assert_string_equal(line, want);
    json_free(object);
}

static void watched_line_says_how_far_it_is_or_what_it_waits_for(void **state)
{
    (void)state;
    expect_line("", "the operator has not looked at it yet");
    expect_line("\"state\": \"Pending\", \"message\": \"no node is free\"",
                "Pending: no node is free");
    expect_line("\"state\": \"Starting\"", "Starting");
    expect_line("\"state\": \"Running\", " STAGES PROGRESS,
                "step 12/40  loss 0.5000  1,234 tokens/s  stages 3.5 ms  ETA 0:09");
}

static void expect_end(const char *status, enum watched_end want, const char *says)
{
    struct json *object = object_of(status);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_int_equal(watched_end(object), want);
    watched_print_end(out, object);
    (void)fclose(out);
    if (!strstr(text, says))
        fail_msg("said \"%s\"", text);
    free(text);
    json_free(object);
}

static void watched_end_is_complete_or_failed_with_its_reason(void **state)
{
    (void)state;
    expect_end(PROGRESS ", \"conditions\": [{\"type\": \"Complete\", \"status\": \"True\"}]",
               WATCHED_COMPLETE, "accuracy             0.9100");
    expect_end("\"conditions\": [{\"type\": \"Failed\", \"status\": \"True\", \"reason\": "
               "\"Config\", \"message\": \"no such file\"}]",
               WATCHED_FAILED, "Failed: Config: no such file");
    expect_end("\"conditions\": [{\"type\": \"Complete\", \"status\": \"False\"}]", WATCHED_GOES_ON,
               "");
}

static void watched_placement_lists_stages_and_the_reason(void **state)
{
    struct json *object = object_of(STAGES PROGRESS);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    assert_int_equal(watched_attempt(object), 2);
    watched_print_stages(out, object);
    watched_print_reason(out, object);
    (void)fclose(out);
    assert_non_null(strstr(text, "\n0      small embeddings to attention 0"));
    assert_non_null(strstr(text, "3.2 ms      3.5 ms   87%  Running"));
    assert_non_null(strstr(text, "4.0 ms           -     -"));
    assert_non_null(strstr(text, "\na step: 20.0 ms predicted, 25.0 ms measured (+25%)\n"));
    assert_non_null(strstr(text, "\nBecause.\n"));
    free(text);
    json_free(object);
}

static void watched_survives_a_status_of_other_kinds(void **state)
{
    struct json *object =
        object_of("\"conditions\": {}, \"stages\": [1, null], \"progress\": [], \"state\": 4");
    char line[SHOW_LINE_BYTES];
    FILE *out = fopen("/dev/null", "we");

    (void)state;
    assert_int_equal(watched_end(object), WATCHED_GOES_ON);
    watched_line(object, line);
    watched_print_stages(out, object);
    watched_print_reason(out, object);
    watched_print_end(out, object);
    (void)fclose(out);
    json_free(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watched_line_says_how_far_it_is_or_what_it_waits_for),
        cmocka_unit_test(watched_end_is_complete_or_failed_with_its_reason),
        cmocka_unit_test(watched_placement_lists_stages_and_the_reason),
        cmocka_unit_test(watched_survives_a_status_of_other_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
