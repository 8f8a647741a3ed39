#include "cli/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

#define HEAD "apiVersion: skyjob.dev/v1alpha1\nkind: SkyJob\n"
#define SPEC "spec: {data: {source: {sample: MNLI}}}\n"
#define GOOD HEAD "metadata: {name: mnli}\n" SPEC

static enum err_code load(const char *text, struct job *out, struct err *err)
{
    char path[] = "/tmp/test_job-XXXXXX";
    int fd = mkstemp(path);
    enum err_code rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    rc = job_load(path, out, err);
    (void)unlink(path);
    return rc;
}

static void job_of_the_smallest_file_has_name_and_defaults(void **state)
{
    struct job job;

    (void)state;
    assert_int_equal(load(GOOD, &job, NULL), ERR_OK);
    assert_string_equal(job.name, "mnli");
    assert_string_equal(job.namespace, "default");
    assert_int_equal(job.spec.training.batch_size, 32);
    assert_int_equal(json_kind_of(job.spec_json), JSON_OBJECT);
    job_deinit(&job);
}

static void job_is_found_among_documents_of_other_kinds(void **state)
{
    struct job job;

    (void)state;
    assert_int_equal(load("kind: ConfigMap\n---\n" GOOD "---\nkind: Secret\n", &job, NULL), ERR_OK);
    assert_string_equal(job.name, "mnli");
    job_deinit(&job);
}

static void job_that_kubectl_printed_is_taken_with_its_status(void **state)
{
    struct job job;

    (void)state;
    assert_int_equal(load("{\"apiVersion\": \"skyjob.dev/v1alpha1\", \"kind\": \"SkyJob\", "
                          "\"metadata\": {\"name\": \"a\", \"namespace\": \"b\", \"uid\": \"c\"}, "
                          "\"spec\": {\"data\": {\"source\": {\"configMap\": \"d\"}}}, "
                          "\"status\": {\"state\": \"Running\"}}",
                          &job, NULL),
                     ERR_OK);
    assert_string_equal(job.namespace, "b");
    job_deinit(&job);
}

static void job_samples_of_the_repository_are_read(void **state)
{
    struct job job;

    (void)state;
    assert_int_equal(job_load("manifests/samples/mnli.yaml", &job, NULL), ERR_OK);
    assert_string_equal(job.name, "mnli");
    job_deinit(&job);
    assert_int_equal(job_load("manifests/samples/finetune.yaml", &job, NULL), ERR_OK);
    assert_string_equal(job.spec.from.claim, "finetune");
    assert_int_equal(job.spec.data.labels.n, 5);
    job_deinit(&job);
}

struct row {
    const char *name;
    const char *text;
    enum err_code code;
    const char *says;
};

static struct row rows[] = {
    {"job_file_without_a_skyjob_is_refused", "kind: Pod\n", ERR_NOT_FOUND, "no document of kind"},
    {"job_file_that_is_empty_is_refused", "", ERR_NOT_FOUND, "no document of kind"},
    {"job_file_with_two_skyjobs_is_refused", GOOD "---\n" GOOD, ERR_INVALID, "more than one"},
    {"job_of_another_version_is_refused", "apiVersion: skyjob.dev/v2\nkind: SkyJob\n", ERR_INVALID,
     "apiVersion: must be skyjob.dev/v1alpha1, found \"skyjob.dev/v2\""},
    {"job_with_an_unknown_field_at_the_top_is_refused", GOOD "sepc: {}\n", ERR_INVALID,
     "sepc: there is no such field"},
    {"job_with_an_unknown_field_in_its_spec_is_refused",
     HEAD "metadata: {name: a}\nspec: {modle: {}}\n", ERR_INVALID, "spec.modle"},
    {"job_without_a_name_is_refused", HEAD SPEC, ERR_INVALID, "metadata.name: \"\""},
    {"job_with_a_name_that_is_none_is_refused", HEAD "metadata: {name: A_b}\n" SPEC, ERR_INVALID,
     "metadata.name: \"A_b\""},
    {"job_with_a_name_too_long_for_its_pods_is_refused",
     HEAD "metadata: {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n" SPEC, ERR_INVALID,
     "metadata.name"},
    {"job_in_a_namespace_that_cannot_be_is_refused",
     HEAD "metadata: {name: a, namespace: ../b}\n" SPEC, ERR_INVALID, "metadata.namespace"},
    {"job_without_a_spec_is_refused", HEAD "metadata: {name: a}\n", ERR_INVALID, "spec: must be"},
    {"job_that_is_no_yaml_is_refused", "a: [", ERR_INVALID, "line"},
    {"job_that_is_a_list_is_refused", "- a\n- b\n", ERR_NOT_FOUND, "no document of kind"},
    {"job_with_a_field_twice_is_refused", GOOD SPEC, ERR_INVALID, "spec"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct job job;
    struct err err = {0};

    assert_int_equal(load(row->text, &job, &err), row->code);
    if (!strstr(err.text, row->says))
        fail_msg("said \"%s\"", err.text);
    assert_memory_equal(err.text, "/tmp/test_job-", 14);
}

#define N_ROWS (sizeof rows / sizeof rows[0])

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(job_of_the_smallest_file_has_name_and_defaults),
        cmocka_unit_test(job_is_found_among_documents_of_other_kinds),
        cmocka_unit_test(job_that_kubectl_printed_is_taken_with_its_status),
        cmocka_unit_test(job_samples_of_the_repository_are_read),
    };
    enum { N_FIXED = sizeof fixed / sizeof fixed[0] };
    static struct CMUnitTest tests[N_FIXED + N_ROWS];

    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < N_ROWS; i++)
        tests[N_FIXED + i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return _cmocka_run_group_tests("job", tests, N_FIXED + N_ROWS, NULL, NULL);
}
