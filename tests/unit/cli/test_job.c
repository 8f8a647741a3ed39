#include "cli/job.h"

#include "scratch.h"
#include "suite.h"

#define HEAD "apiVersion: skyjob.dev/v1alpha1\nkind: SkyJob\n"
#define SPEC "spec: {data: {source: {sample: MNLI}}}\n"
#define GOOD HEAD "metadata: {name: mnli}\n" SPEC

static enum err_code load_with(const char *text, const char *model, struct job *out,
                               struct err *err)
{
    return job_load(scratch_text("job.yaml", text), model, out, err);
}

static enum err_code load(const char *text, struct job *out, struct err *err)
{
    return load_with(text, NULL, out, err);
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
                          "\"spec\": {\"data\": {\"source\": {\"configMap\": {\"name\": \"d\"}}}}, "
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
    assert_int_equal(job_load("manifests/samples/mnli.yaml", NULL, &job, NULL), ERR_OK);
    assert_string_equal(job.name, "mnli");
    job_deinit(&job);
    assert_int_equal(job_load("manifests/samples/finetune.yaml", NULL, &job, NULL), ERR_OK);
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
    assert_memory_equal(err.text, scratch, strlen(scratch));
}

#define CONFIG                                                                                     \
    "{\"vocab_size\":28996,\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,"  \
    "\"intermediate_size\":100,\"max_position_embeddings\":32}"
#define MODEL_JOB(model)                                                                           \
    HEAD "metadata: {name: a}\n"                                                                   \
         "spec: {model: " model                                                                    \
         ", data: {source: {sample: MNLI}}, training: {maxSequenceLength: 32}}\n"

/* A job that starts from a model with CONFIG in file `name`. */
static enum err_code load_model(const char *name, const char *text, struct job *out,
                                struct err *err)
{
    enum err_code rc;

    scratch_text(name, CONFIG);
    rc = load_with(text, scratch, out, err);
    assert_int_equal(unlink(scratch_path(name)), 0);
    return rc;
}

static void job_takes_the_sizes_of_its_model(void **state)
{
    static const char *const models[] = {"{}", "{preset: BertBase, layers: 3}", "null"};
    struct job job;

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char text[512];

        (void)snprintf(text, sizeof text, MODEL_JOB("%s"), models[i]);
        assert_int_equal(load_model(i == 0 ? "bert_config.json" : "config.json", text, &job, NULL),
                         ERR_OK);
        assert_int_equal(job.spec.model.vocab, 28996);
        assert_int_equal(job.spec.model.hidden, 64);
        assert_int_equal(job.spec.model.layers, 3);
        assert_int_equal(job.spec.model.heads, 4);
        assert_int_equal(job.spec.model.ffn, 100);
        assert_int_equal(job.spec.model.positions, 32);
        assert_int_equal(json_int(json_path(job.spec_json, "model.hiddenSize"), 0), 64);
        assert_int_equal(json_int(json_path(job.spec_json, "training.maxSequenceLength"), 0), 32);
        job_deinit(&job);
    }
}

static void job_takes_the_sizes_in_its_status(void **state)
{
    static const char sizes[] = "status: {model: {vocabSize: 99, hiddenSize: 64, layers: 3, "
                                "attentionHeads: 4, feedForwardSize: 128, maxPositions: 256}}\n";
    static const char from[] = "from: {persistentVolumeClaim: {claimName: a}}";
    char text[1024];
    struct job job;
    struct err err;

    (void)state;
    (void)snprintf(text, sizeof text, MODEL_JOB("{%s}") "%s", from, sizes);
    assert_int_equal(load_with(text, NULL, &job, NULL), ERR_OK);
    assert_int_equal(job.spec.model.hidden, 64);
    assert_int_equal(json_int(json_path(job.spec_json, "model.hiddenSize"), 0), 64);
    assert_int_equal(job_check_sizes(&job, NULL), ERR_OK);
    job_deinit(&job);
    (void)snprintf(text, sizeof text, MODEL_JOB("{layers: 4, %s}") "%s", from, sizes);
    assert_int_equal(load_with(text, NULL, &job, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "status.model: another size: set spec.model.layers to 3"));
    (void)snprintf(text, sizeof text, MODEL_JOB("{%s}"), from);
    assert_int_equal(load_with(text, NULL, &job, NULL), ERR_OK);
    assert_int_equal(job_check_sizes(&job, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "with --model DIR"));
    job_deinit(&job);
}

static void job_lists_all_sizes_that_differ_from_its_model(void **state)
{
    struct job job;
    struct err err;

    (void)state;
    assert_int_equal(load_model("config.json",
                                MODEL_JOB("{vocabSize: 512, layers: 3, attentionHeads: 8}"), &job,
                                &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "config.json: another size: set spec.model.vocabSize to 28996 "
                                     "(is 512), spec.model.attentionHeads to 4 (is 8)"));
    assert_null(strstr(err.text, "layers"));
}

static void job_without_the_config_of_its_model_is_refused(void **state)
{
    struct job job;
    struct err err;

    (void)state;
    assert_int_equal(load_model("other.json", GOOD, &job, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "has neither config.json nor bert_config.json"));
    assert_int_equal(load_with(GOOD, "/nowhere", &job, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "--model: /nowhere: No such file"));
    assert_int_equal(load_model("config.json", MODEL_JOB("3"), &job, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.model: must be an object"));
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(job_of_the_smallest_file_has_name_and_defaults),
        cmocka_unit_test(job_is_found_among_documents_of_other_kinds),
        cmocka_unit_test(job_that_kubectl_printed_is_taken_with_its_status),
        cmocka_unit_test(job_samples_of_the_repository_are_read),
        cmocka_unit_test(job_takes_the_sizes_of_its_model),
        cmocka_unit_test(job_takes_the_sizes_in_its_status),
        cmocka_unit_test(job_lists_all_sizes_that_differ_from_its_model),
        cmocka_unit_test(job_without_the_config_of_its_model_is_refused),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, fixed);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "job", scratch_make, scratch_remove);
}
