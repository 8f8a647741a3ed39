#include "cli/variant.h"

#include <stdlib.h>
#include <string.h>

#include "suite.h"

static struct json *parsed(const char *text)
{
    struct json *out = NULL;

    assert_int_equal(json_parse(text, strlen(text), &out, NULL), ERR_OK);
    return out;
}

static void assert_same(const struct json *got, const char *want)
{
    struct json *json = parsed(want);
    char *text = json_print(got);

    if (!json_equal(got, json))
        fail_msg("got %s", text);
    free(text);
    json_free(json);
}

/* --- merge patches: examples of RFC 7386, appendix A --- */

static struct merge {
    const char *name, *target, *patch, *want;
} merges[] = {
    {"variant_apply_replaces_a_member", "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
    {"variant_apply_adds_a_member", "{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
    {"variant_apply_removes_a_member", "{\"a\":\"b\",\"b\":1}", "{\"a\":null}", "{\"b\":1}"},
    {"variant_apply_replaces_a_list_whole", "{\"a\":[1,2]}", "{\"a\":[3]}", "{\"a\":[3]}"},
    {"variant_apply_merges_objects", "{\"a\":{\"b\":\"c\",\"d\":1}}",
     "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\",\"d\":1}}"},
    {"variant_apply_replaces_what_is_no_object", "{\"a\":[1]}", "{\"a\":{\"b\":null,\"c\":1}}",
     "{\"a\":{\"c\":1}}"},
    {"variant_apply_keeps_nulls_of_the_target", "{\"e\":null}", "{\"a\":1}",
     "{\"e\":null,\"a\":1}"},
    {"variant_apply_leaves_no_null_in_what_it_adds", "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}",
     "{\"a\":{\"bb\":{}}}"},
};

static void check_merge(void **state)
{
    const struct merge *row = *state;
    struct json *target = parsed(row->target);
    struct json *patch = parsed(row->patch);
    struct json *got = NULL;

    assert_int_equal(variant_apply(target, patch, &got, NULL), ERR_OK);
    assert_same(got, row->want);
    json_free(got);
    json_free(patch);
    json_free(target);
}

/* --- jobs --- */

#define JOB(more)                                                                                  \
    "{\"model\": {\"preset\": \"BertTiny\"}, \"data\": {\"task\": \"MNLI\", \"source\": "          \
    "{\"sample\": \"MNLI\"}}, \"replicas\": 2" more "}"

static struct spec read_spec(const struct json *json)
{
    struct spec out;
    struct err err;

    if (spec_parse(json, &out, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return out;
}

/* Patch the job, and let the parser judge what comes out. */
static struct patched {
    const char *name, *job;
    struct variant_sync sync;
    const char *patch; /* its "sync" */
    const char *yaml;  /* of the sync that comes out */
} patches[] = {
    {"variant_sync_of_a_job_without_one",
     JOB(""),
     {6, SPEC_PROTOCOL_ASP},
     "{\"protocol\":\"Switch\",\"switchAfterPercent\":6,\"switchTo\":\"ASP\"}",
     "{protocol: Switch, switchAfterPercent: 6, switchTo: ASP}"},
    {"variant_sync_to_plain_local_keeps_its_fields_and_drops_those_of_switch",
     JOB(", \"sync\": {\"protocol\": \"Switch\", \"switchAfterSteps\": 9, \"switchTo\": \"Local\", "
         "\"localSteps\": 8, \"outerRate\": \"0.7\", \"stragglers\": \"Elastic\", "
         "\"gradientPercent\": 10}"),
     {0, SPEC_PROTOCOL_LOCAL},
     "{\"protocol\":\"Local\",\"switchAfterSteps\":null,\"switchTo\":null,"
     "\"gradientPercent\":null,\"stragglers\":null}",
     "{protocol: Local, localSteps: 8, outerRate: \"0.7\"}"},
    {"variant_sync_to_bsp_keeps_what_steps_in_step_have",
     JOB(", \"sync\": {\"protocol\": \"Switch\", \"switchAfterPercent\": 9, \"switchTo\": "
         "\"Local\", \"localSteps\": 8, \"gradientPercent\": 10, \"stragglers\": \"Elastic\"}"),
     {100, SPEC_PROTOCOL_LOCAL},
     "{\"protocol\":\"BSP\",\"switchAfterPercent\":null,\"switchTo\":null,\"localSteps\":null}",
     "{protocol: BSP, gradientPercent: 10, stragglers: Elastic}"},
    {"variant_sync_to_bsp_keeps_the_bound_that_greedy_needs",
     JOB(", \"sync\": {\"protocol\": \"Switch\", \"switchAfterPercent\": 9, \"maxStaleness\": 3, "
         "\"stragglers\": \"Greedy\"}"),
     {100, SPEC_PROTOCOL_ASP},
     "{\"protocol\":\"BSP\",\"switchAfterPercent\":null}",
     "{protocol: BSP, maxStaleness: 3, stragglers: Greedy}"},
    {"variant_sync_of_an_open_one_drops_what_belongs_to_local",
     JOB(", \"sync\": {\"protocol\": \"Auto\", \"maxStaleness\": 3, \"localSteps\": 8}"),
     {25, SPEC_PROTOCOL_ASP},
     "{\"protocol\":\"Switch\",\"switchAfterPercent\":25,\"switchTo\":\"ASP\",\"localSteps\":null}",
     "{protocol: Switch, maxStaleness: 3, switchAfterPercent: 25, switchTo: ASP}"},
    {"variant_sync_of_plain_asp_may_be_switched_to",
     JOB(", \"sync\": {\"protocol\": \"ASP\", \"maxStaleness\": 3}"),
     {12, SPEC_PROTOCOL_ASP},
     "{\"protocol\":\"Switch\",\"switchAfterPercent\":12,\"switchTo\":\"ASP\"}",
     "{protocol: Switch, maxStaleness: 3, switchAfterPercent: 12, switchTo: ASP}"},
};

static void check_patched(void **state)
{
    const struct patched *row = *state;
    struct json *job = parsed(row->job);
    struct spec spec = read_spec(job);
    struct json *patch = NULL;
    struct json *got = NULL;
    struct buf yaml = {.max = 1000};

    assert_int_equal(variant_patch(&spec, job, row->sync, &patch, NULL), ERR_OK);
    assert_same(json_path(patch, "spec.sync"), row->patch);
    assert_int_equal(variant_apply(job, json_get(patch, "spec"), &got, NULL), ERR_OK);
    (void)read_spec(got);
    assert_int_equal(variant_yaml(json_get(got, "sync"), &yaml, NULL), ERR_OK);
    assert_string_equal(buf_text(&yaml), row->yaml);
    buf_deinit(&yaml);
    json_free(got);
    json_free(patch);
    json_free(job);
}

static void variant_spec_changes_sync_seed_steps_and_checkpoints_only(void **state)
{
    struct json *job = parsed(JOB(", \"training\": {\"epochs\": 3, \"dropout\": \"0.2\"}, "
                                  "\"checkpoint\": {\"everySteps\": 5, \"keep\": 3}"));
    struct spec spec = read_spec(job);
    const struct variant_run run = {
        .sync = {100, SPEC_PROTOCOL_ASP}, .seed = 9007199254740991, .steps = 20};
    struct json *got = NULL;

    (void)state;
    assert_int_equal(variant_spec(&spec, job, &run, &got, NULL), ERR_OK);
    (void)read_spec(got);
    assert_same(got, JOB(", \"sync\": {\"protocol\": \"BSP\"}, \"training\": {\"dropout\": "
                         "\"0.2\", \"seed\": 9007199254740991, \"steps\": 20}, "
                         "\"checkpoint\": {\"mode\": \"Never\"}"));
    json_free(got);
    json_free(job);
}

static void variant_spec_reports_the_best_without_keeping_it(void **state)
{
    struct json *job =
        parsed(JOB(", \"training\": {\"keepBest\": \"accuracy\", \"evaluateEverySteps\": 5}"));
    struct spec spec = read_spec(job);
    const struct variant_run run = {.sync = {0, SPEC_PROTOCOL_ASP}, .seed = 1};
    struct json *got = NULL;

    (void)state;
    assert_int_equal(variant_spec(&spec, job, &run, &got, NULL), ERR_OK);
    spec = read_spec(got);
    assert_false(spec.training.keeps_best);
    assert_int_equal(spec.training.best_by, TASK_ACCURACY);
    assert_int_equal(spec.training.patience, 100000);
    json_free(got);
    json_free(job);
}

static void variant_yaml_quotes_what_yaml_would_read_otherwise(void **state)
{
    struct json *json = parsed("{\"a\": \"Off\", \"b\": \"1\", \"c\": 1, \"d\": [1, \"x\"], "
                               "\"e\": {\"f\": \"Word\"}, \"g\": true}");
    struct buf yaml = {.max = 1000};

    (void)state;
    assert_int_equal(variant_yaml(json, &yaml, NULL), ERR_OK);
    assert_string_equal(buf_text(&yaml),
                        "{a: \"Off\", b: \"1\", c: 1, d: [1,\"x\"], e: {f: Word}, g: true}");
    buf_deinit(&yaml);
    json_free(json);
}

static void variant_name_is_short(void **state)
{
    char name[VARIANT_NAME_BYTES];

    (void)state;
    variant_name((struct variant_sync){100, SPEC_PROTOCOL_LOCAL}, name);
    assert_string_equal(name, "BSP");
    variant_name((struct variant_sync){0, SPEC_PROTOCOL_LOCAL}, name);
    assert_string_equal(name, "Local");
    variant_name((struct variant_sync){12, SPEC_PROTOCOL_ASP}, name);
    assert_string_equal(name, "12% BSP, then ASP");
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(variant_spec_changes_sync_seed_steps_and_checkpoints_only),
        cmocka_unit_test(variant_spec_reports_the_best_without_keeping_it),
        cmocka_unit_test(variant_yaml_quotes_what_yaml_would_read_otherwise),
        cmocka_unit_test(variant_name_is_short),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, merges, check_merge);
    SUITE_ROWS(&suite, patches, check_patched);
    SUITE_TESTS(&suite, own);
    return suite_run(&suite, "variant", NULL, NULL);
}
