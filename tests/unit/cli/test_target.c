#include "cli/target.h"

#include "verb.h"

static int n_runs;

static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct status status;
    struct json *object;
    enum err_code rc = target_get(t, &status, ctx ? &object : NULL, err);

    n_runs++;
    if (rc == ERR_OK)
        (void)printf("%s/%s is %s\n", t->namespace, t->name, status.state);
    if (rc == ERR_OK && ctx) {
        (void)printf("uid %s\n", json_text(object, "metadata.uid"));
        json_free(object);
        rc = target_annotate(t, "skyjob.dev/a", "b", err);
    }
    return rc;
}

static int command_plain(int argc, char **argv)
{
    return target_run(argc, argv, NULL, (struct target_action){NULL, run});
}

static bool is_loud;

static int command_with_options(int argc, char **argv)
{
    const struct command_option options[] = {{"loud", 'l', .is_set = &is_loud}, {.name = NULL}};

    return target_run(argc, argv, options, (struct target_action){&is_loud, run});
}

static void target_is_in_the_namespace_of_the_kubeconfig(void **state)
{
    (void)state;
    VERB_SERVE(
        {.expect = "GET " VERB_JOB_PATH " ", .body = "{\"status\":{\"state\":\"Running\"}}"});
    assert_int_equal(VERB_RUN(command_plain, "verb", "mnli"), EXIT_DONE);
    assert_string_equal(verb_out, "team/mnli is Running\n");
}

static void target_namespace_and_further_options_may_be_given(void **state)
{
    (void)state;
    VERB_SERVE(
        {.expect = "GET /apis/skyjob.dev/v1alpha1/namespaces/other/skyjobs/mnli ",
         .body = "{\"metadata\":{\"uid\":\"7\"}}"},
        {.expect = "PATCH /apis/skyjob.dev/v1alpha1/namespaces/other/skyjobs/mnli?", .body = "{}"});
    assert_int_equal(VERB_RUN(command_with_options, "verb", "-n", "other", "-l", "mnli"),
                     EXIT_DONE);
    assert_true(is_loud);
    assert_has(verb_out, "uid 7\n");
    assert_has(loopback_request(verb_server, 1),
               "\r\n\r\n{\"metadata\":{\"annotations\":{\"skyjob.dev/a\":\"b\"}}}");
}

static void target_that_is_not_found_is_an_error_of_configuration(void **state)
{
    (void)state;
    VERB_SERVE({.expect = "GET",
                .status = 404,
                .body = "{\"message\":\"skyjobs.skyjob.dev \\\"mnli\\\" not found\"}"});
    assert_int_equal(VERB_RUN(command_plain, "verb", "mnli"), EXIT_CONFIG);
    assert_string_equal(verb_out, "");
    assert_string_equal(verb_err, "kubectl-skyjob: get skyjobs team/mnli: skyjobs.skyjob.dev "
                                  "\"mnli\" not found (404)\n");
}

static void target_needs_exactly_one_name(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    n_runs = 0;
    assert_int_equal(VERB_RUN(command_plain, "verb"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_plain, "verb", "a", "b"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_plain, "verb", "--loud", "a"), EXIT_CONFIG);
    assert_int_equal(n_runs, 0);
    assert_has(verb_err, "see `kubectl-skyjob help verb`");
}

static enum err_code print_ref(void *ctx, struct target *t, struct err *err)
{
    (void)ctx, (void)err;
    (void)printf("%s/%s", t->ref.namespace, t->ref.name ? t->ref.name : "*");
    return ERR_OK;
}

static int command_any(int argc, char **argv)
{
    return target_run_any(argc, argv, NULL, (struct target_action){NULL, print_ref});
}

static void target_may_be_all_jobs_where_the_command_allows_it(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_any, "verb"), EXIT_DONE);
    assert_string_equal(verb_out, "team/*");
    assert_int_equal(VERB_RUN(command_any, "verb", "a"), EXIT_DONE);
    assert_string_equal(verb_out, "team/a");
    assert_int_equal(VERB_RUN(command_any, "verb", "a", "b"), EXIT_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(target_is_in_the_namespace_of_the_kubeconfig),
        VERB_TEST(target_namespace_and_further_options_may_be_given),
        VERB_TEST(target_that_is_not_found_is_an_error_of_configuration),
        VERB_TEST(target_needs_exactly_one_name),
        VERB_TEST(target_may_be_all_jobs_where_the_command_allows_it),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
