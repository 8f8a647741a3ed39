#include "verb.h"

#define GET       .expect = "GET " VERB_JOB_PATH " "
#define DELETE    .expect = "DELETE " VERB_JOB_PATH " "
#define PODS      .expect = "GET /api/v1/namespaces/team/pods?labelSelector=skyjob.dev%2Fjob-uid%3D7&"
#define JOB(uid)  "{\"metadata\":{\"uid\":\"" uid "\"}}"
#define LIST(pod) "{\"metadata\":{},\"items\":[" pod "]}"
#define NOT_FOUND .status = 404, .body = "{\"message\":\"skyjobs \\\"mnli\\\" not found\"}"

static void delete_removes_the_object_that_it_has_seen(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = JOB("7")}, {DELETE, .body = "{}"});
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "SkyJob mnli is deleted; its pods end\n");
    assert_has(loopback_request(verb_server, 1), "\"preconditions\":{\"uid\":\"7\"}");
}

static void delete_of_a_job_that_does_not_exist_is_an_error(void **state)
{
    (void)state;
    VERB_SERVE({GET, NOT_FOUND});
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: get skyjobs team/mnli: skyjobs \"mnli\" not "
                                  "found (404)\n");
}

static void delete_waits_until_job_and_pods_are_gone(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = JOB("7")}, {DELETE, .body = "{}"}, {GET, .body = JOB("7")},
               {PODS, .body = LIST("")}, {GET, NOT_FOUND}, {PODS, .body = LIST("{}")},
               {GET, .body = JOB("8")}, {PODS, .body = LIST("")});
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli", "--wait"), EXIT_DONE);
    assert_string_equal(verb_out, "SkyJob mnli and its pods are gone\n");
}

static void delete_fails_when_the_time_to_wait_is_over(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = JOB("7")}, {DELETE, .body = "{}"}, {GET, .body = JOB("7")},
               {PODS, .body = LIST("{}")}, {GET, .body = JOB("7")}, {DELETE, .body = "{}"},
               {GET, NOT_FOUND}, {PODS, .body = LIST("{},{}")});
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli", "--wait", "--timeout=0"),
                     EXIT_FAILED);
    assert_string_equal(verb_err,
                        "kubectl-skyjob: SkyJob mnli is still there after 0 s, being deleted\n");
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli", "--wait", "--timeout=0"),
                     EXIT_FAILED);
    assert_string_equal(verb_err, "kubectl-skyjob: SkyJob mnli is gone, but 2 of its pods are "
                                  "still there after 0 s\n");
}

static void delete_has_a_timeout_only_with_wait(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli", "--timeout=5"), EXIT_CONFIG);
    assert_has(verb_err, "--timeout is of use with --wait only");
    assert_int_equal(VERB_RUN(command_delete, "delete", "mnli", "--wait", "--timeout=5m"),
                     EXIT_CONFIG);
    assert_has(verb_err, "--timeout: must be a number from 0 to 86400, not \"5m\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(delete_removes_the_object_that_it_has_seen),
        VERB_TEST(delete_of_a_job_that_does_not_exist_is_an_error),
        VERB_TEST(delete_waits_until_job_and_pods_are_gone),
        VERB_TEST(delete_fails_when_the_time_to_wait_is_over),
        VERB_TEST(delete_has_a_timeout_only_with_wait),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
