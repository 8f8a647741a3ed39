#include "verb.h"

#define GET            .expect = "GET " VERB_JOB_PATH " "
#define PATCH          .expect = "PATCH " VERB_JOB_PATH "?fieldManager=kubectl-skyjob "
#define RUNS(suspends) "{\"spec\":{\"suspend\":" suspends "},\"status\":{\"state\":\"Running\"}}"
#define ANSWER(value, reason, message)                                                             \
    "{\"spec\":{\"suspend\":true},\"status\":{\"state\":\"Running\","                              \
    "\"suspendTime\":\"2026-11-28T08:00:00Z\",\"conditions\":[{\"type\":\"Suspended\","            \
    "\"status\":\"" value "\",\"reason\":\"" reason "\",\"message\":\"" message "\"}]}}"
#define ENDED                                                                                      \
    "{\"status\":{\"state\":\"Complete\",\"conditions\":[{\"type\":\"Complete\","                  \
    "\"status\":\"True\",\"reason\":\"TrainingFinished\",\"message\":\"\"}]}}"

static void suspend_patches_the_spec_and_prints_what_the_operator_answers(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = RUNS("false")}, {PATCH, .body = "{}"}, {GET, .body = RUNS("true")},
               {GET, .body = ANSWER("False", "Suspending", "A checkpoint is written.")});
    assert_int_equal(VERB_RUN(command_suspend, "suspend", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "SkyJob mnli: A checkpoint is written.\n");
    assert_has(loopback_request(verb_server, 1), "Content-Type: application/merge-patch+json\r\n");
    assert_has(loopback_request(verb_server, 1), "\r\n\r\n{\"spec\":{\"suspend\":true}}");
}

static void suspend_fails_with_the_sentence_of_an_operator_that_cannot(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = "{}"}, {PATCH, .body = "{}"},
               {GET, .body = ANSWER("False", "CannotSuspend", "The job trains on.")});
    assert_int_equal(VERB_RUN(command_suspend, "suspend", "mnli"), EXIT_FAILED);
    assert_string_equal(verb_err, "kubectl-skyjob: SkyJob mnli cannot be suspended: The job trains "
                                  "on.\n");
}

static void suspend_passes_on_why_the_api_server_refuses(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = "{}"},
               {PATCH, .status = 422, .body = "{\"message\":\"spec.suspend: not with peers\"}"});
    assert_int_equal(VERB_RUN(command_suspend, "suspend", "mnli"), EXIT_CONFIG);
    assert_has(verb_err, "patch skyjobs team/mnli: spec.suspend: not with peers (422)");
}

static void suspend_and_resume_leave_a_job_alone_that_already_is_so(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = ANSWER("True", "Suspended", "Suspended with a checkpoint of step 7.")},
               {GET, .body = RUNS("false")}, {GET, .body = "{\"spec\":{}}"});
    assert_int_equal(VERB_RUN(command_suspend, "suspend", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "spec.suspend of SkyJob mnli is true already: Suspended with a "
                                  "checkpoint of step 7.\n");
    assert_int_equal(VERB_RUN(command_resume, "resume", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "spec.suspend of SkyJob mnli is false already\n");
    assert_int_equal(VERB_RUN(command_resume, "resume", "mnli"), EXIT_DONE);
}

static void suspend_and_resume_refuse_a_job_that_has_ended(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = ENDED}, {GET, .body = ENDED});
    assert_int_equal(VERB_RUN(command_suspend, "suspend", "mnli"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: SkyJob mnli is Complete: there is nothing to "
                                  "suspend any more\n");
    assert_int_equal(VERB_RUN(command_resume, "resume", "mnli"), EXIT_CONFIG);
    assert_has(verb_err, "there is nothing to resume any more");
}

static void resume_patches_the_spec(void **state)
{
    (void)state;
    VERB_SERVE({GET, .body = ANSWER("True", "Suspended", "")}, {PATCH, .body = "{}"});
    assert_int_equal(VERB_RUN(command_resume, "resume", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "SkyJob mnli is resumed: it is planned again\n");
    assert_has(loopback_request(verb_server, 1), "\r\n\r\n{\"spec\":{\"suspend\":false}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(suspend_patches_the_spec_and_prints_what_the_operator_answers),
        VERB_TEST(suspend_fails_with_the_sentence_of_an_operator_that_cannot),
        VERB_TEST(suspend_passes_on_why_the_api_server_refuses),
        VERB_TEST(suspend_and_resume_leave_a_job_alone_that_already_is_so),
        VERB_TEST(suspend_and_resume_refuse_a_job_that_has_ended),
        VERB_TEST(resume_patches_the_spec),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
