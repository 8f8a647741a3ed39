#include "verb.h"

#define RUNS "{\"metadata\":{\"uid\":\"7\"},\"status\":{\"state\":\"Running\"}}"
#define ENDED                                                                                      \
    "{\"metadata\":{\"uid\":\"7\"},\"status\":{\"state\":\"Complete\",\"conditions\":[{"           \
    "\"type\":\"Complete\",\"status\":\"True\",\"reason\":\"x\",\"message\":\"\"}]}}"
#define GET .expect = "GET " VERB_JOB_PATH " "
#define PODS                                                                                       \
    .expect = "GET /api/v1/namespaces/team/pods?labelSelector=skyjob.dev%2Fjob-uid%3D7%2C"         \
              "skyjob.dev%2Frole%3Dworker&"
#define LIST(pods) "{\"metadata\":{},\"items\":[" pods "]}"
#define POD(name, slot, incarnation, phase)                                                        \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"skyjob.dev/slot\":\"" slot                 \
    "\",\"skyjob.dev/incarnation\":\"" incarnation "\"}},\"status\":{\"phase\":\"" phase "\"}}"
#define LOG(pod, query)                                                                            \
    .expect = "GET /api/v1/namespaces/team/pods/" pod "/log?container=worker" query " "

static void logs_are_printed_slot_by_slot(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = RUNS},
               {PODS, .body = LIST(POD("b", "1", "1", "Running") "," POD("a", "0", "1", "Failed"))},
               {LOG("a", ""), .body = "one\ntwo\n"},
               {LOG("b", ""), .body = "three\nfour", .piece_bytes = 3, .is_stream = true});
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "[slot 0] one\n[slot 0] two\n[slot 1] three\n[slot 1] four\n");
}

static void logs_are_those_of_the_newest_incarnation_unless_others_are_asked_for(void **state)
{
    (void)state;
    VERB_SERVE(
        {GET, .body = RUNS},
        {PODS, .body = LIST(POD("new", "0", "10", "Running") "," POD("old", "0", "9", "Failed"))},
        {LOG("new", ""), .body = "new\n"}, {GET, .body = RUNS},
        {PODS, .body = LIST(POD("old", "0", "9", "Failed") "," POD("new", "0", "10", "Running"))},
        {LOG("old", ""), .body = "old\n"});
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "[slot 0] new\n");
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli", "--previous"), EXIT_DONE);
    assert_string_equal(verb_out, "[slot 0] old\n");
}

static void logs_that_are_not_there_are_reported(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = RUNS},
               {PODS, .body = LIST(POD("a", "0", "1", "Pending") "," POD(
                          "b", "1", "1", "Running") "," POD("c", "2", "1", "Running"))},
               {LOG("b", ""), .status = 500, .body = "{\"message\":\"dial tcp: refused\"}"},
               {LOG("c", ""), .body = "here\n"}, {GET, .body = RUNS}, {PODS, .body = LIST("")},
               {GET, .body = RUNS}, {PODS, .body = LIST(POD("c", "2", "1", "Running"))});
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli"), EXIT_FAILED);
    assert_string_equal(verb_out, "[slot 2] here\n");
    assert_string_equal(verb_err, "kubectl-skyjob: pod a (slot 0) has not started yet\n"
                                  "kubectl-skyjob: log of pod b (slot 1): dial tcp: refused (500)\n"
                                  "kubectl-skyjob: 1 of 3 logs could not be read\n");
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli"), EXIT_CONFIG);
    assert_has(verb_err, "SkyJob mnli has no workers: Running\n");
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli", "--previous"), EXIT_CONFIG);
    assert_has(verb_err, "SkyJob mnli has no pods of workers that were replaced\n");
}

static void logs_are_followed_until_the_job_is_over(void **state)
{
    (void)state;
    VERB_SERVE(
        {GET, .body = RUNS}, {GET, .body = RUNS},
        {PODS, .body = LIST(POD("a", "0", "1", "Running") "," POD("b", "1", "1", "Pending"))},
        {LOG("a", "&follow=true&tailLines=2"), .body = "first\n"},
        {GET, .status = 503, .body = "{\"message\":\"overloaded\"}"}, {GET, .body = ENDED},
        {PODS, .body = LIST(POD("a", "0", "1", "Succeeded") "," POD("b", "1", "1", "Running"))},
        {LOG("b", "&follow=true&tailLines=2"), .body = "last\n"});
    assert_int_equal(VERB_RUN(command_logs, "logs", "-f", "mnli", "--tail", "2"), EXIT_DONE);
    assert_string_equal(verb_out, "[slot 0] first\n[slot 1] last\n");
}

static void logs_of_a_job_that_is_deleted_meanwhile_end(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = RUNS}, {GET, .status = 404, .body = "{\"message\":\"not found\"}"},
               {PODS, .body = LIST("")});
    assert_int_equal(VERB_RUN(command_logs, "logs", "-f", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "");
}

static void logs_need_arguments_that_go_together(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli", "--tail=x"), EXIT_CONFIG);
    assert_has(verb_err, "--tail: must be a number");
    assert_int_equal(VERB_RUN(command_logs, "logs", "mnli", "-f", "-p"), EXIT_CONFIG);
    assert_has(verb_err, "use --follow or --previous, not both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(logs_are_printed_slot_by_slot),
        VERB_TEST(logs_are_those_of_the_newest_incarnation_unless_others_are_asked_for),
        VERB_TEST(logs_that_are_not_there_are_reported),
        VERB_TEST(logs_are_followed_until_the_job_is_over),
        VERB_TEST(logs_of_a_job_that_is_deleted_meanwhile_end),
        VERB_TEST(logs_need_arguments_that_go_together),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
