#include "verb.h"

#include "wellformed.h"

#define STATUS                                                                                     \
    "{\"kind\":\"SkyJob\",\"metadata\":{\"name\":\"mnli\",\"uid\":\"7\"},"                         \
    "\"spec\":{\"training\":{\"activations\":\"Recompute\"}},\"status\":{\"state\":\"Running\","   \
    "\"progress\":{\"step\":3,\"totalSteps\":9,\"stepMilliseconds\":40,"                           \
    "\"lastUpdatedTime\":\"2026-11-21T08:00:00Z\"},"                                               \
    "\"placement\":{\"strategy\":\"Optimal\",\"microBatches\":2,\"explanation\":\"x\"},"           \
    "\"stages\":[{\"stage\":0,\"pod\":\"mnli-7-w0-1\",\"node\":\"a\",\"units\":\"embeddings\","    \
    "\"firstUnit\":0,\"unitCount\":1,\"measuredMicroseconds\":4000}]}}"
#define RESULT                                                                                     \
    "{\"job\":\"mnli\",\"state\":\"Done\",\"seconds\":62,\"step\":300,\"loss\":0.5,"               \
    "\"tokensPerSecond\":5321,\"stepMilliseconds\":50,\"metrics\":{\"accuracy\":0.75,"             \
    "\"f1\":null},\"best\":{\"metric\":\"accuracy\",\"value\":0.8,\"step\":200},"                  \
    "\"strategy\":\"Even\",\"microBatches\":4,\"explanation\":\"why\",\"bottleneck\":1,"           \
    "\"shares\":[3,1],\"stages\":["                                                                \
    "{\"slot\":0,\"incarnation\":1,\"replica\":0,\"firstUnit\":0,\"unitCount\":2,\"node\":"        \
    "\"one\",\"predictedMicroseconds\":3000,\"measuredMicroseconds\":4500},"                       \
    "{\"slot\":1,\"incarnation\":1,\"replica\":1,\"firstUnit\":0,\"unitCount\":2,\"node\":"        \
    "\"two\",\"predictedMicroseconds\":9000}]}"
#define HISTORY                                                                                    \
    "{\"step\":1,\"seconds\":1,\"loss\":0.7,\"tokensPerSecond\":100,\"stepMilliseconds\":9}\n"

static char page[VERB_TEXT_BYTES];

static const char *read_file(const char *name)
{
    struct buf text = {.max = VERB_TEXT_BYTES - 1};

    assert_int_equal(file_read(scratch_path(name), &text, NULL), ERR_OK);
    (void)snprintf(page, sizeof page, "%s", buf_text(&text));
    buf_deinit(&text);
    return page;
}

/* scratch_path() has one place for its answer. */
static const char *option(const char *name, const char *file, char out[static 256])
{
    (void)snprintf(out, 256, "--%s=%s", name, scratch_path(file));
    return out;
}

static void report_of_files_needs_no_cluster(void **state)
{
    char history[256], status[256], output[256], trace[256];

    (void)state;
    (void)scratch_write("history.jsonl", HISTORY, strlen(HISTORY));
    (void)scratch_write("run.json", RESULT, strlen(RESULT));
    VERB_SERVE({.expect = "no request at all"});
    assert_int_equal(VERB_RUN(command_report, "report", option("history", "history.jsonl", history),
                              option("status", "run.json", status),
                              option("output", "page.html", output),
                              option("trace", "trace.json", trace)),
                     EXIT_DONE);
    assert_int_equal(loopback_unused(verb_server), 1);
    assert_wellformed(read_file("page.html"));
    assert_has(page, "<h1>mnli</h1>");
    assert_has(page, ">300 of 300<");
    assert_has(page, ">0.5000<");
    assert_has(page, ">NaN<");
    assert_has(page, ">0.8000 at step 200<");
    assert_has(page, ">1:02<");
    assert_has(page, "replica 0: 3 of 4 micro-batches");
    assert_has(page, ">4.5 ms<");
    assert_has(page, "<title>forward 3: 3 ms</title>"); /* of replica 1, as predicted */
    assert_has(read_file("trace.json"), "\"name\":\"stage 0 on two\"");
    loopback_stop(verb_server);
}

static void report_of_a_skyjob_takes_what_it_is_given(void **state)
{
    char status[256];

    (void)state;
    (void)scratch_write("sj.json", STATUS, strlen(STATUS));
    VERB_SERVE({.expect = "no request at all"});
    assert_int_equal(
        VERB_RUN(command_report, "report", option("status", "sj.json", status), "-o", "-"),
        EXIT_DONE);
    assert_wellformed(verb_out);
    assert_has(verb_out, "give that file as --history");
    assert_has(verb_out, "<title>forward 0: 1 ms</title>"); /* a quarter: it recomputes */
    assert_has(verb_out, "<title>exchange: 32 ms</title>");
    loopback_stop(verb_server);
}

static void report_refuses_files_of_another_kind(void **state)
{
    char history[256], status[256];

    (void)state;
    (void)scratch_write("other.json", "{\"a\":1}\n", 8);
    VERB_SERVE({.expect = "no request at all"});
    (void)option("status", "other.json", status);
    (void)option("history", "other.json", history);
    assert_int_equal(VERB_RUN(command_report, "report", status, "-o", "-"), EXIT_CONFIG);
    assert_has(verb_err, "neither a SkyJob as printed by");
    assert_int_equal(VERB_RUN(command_report, "report", history, "-o", "-"), EXIT_CONFIG);
    assert_has(verb_err, "no line is a record");
    (void)option("history", "missing", history);
    assert_int_equal(VERB_RUN(command_report, "report", history, "-o", "-"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_report, "report", "-o", "-"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_report, "report", status), EXIT_CONFIG);
    loopback_stop(verb_server);
}

static void report_without_a_plan_has_no_trace(void **state)
{
    char history[256];

    (void)state;
    (void)scratch_write("history.jsonl", HISTORY, strlen(HISTORY));
    VERB_SERVE({.expect = "no request at all"});
    (void)option("history", "history.jsonl", history);
    assert_int_equal(VERB_RUN(command_report, "report", history, "--trace", "-"), EXIT_CONFIG);
    assert_has(verb_err, "There is no plan whose stages could be shown");
    assert_int_equal(VERB_RUN(command_report, "report", history, "-o", "-"), EXIT_DONE);
    assert_wellformed(verb_out);
    loopback_stop(verb_server);
}

#define EVENTS "GET /api/v1/namespaces/team/events?fieldSelector=involvedObject.uid%3D7&limit="
#define MAPS                                                                                       \
    "GET /api/v1/namespaces/team/configmaps?labelSelector=skyjob.dev%2Fjob-uid%3D7%2C"             \
    "skyjob.dev%2Frevision&limit="
#define LOG_OF      "GET /api/v1/namespaces/team/pods/mnli-7-w0-1/log?container=worker&tailLines=20000 "
#define LIST(items) "{\"metadata\":{},\"items\":[" items "]}"

static void report_of_a_job_has_its_events_and_evaluations(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " VERB_JOB_PATH " ", .body = STATUS},
               {.expect = EVENTS,
                .body = LIST("{\"lastTimestamp\":\"2026-11-21T08:00:02Z\",\"reason\":\"Second\","
                             "\"message\":\"<b>\"},"
                             "{\"lastTimestamp\":\"2026-11-21T08:00:01Z\",\"reason\":\"First\"}")},
               {.expect = MAPS, .body = LIST("{\"data\":{\"revision.json\":\"{}\"}}")},
               {.expect = LOG_OF,
                .body = "{\"msg\":\"evaluated\",\"step\":2,\"metric\":\"accuracy\","
                        "\"value\":0.5}\n"});
    assert_int_equal(VERB_RUN(command_report, "report", "mnli", "-o", "-"), EXIT_DONE);
    assert_wellformed(verb_out);
    assert_has(verb_out, "in namespace team");
    assert_has(verb_out, "<title>2: 0.5</title>");
    assert_has(verb_out, "give that file as --history");
    assert_has(verb_out, "&lt;b&gt;");
    assert_true(strstr(verb_out, ">First<") < strstr(verb_out, ">Second<"));
}

static void report_leaves_out_what_may_not_be_read(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " VERB_JOB_PATH " ", .body = STATUS},
               {.expect = EVENTS, .status = 403, .body = "{\"message\":\"no events\"}"},
               {.expect = MAPS, .status = 403, .body = "{\"message\":\"no maps\"}"},
               {.expect = LOG_OF, .status = 404, .body = "{\"message\":\"no pod\"}"});
    assert_int_equal(VERB_RUN(command_report, "report", "mnli", "-o", "-"), EXIT_DONE);
    assert_wellformed(verb_out);
    assert_has(verb_err, "left out of the report");
    assert_has(verb_err, "no events");
    assert_has(verb_err, "no maps");
    assert_has(verb_err, "no pod");
}

static void report_of_a_job_that_is_not_there_fails(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " VERB_JOB_PATH " ", .status = 404, .body = "{}"});
    assert_int_equal(VERB_RUN(command_report, "report", "mnli", "-o", "-"), EXIT_CONFIG);
    assert_string_equal(verb_out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_of_files_needs_no_cluster),
        cmocka_unit_test(report_of_a_skyjob_takes_what_it_is_given),
        cmocka_unit_test(report_refuses_files_of_another_kind),
        cmocka_unit_test(report_without_a_plan_has_no_trace),
        VERB_TEST(report_of_a_job_has_its_events_and_evaluations),
        VERB_TEST(report_leaves_out_what_may_not_be_read),
        VERB_TEST(report_of_a_job_that_is_not_there_fails),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
