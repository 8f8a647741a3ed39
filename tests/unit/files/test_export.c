#include "files/export.h"

#include <sys/stat.h>

#include "base/json.h"
#include "files/safetensors.h"
#include "scratch.h"
#include "suite.h"

static const struct model model = {.vocab = 11,
                                   .hidden = 4,
                                   .layers = 2,
                                   .heads = 2,
                                   .ffn = 8,
                                   .positions = 6,
                                   .labels = 3,
                                   .norm_eps = 1e-12};

/* Parameters of all units; float i of unit u is u + i / 1000. */
static float *params[MODEL_UNITS_MAX];

static int make_params(void **state)
{
    for (int u = 0; u < model_units(&model); u++) {
        size_t n = model_unit_params(&model, u);

        params[u] = calloc(n, sizeof(float));
        for (size_t i = 0; params[u] && i < n; i++)
            params[u][i] = (float)u + (float)i / 1000;
    }
    return scratch_make(state);
}

static int free_params(void **state)
{
    for (int u = 0; u < model_units(&model); u++)
        free(params[u]);
    return scratch_remove(state);
}

static void export_all(const char *folder, int n_shards, const struct plan_home *shards)
{
    const char *const labels[] = {"contradiction", "entailment", "neutral"};
    struct export_params p = {.model = &model,
                              .folder = folder,
                              .n_shards = n_shards,
                              .pad_id = 3,
                              .n_labels = 3,
                              .labels = labels,
                              .dropout = 0.1};
    struct err err;

    memcpy(p.shards, shards, (size_t)n_shards * sizeof *shards);
    for (int s = n_shards - 1; s >= 0; s--) {
        const float *units[MODEL_UNITS_MAX];

        for (int i = 0; i < shards[s].n_units; i++)
            units[i] = params[shards[s].first_unit + i];
        if (export_shard(&p, s, units, &err) != ERR_OK)
            fail_msg("%s", err.text);
    }
    assert_int_equal(export_rest(&p, NULL), ERR_OK);
}

/* Every tensor of units first .. first + n - 1, and no other, with the right floats. */
static void check_shard(const char *path, int first, int n)
{
    struct safetensors *s;
    int count = 0;

    assert_int_equal(safetensors_open(path, &s, NULL), ERR_OK);
    for (int u = first; u < first + n; u++) {
        for (int i = 0; i < model_unit_tensors(&model, u); i++, count++) {
            struct model_tensor want = model_tensor(&model, u, i);
            const struct weight *got = safetensors_find(s, want.name);

            assert_non_null(got);
            assert_int_equal(got->n_dims, want.n_dims);
            for (int k = 0; k < want.n_dims; k++)
                assert_int_equal(got->dims[k], want.dims[k]);
            assert_int_equal(got->count, want.count);
            assert_memory_equal(got->data, params[u] + want.offset, want.count * sizeof(float));
        }
    }
    assert_int_equal(s->n, count);
    safetensors_close(s);
}

static struct json *read_json(const char *path)
{
    struct buf text = {.max = 1 << 20};
    struct json *json = NULL;

    assert_int_equal(file_read(path, &text, NULL), ERR_OK);
    assert_int_equal(json_parse(text.data, text.len, &json, NULL), ERR_OK);
    buf_deinit(&text);
    return json;
}

static const struct plan_home three[] = {{.first_unit = 0, .n_units = 2},
                                         {.first_unit = 2, .n_units = 1},
                                         {.first_unit = 3, .n_units = 4}};
static const struct plan_home whole[] = {{.n_units = 7}};

static void export_writes_a_shard_for_each_stage_and_an_index(void **state)
{
    struct json *index;
    const struct json *map;

    (void)state;
    export_all(scratch_path("three"), 3, three);
    check_shard(scratch_path("three/model-00001-of-00003.safetensors"), 0, 2);
    check_shard(scratch_path("three/model-00002-of-00003.safetensors"), 2, 1);
    check_shard(scratch_path("three/model-00003-of-00003.safetensors"), 3, 4);
    index = read_json(scratch_path("three/model.safetensors.index.json"));
    map = json_get(index, "weight_map");
    assert_string_equal(json_string(json_get(map, "bert.embeddings.LayerNorm.bias"), ""),
                        "model-00001-of-00003.safetensors");
    assert_string_equal(json_string(json_get(map, "bert.encoder.layer.0.output.dense.weight"), ""),
                        "model-00002-of-00003.safetensors");
    assert_string_equal(json_string(json_get(map, "classifier.bias"), ""),
                        "model-00003-of-00003.safetensors");
    assert_int_equal(json_count(map), 5 + 2 * (10 + 6) + 2 + 2);
    json_free(index);
}

static void export_of_one_stage_is_one_file_without_an_index(void **state)
{

    (void)state;
    export_all(scratch_path("one"), 1, whole);
    check_shard(scratch_path("one/model.safetensors"), 0, 7);
    assert_int_not_equal(access(scratch_path("one/model.safetensors.index.json"), F_OK), 0);
}

static void export_removes_what_another_number_of_stages_left(void **state)
{

    (void)state;
    export_all(scratch_path("again"), 3, three);
    export_all(scratch_path("again"), 1, whole);
    assert_int_not_equal(access(scratch_path("again/model.safetensors.index.json"), F_OK), 0);
    export_all(scratch_path("again"), 3, three);
    assert_int_not_equal(access(scratch_path("again/model.safetensors"), F_OK), 0);
    assert_int_equal(access(scratch_path("again/model.safetensors.index.json"), F_OK), 0);
}

static void export_config_is_what_transformers_reads(void **state)
{
    struct json *config;

    (void)state;
    export_all(scratch_path("config"), 1, whole);
    config = read_json(scratch_path("config/config.json"));
    assert_string_equal(json_string(json_first(json_get(config, "architectures")), ""),
                        "BertForSequenceClassification");
    assert_string_equal(json_text(config, "model_type"), "bert");
    assert_int_equal(json_i64(json_get(config, "hidden_size"), 0), 4);
    assert_int_equal(json_i64(json_get(config, "num_hidden_layers"), 0), 2);
    assert_int_equal(json_i64(json_get(config, "num_attention_heads"), 0), 2);
    assert_int_equal(json_i64(json_get(config, "intermediate_size"), 0), 8);
    assert_int_equal(json_i64(json_get(config, "max_position_embeddings"), 0), 6);
    assert_int_equal(json_i64(json_get(config, "vocab_size"), 0), 11);
    assert_string_equal(json_text(config, "id2label.1"), "entailment");
    assert_int_equal(json_i64(json_path(config, "label2id.neutral"), 0), 2);
    assert_true(json_double(json_get(config, "layer_norm_eps"), 0) == 1e-12);
    assert_int_equal(json_i64(json_get(config, "pad_token_id"), 0), 3);
    json_free(config);
}

/* --- the heads --- */

static struct head {
    const char *name;
    enum model_head head;
    int labels;
    const char *class_name;
    const char *problem;  /* "": not said */
    const char *label[3]; /* what the config says of them */
} heads[] = {
    {"export_names_the_labels_of_a_classifier",
     MODEL_HEAD_CLASSIFIER,
     3,
     "BertForSequenceClassification",
     "single_label_classification",
     {"no", "yes", "LABEL_2"}},
    {"export_says_that_a_regression_has_one_number",
     MODEL_HEAD_REGRESSION,
     1,
     "BertForSequenceClassification",
     "regression",
     {"no"}},
    {"export_says_that_it_is_a_masked_lm", MODEL_HEAD_MASKED_LM, 3, "BertForMaskedLM", "", {NULL}},
    {"export_says_that_it_is_a_pretraining",
     MODEL_HEAD_PRETRAINING,
     3,
     "BertForPreTraining",
     "",
     {NULL}},
};

static void export_head(void **state)
{
    const struct head *head = *state;
    const char *const labels[] = {"no", "yes"};
    struct model m = model;
    struct export_params p = {.model = &m,
                              .folder = scratch_path("head"),
                              .n_shards = 1,
                              .shards = {whole[0]},
                              .is_cased = true,
                              .n_labels = 2,
                              .labels = labels};
    struct json *json;

    m.head = head->head;
    m.labels = head->labels;
    assert_int_equal(export_rest(&p, NULL), ERR_OK);
    json = read_json(scratch_path("head/config.json"));
    assert_string_equal(json_string(json_first(json_get(json, "architectures")), ""),
                        head->class_name);
    assert_string_equal(json_text(json, "problem_type"), head->problem);
    assert_int_equal(json_count(json_get(json, "id2label")), head->label[0] ? head->labels : 0);
    for (int i = 0; i < head->labels && head->label[0]; i++) {
        char id[12];

        (void)snprintf(id, sizeof id, "%d", i);
        assert_string_equal(json_string(json_get(json_get(json, "id2label"), id), ""),
                            head->label[i]);
        assert_int_equal(json_i64(json_get(json_get(json, "label2id"), head->label[i]), -1), i);
    }
    json_free(json);
    json = read_json(scratch_path("head/tokenizer_config.json"));
    assert_false(json_bool(json_get(json, "do_lower_case"), true));
    assert_int_equal(json_i64(json_get(json, "model_max_length"), 0), 6);
    json_free(json);
}

static void export_says_where_it_cannot_write(void **state)
{
    struct export_params p = {
        .model = &model, .folder = scratch_path("no/such"), .n_shards = 1, .shards = {whole[0]}};
    struct err err = {0};

    (void)state;
    assert_int_equal(export_shard(&p, 0, (const float *const *)params, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "no/such"));
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(export_writes_a_shard_for_each_stage_and_an_index),
        cmocka_unit_test(export_of_one_stage_is_one_file_without_an_index),
        cmocka_unit_test(export_removes_what_another_number_of_stages_left),
        cmocka_unit_test(export_config_is_what_transformers_reads),
        cmocka_unit_test(export_says_where_it_cannot_write),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, heads, export_head);
    return suite_run(&suite, "export", make_params, free_params);
}
