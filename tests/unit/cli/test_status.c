#include "cli/command.h"

#include <signal.h>

#include "verb.h"

#define JOBS "/apis/skyjob.dev/v1alpha1/namespaces/team/skyjobs"
#define ALL  "/apis/skyjob.dev/v1alpha1/skyjobs"
#define META "\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"resourceVersion\":\"7\"}"
#define JOB(state)                                                                                 \
    "{" META ",\"status\":{\"state\":\"" state "\",\"conditions\":[{\"type\":\"" state             \
    "\",\"status\":\"True\"}]}}"
#define LIST(items)         "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define ONE                 "fieldSelector=metadata.name%3Dmnli"

static void status_of_one_job_is_a_line(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "/mnli ", .body = JOB("Waiting")});
    assert_int_equal(VERB_RUN(command_status, "status", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "Waiting\n");
}

static void status_without_a_name_is_a_table_of_the_namespace(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?limit=", .body = LIST(JOB("Waiting"))});
    assert_int_equal(VERB_RUN(command_status, "status"), EXIT_DONE);
    assert_has(verb_out, "NAME  STATE    STEP ");
    assert_has(verb_out, "\nmnli  Waiting     - ");
}

static void status_of_all_namespaces_names_them(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " ALL "?limit=", .body = LIST(JOB("Waiting"))});
    assert_int_equal(VERB_RUN(command_status, "status", "-A"), EXIT_DONE);
    assert_has(verb_out, "NAMESPACE  NAME  STATE ");
    assert_has(verb_out, "\nteam       mnli  Waiting ");
}

static void status_without_jobs_prints_nothing_to_stdout(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?limit=", .body = LIST("")});
    assert_int_equal(VERB_RUN(command_status, "status"), EXIT_DONE);
    assert_string_equal(verb_out, "");
    assert_string_equal(verb_err, "kubectl-skyjob: there are no SkyJobs in namespace team\n");
}

static void status_as_json_is_an_object_or_a_list_of_them(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "/mnli ", .body = JOB("Failed")},
               {.expect = "GET " JOBS "?limit=", .body = LIST(JOB("Waiting"))},
               {.expect = "GET " ALL "?limit=", .body = LIST("")});
    assert_int_equal(VERB_RUN(command_status, "status", "mnli", "-o", "json"), EXIT_FAILED);
    assert_has(verb_out, "{\"namespace\":\"team\",\"name\":\"mnli\",");
    assert_has(verb_out, "\"status\":{\"state\":\"Failed\",");
    assert_int_equal(VERB_RUN(command_status, "status", "-o", "json"), EXIT_DONE);
    assert_has(verb_out, "{\"items\":[{\"namespace\":\"team\",\"name\":\"mnli\",");
    assert_int_equal(VERB_RUN(command_status, "status", "-A", "-o", "json"), EXIT_DONE);
    assert_string_equal(verb_out, "{\"items\":[]}\n");
}

static void status_follows_a_job_to_its_end(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?" ONE "&limit=", .body = LIST(JOB("Waiting"))},
               {.expect = "GET " JOBS "?" ONE "&watch=true",
                .body = EVENT("MODIFIED", JOB("Starting")) EVENT("MODIFIED", JOB("Complete")),
                .is_stream = true,
                .end = LOOPBACK_HANG});
    assert_int_equal(VERB_RUN(command_status, "status", "mnli", "--follow"), EXIT_DONE);
    assert_string_equal(verb_out, "Waiting\nStarting\nComplete after 0 steps\n");
}

static void status_of_a_job_that_is_deleted_ends(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?" ONE "&limit=", .body = LIST(JOB("Waiting"))},
               {.expect = "GET " JOBS "?" ONE "&watch=true",
                .body = EVENT("DELETED", JOB("Waiting")),
                .is_stream = true,
                .end = LOOPBACK_HANG});
    assert_int_equal(VERB_RUN(command_status, "status", "mnli", "-f"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: SkyJob mnli was deleted\n");
}

static void status_that_cannot_be_followed_is_an_error(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?" ONE "&limit=", .body = LIST("")},
               {.expect = "GET " JOBS "?limit=", .status = 403, .body = "{\"message\":\"no\"}"});
    assert_int_equal(VERB_RUN(command_status, "status", "mnli", "-f"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: there is no SkyJob mnli\n");
    assert_int_equal(VERB_RUN(command_status, "status", "-f"), EXIT_FAILED);
    assert_has(verb_err, "no (403)\n");
}

static void interrupt(void)
{
    (void)raise(SIGINT);
}

/* The second list ends the command, so it is the last test: an interrupt stays. */
static void status_of_all_is_followed_line_by_line(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET " JOBS "?limit=", .body = LIST(JOB("Waiting"))},
               {.expect = "GET " JOBS "?watch=true",
                .body = EVENT("MODIFIED", JOB("Waiting")) EVENT("MODIFIED", JOB("Starting"))
                    EVENT("DELETED", JOB("Starting")),
                .is_stream = true},
               {.expect = "GET " JOBS "?limit=", /* that stream has ended before its time */
                .before = interrupt,
                .body = LIST("")});
    assert_int_equal(VERB_RUN(command_status, "status", "-f"), 128 + SIGINT);
    assert_has(verb_out, "NAME  STATE ");
    assert_has(verb_out, "\nmnli  Waiting ");
    assert_has(verb_out, "\nmnli  Starting ");
    assert_has(verb_out, "\nmnli  Deleted ");
    assert_null(strstr(strstr(verb_out, "Waiting") + 1, "Waiting"));
    assert_string_equal(verb_err, "kubectl-skyjob: interrupted; the jobs continue\n");
}

static void status_options_that_exclude_each_other_are_refused(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_status, "status", "-o", "yaml"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: -o: must be json, not \"yaml\"\n");
    assert_int_equal(VERB_RUN(command_status, "status", "-f", "-o", "json"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_status, "status", "-A", "mnli"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_status, "status", "a", "b"), EXIT_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(status_of_one_job_is_a_line),
        VERB_TEST(status_without_a_name_is_a_table_of_the_namespace),
        VERB_TEST(status_of_all_namespaces_names_them),
        VERB_TEST(status_without_jobs_prints_nothing_to_stdout),
        VERB_TEST(status_as_json_is_an_object_or_a_list_of_them),
        VERB_TEST(status_follows_a_job_to_its_end),
        VERB_TEST(status_of_a_job_that_is_deleted_ends),
        VERB_TEST(status_that_cannot_be_followed_is_an_error),
        VERB_TEST(status_options_that_exclude_each_other_are_refused),
        VERB_TEST(status_of_all_is_followed_line_by_line),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
