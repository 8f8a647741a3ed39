#include "files/pretrained.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "files/safetensors.h"
#include "golden_model.h"
#include "scratch.h"
#include "suite.h"

#define GOLDEN "tests/golden/pretrained/"

static struct pretrained *open_folder(const char *folder)
{
    struct pretrained *p = NULL;
    struct err err;

    if (pretrained_open(folder, NULL, &p, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return p;
}

/* All units; returns how many tensors were missing. */
static int check_all(const struct pretrained *p, const struct model *m)
{
    int n_missing = 0;

    for (int unit = 0; unit < model_units(m); unit++) {
        size_t n = model_unit_params(m, unit);
        float *params = malloc(n * sizeof *params);
        struct pretrained_missing missing;
        struct err err;

        assert_non_null(params);
        for (size_t i = 0; i < n; i++)
            params[i] = 99;
        if (pretrained_load_unit(p, m, unit, params, &missing, &err) != ERR_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < model_unit_tensors(m, unit); i++) {
            struct model_tensor t = model_tensor(m, unit, i);
            bool is_missing = params[t.offset] > 98;

            n_missing += is_missing;
            missing.n_tensors -= is_missing;
            for (size_t k = 0; k < t.count; k++)
                assert_true(params[t.offset + k] == (is_missing ? 99 : golden_element(t.name, k)));
        }
        assert_int_equal(missing.n_tensors, 0);
        free(params);
    }
    return n_missing;
}

/* --- what transformers and TensorFlow write --- */

static struct golden {
    const char *name;
    const char *folder;
    enum model_head head;
    int labels;
    int n_missing;
} goldens[] = {
    {"pretrained_reads_a_classifier", GOLDEN "classifier", MODEL_HEAD_CLASSIFIER, 3, 0},
    {"pretrained_leaves_a_head_of_other_labels_as_it_is", GOLDEN "classifier",
     MODEL_HEAD_REGRESSION, 1, 2},
    {"pretrained_reads_a_bare_encoder_in_f16", GOLDEN "encoder-f16", MODEL_HEAD_CLASSIFIER, 3, 2},
    {"pretrained_finds_the_pooler_of_an_encoder", GOLDEN "encoder-f16", MODEL_HEAD_PRETRAINING, 3,
     7},
    {"pretrained_reads_bf16_shards", GOLDEN "pretraining-bf16-shards", MODEL_HEAD_PRETRAINING, 3,
     0},
    {"pretrained_fine_tunes_from_a_language_model", GOLDEN "pretraining-bf16-shards",
     MODEL_HEAD_CLASSIFIER, 3, 2},
    {"pretrained_reads_a_masked_lm", GOLDEN "masked-lm", MODEL_HEAD_MASKED_LM, 3, 0},
    {"pretrained_starts_the_pooler_that_a_masked_lm_lacks", GOLDEN "masked-lm",
     MODEL_HEAD_CLASSIFIER, 3, 4},
};

static void pretrained_golden(void **state)
{
    const struct golden *g = *state;
    struct pretrained *p = open_folder(g->folder);
    struct model m = golden_model;

    m.head = g->head;
    m.labels = g->labels;
    assert_int_equal(pretrained_check(p, &m, NULL), ERR_OK);
    assert_int_equal(check_all(p, &m), g->n_missing);
    pretrained_close(p);
}

/* The golden classifier with other names of its labels. */
static struct pretrained *open_with_labels(const char *id2label)
{
    char command[PATH_MAX];
    char config[512];

    (void)snprintf(command, sizeof command,
                   "rm -rf %s/named && cp -r " GOLDEN "classifier %s/named", scratch, scratch);
    assert_int_equal(system(command), 0);
    (void)snprintf(config, sizeof config,
                   "{\"vocab_size\":11,\"hidden_size\":4,\"num_hidden_layers\":1,"
                   "\"num_attention_heads\":2,\"intermediate_size\":8,"
                   "\"max_position_embeddings\":6,\"id2label\":%s}",
                   id2label);
    scratch_text("named/config.json", config);
    return open_folder(scratch_path("named"));
}

static void pretrained_puts_the_head_into_the_order_of_the_labels(void **state)
{
    const struct task *task = task_find("MNLI");
    struct pretrained *p =
        open_with_labels("{\"0\":\"neutral\",\"1\":\"contradiction\",\"2\":\"entailment\"}");
    const int rows[] = {1, 2, 0}; /* contradiction, entailment, neutral */
    struct model m = golden_model;
    struct pretrained_missing missing;
    float head[3 * 4 + 3];

    (void)state;
    m.labels = 3;
    assert_int_equal(pretrained_match_labels(p, task, task->labels, 3, NULL), ERR_OK);
    assert_int_equal(pretrained_load_unit(p, &m, model_units(&m) - 1, head, &missing, NULL),
                     ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 4; k++)
            assert_true(head[4 * i + k] ==
                        golden_element("classifier.weight", 4 * (size_t)rows[i] + k));
        assert_true(head[12 + i] == golden_element("classifier.bias", (size_t)rows[i]));
    }
    pretrained_close(p);
}

static void pretrained_refuses_labels_that_cannot_be_matched(void **state)
{
    const struct task *task = task_find("MNLI");
    const struct task *binary = task_find("RTE");
    struct pretrained *p = open_with_labels("{\"0\":\"red\",\"1\":\"green\",\"2\":\"blue\"}");
    struct err err;

    (void)state;
    assert_int_equal(pretrained_match_labels(p, task, task->labels, 3, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "id2label has the labels red, green, blue; the task has "
                                     "contradiction, entailment, neutral"));
    /* Another number of labels: the head is new. */
    assert_int_equal(pretrained_match_labels(p, binary, binary->labels, 2, NULL), ERR_OK);
    pretrained_close(p);
}

static void pretrained_inspect_reports_the_sizes(void **state)
{
    struct buf text = {.max = 4096};
    struct err err;

    (void)state;
    assert_int_equal(pretrained_inspect(GOLDEN "classifier", &text, NULL), ERR_OK);
    assert_string_equal(buf_text(&text),
                        "{\"vocabSize\":11,\"hiddenSize\":4,\"layers\":1,\"attentionHeads\":2,"
                        "\"feedForwardSize\":8,\"maxPositions\":6}");
    buf_deinit(&text);
    assert_int_equal(pretrained_inspect(scratch, &text, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "neither config.json nor bert_config.json"));
    assert_int_equal(pretrained_inspect("/nowhere", &text, &err), ERR_NOT_FOUND);
    buf_deinit(&text);
}

static void pretrained_config_is_the_folders(void **state)
{
    struct pretrained *p = open_folder(GOLDEN "masked-lm");

    (void)state;
    assert_true(pretrained_config(p)->model.norm_eps == 1e-5);
    assert_int_equal(pretrained_config(p)->model.vocab, 11);
    pretrained_close(p);
}

static void pretrained_says_why_a_head_is_new(void **state)
{
    struct pretrained *p = open_folder(GOLDEN "classifier");
    struct pretrained_missing missing;
    struct model m = golden_model;
    float head[5 * 4 + 5];

    (void)state;
    m.labels = 5;
    assert_int_equal(pretrained_load_unit(p, &m, model_units(&m) - 1, head, &missing, NULL),
                     ERR_OK);
    assert_int_equal(missing.n_tensors, 2);
    assert_string_equal(missing.why, "classifier.bias has shape [3], the task needs [5]");
    pretrained_close(p);
}

static void pretrained_refuses_a_model_unlike_the_spec(void **state)
{
    struct pretrained *p = open_folder(GOLDEN "classifier");
    struct model m = golden_model;
    struct err err = {0};

    (void)state;
    m.layers = 2;
    assert_int_equal(pretrained_check(p, &m, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "classifier/config.json: another size: set "
                                     "spec.model.layers to 1 (is 2)"));
    pretrained_close(p);
}

static void pretrained_wants_a_vocabulary_that_fits(void **state)
{
    struct pretrained *p = open_folder(GOLDEN "classifier");
    struct err err = {0};

    (void)state;
    assert_int_equal(pretrained_check_vocab(p, 11, NULL), ERR_OK);
    assert_int_equal(pretrained_check_vocab(p, 12, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "vocab_size is 11 but the vocabulary has 12 tokens"));
    pretrained_close(p);
}

/* --- folders made by hand --- */

/* How a made folder differs from a good one. */
struct change {
    const char *name;
    enum model_head head;
    const char *drop;      /* the tensor that is missing */
    const char *cut;       /* the tensor whose first dimension is one too small */
    const char *nan;       /* the tensor with a NaN in element 1 */
    const char *rename[2]; /* this part of all names becomes that */
    const char *config;    /* further members of config.json */
    const char *says;      /* NULL: it is good */
};

static void tensor_name(const struct change *c, const char *ours,
                        char out[static 2 * MODEL_NAME_BYTES])
{
    const char *part = c->rename[0] ? strstr(ours, c->rename[0]) : NULL;

    if (part)
        (void)snprintf(out, 2 * MODEL_NAME_BYTES, "%.*s%s%s", (int)(part - ours), ours,
                       c->rename[1], part + strlen(c->rename[0]));
    else
        (void)snprintf(out, 2 * MODEL_NAME_BYTES, "%s", ours);
}

static bool is_named(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

static void write_weights(const char *path, const struct model *m, const struct change *c)
{
    char name[2 * MODEL_NAME_BYTES];
    static struct model_tensor list[64];
    static struct model_tensor announced[64]; /* under other names */
    struct safetensors_writer w;
    int n = 0;

    for (int unit = 0; unit < model_units(m); unit++)
        for (int i = 0; i < model_unit_tensors(m, unit); i++) {
            struct model_tensor t = model_tensor(m, unit, i);

            if (is_named(c->drop, t.name))
                continue;
            t.dims[0] -= is_named(c->cut, t.name);
            t.count = (size_t)t.dims[0] * (size_t)(t.n_dims == 2 ? t.dims[1] : 1);
            list[n] = announced[n] = t;
            tensor_name(c, t.name, name);
            (void)snprintf(announced[n].name, MODEL_NAME_BYTES, "%s", name);
            n++;
        }
    assert_int_equal(safetensors_begin(path, announced, n, &w, NULL), ERR_OK);
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < list[i].count; k++) {
            float x = golden_element(list[i].name, k);

            if (k == 1 && is_named(c->nan, list[i].name))
                x = NAN;
            assert_int_equal(safetensors_put(&w, &x, 1, NULL), ERR_OK);
        }
    }
    assert_int_equal(safetensors_finish(&w, NULL), ERR_OK);
}

static void make_folder(const char *folder)
{
    char command[PATH_MAX + 32];

    (void)snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder);
    assert_int_equal(system(command), 0);
}

static const char config_sizes[] =
    "\"vocab_size\":11,\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"intermediate_size\":8,\"max_position_embeddings\":6";

static void write_config(const char *more)
{
    char text[512];

    (void)snprintf(text, sizeof text, "{%s%s}", config_sizes, more ? more : "");
    scratch_text("made/config.json", text);
}

/* Open it, check it and read all of it: the first error. */
static enum err_code read_all(const char *folder, const struct model *m, struct err *err)
{
    struct pretrained *p = NULL;
    struct pretrained_missing missing;
    float params[256];
    enum err_code rc = pretrained_open(folder, NULL, &p, err);

    if (rc == ERR_OK)
        rc = pretrained_check(p, m, err);
    for (int unit = 0; rc == ERR_OK && unit < model_units(m); unit++) {
        assert_true(model_unit_params(m, unit) <= 256);
        rc = pretrained_load_unit(p, m, unit, params, &missing, err);
    }
    pretrained_close(p);
    return rc;
}

static struct change changes[] = {
    {.name = "pretrained_accepts_gamma", .rename = {"LayerNorm.weight", "LayerNorm.gamma"}},
    {.name = "pretrained_accepts_beta", .rename = {"LayerNorm.bias", "LayerNorm.beta"}},
    {.name = "pretrained_accepts_no_prefix", .rename = {"bert.", ""}},
    {.name = "pretrained_accepts_a_bias_of_the_decoder",
     .head = MODEL_HEAD_MASKED_LM,
     .rename = {"predictions.bias", "predictions.decoder.bias"}},
    {.name = "pretrained_names_a_missing_tensor",
     .drop = "bert.encoder.layer.0.attention.self.key.bias",
     .says = "made: no tensor \"bert.encoder.layer.0.attention.self.key.bias\""},
    {.name = "pretrained_names_missing_words",
     .drop = "bert.embeddings.word_embeddings.weight",
     .says = "no tensor \"bert.embeddings.word_embeddings.weight\""},
    {.name = "pretrained_names_a_wrong_shape",
     .cut = "bert.encoder.layer.0.output.dense.weight",
     .says =
         "made/model.safetensors: tensor \"bert.encoder.layer.0.output.dense.weight\" has shape "
         "[3, 8] but"},
    {.name = "pretrained_wants_the_vocabulary_of_config",
     .cut = "bert.embeddings.word_embeddings.weight",
     .says = "has shape [10, 4] but"},
    {.name = "pretrained_refuses_a_pooler_of_another_shape",
     .cut = "bert.pooler.dense.weight",
     .says = "tensor \"bert.pooler.dense.weight\" has shape [3, 4] but"},
    {.name = "pretrained_names_the_place_of_a_nan",
     .nan = "bert.encoder.layer.0.intermediate.dense.bias",
     .says = "tensor \"bert.encoder.layer.0.intermediate.dense.bias\": element 1 is NaN"},
    {.name = "pretrained_refuses_what_config_refuses",
     .config = ",\"hidden_act\":\"relu\"",
     .says = "made/config.json: hidden_act is \"relu\""},
    {.name = "pretrained_fine_tunes_from_an_untied_model",
     .config = ",\"tie_word_embeddings\":false"},
    {.name = "pretrained_refuses_an_untied_language_model",
     .head = MODEL_HEAD_MASKED_LM,
     .config = ",\"tie_word_embeddings\":false",
     .says = "made/config.json: tie_word_embeddings is false"},
};

static void pretrained_change(void **state)
{
    const struct change *c = *state;
    struct model m = golden_model;
    struct err err = {0};

    m.head = c->head;
    make_folder(scratch_path("made"));
    write_config(c->config);
    write_weights(scratch_path("made/model.safetensors"), &m, c);
    assert_int_equal(read_all(scratch_path("made"), &m, &err), c->says ? ERR_INVALID : ERR_OK);
    if (c->says && !strstr(err.text, c->says))
        fail_msg("%s", err.text);
    if (!c->says) {
        struct pretrained *p = open_folder(scratch_path("made"));

        assert_int_equal(check_all(p, &m), 0);
        pretrained_close(p);
    }
}

/* The pages of another stage's tensors are never looked at. */
static void pretrained_reads_only_the_tensors_that_are_asked_for(void **state)
{
    const struct change change = {.nan = "bert.encoder.layer.0.intermediate.dense.bias"};
    struct pretrained_missing missing;
    struct pretrained *p;
    float params[256];

    (void)state;
    make_folder(scratch_path("made"));
    write_config(NULL);
    write_weights(scratch_path("made/model.safetensors"), &golden_model, &change);
    p = open_folder(scratch_path("made"));
    for (int unit = 0; unit < model_units(&golden_model); unit++)
        assert_int_equal(pretrained_load_unit(p, &golden_model, unit, params, &missing, NULL),
                         model_unit_kind(&golden_model, unit) == UNIT_FFN ? ERR_INVALID : ERR_OK);
    pretrained_close(p);
}

/* --- folders that are none --- */

static struct row {
    const char *name;
    const char *files[2]; /* empty files */
    const char *config;   /* text of config.json; NULL: none */
    const char *index;    /* text of the index; NULL: none */
    const char *says;
} rows[] = {
    {"pretrained_wants_a_config", {"model.safetensors"}, NULL, NULL, "neither config.json nor"},
    {"pretrained_wants_weights", {NULL}, "", NULL, "made: no model.safetensors"},
    {"pretrained_says_what_to_do_with_a_pickle",
     {"pytorch_model.bin"},
     "",
     NULL,
     "made: pytorch_model.bin may run code and is not read; load it in transformers and "
     "save_pretrained()"},
    {"pretrained_says_how_to_convert_a_tensorflow_checkpoint",
     {"bert_model.ckpt.index"},
     "",
     NULL,
     "made: a TensorFlow checkpoint; convert it with `skyjob-import model --from DIR --out DIR`"},
    {"pretrained_refuses_an_empty_file",
     {"model.safetensors"},
     "",
     NULL,
     "model.safetensors: truncated"},
    {"pretrained_refuses_an_index_that_is_no_json", {NULL}, "", "{", "index.json: "},
    {"pretrained_refuses_an_index_without_a_map", {NULL}, "", "{}", "no object \"weight_map\""},
    {"pretrained_refuses_a_shard_outside",
     {NULL},
     "",
     "{\"weight_map\":{\"a\":\"../m.safetensors\"}}",
     "tensor \"a\": \"../m.safetensors\" is not a file of this folder"},
    {"pretrained_refuses_a_hidden_shard",
     {NULL},
     "",
     "{\"weight_map\":{\"a\":\"..\"}}",
     "is not a file of this folder"},
    {"pretrained_refuses_a_shard_that_is_no_text",
     {NULL},
     "",
     "{\"weight_map\":{\"a\":1}}",
     "is not a file of this folder"},
    {"pretrained_refuses_a_missing_shard",
     {NULL},
     "",
     "{\"weight_map\":{\"a\":\"m.safetensors\"}}",
     "m.safetensors: the index names this shard, but it is missing"},
    {"pretrained_refuses_a_tensor_named_twice",
     {NULL},
     "",
     "{\"weight_map\":{\"a\":\"m\",\"a\":\"m\"}}",
     "index.json: "},
};

static void pretrained_row(void **state)
{
    const struct row *row = *state;
    struct err err = {0};

    make_folder(scratch_path("made"));
    if (row->config)
        write_config(row->config);
    for (int i = 0; i < 2 && row->files[i]; i++) {
        char file[64];

        (void)snprintf(file, sizeof file, "made/%s", row->files[i]);
        scratch_text(file, "");
    }
    if (row->index)
        scratch_text("made/model.safetensors.index.json", row->index);
    assert_int_equal(read_all(scratch_path("made"), &golden_model, &err), ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void pretrained_refuses_a_shard_without_its_tensor(void **state)
{
    const struct change none = {0};
    struct err err = {0};

    (void)state;
    make_folder(scratch_path("made"));
    write_config(NULL);
    write_weights(scratch_path("made/s.safetensors"), &golden_model, &none);
    scratch_text(
        "made/model.safetensors.index.json",
        "{\"weight_map\":{\"classifier.bias\":\"s.safetensors\",\"a\":\"s.safetensors\"}}");
    assert_int_equal(read_all(scratch_path("made"), &golden_model, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "tensor \"a\" is not in s.safetensors"));
}

static void pretrained_of_no_folder_is_not_found(void **state)
{
    struct pretrained *p;
    struct err err = {0};

    (void)state;
    assert_int_equal(pretrained_open(scratch_path("none"), NULL, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "none"));
    pretrained_close(NULL);
}

static int test_pretrained(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(pretrained_puts_the_head_into_the_order_of_the_labels),
        cmocka_unit_test(pretrained_refuses_labels_that_cannot_be_matched),
        cmocka_unit_test(pretrained_inspect_reports_the_sizes),
        cmocka_unit_test(pretrained_config_is_the_folders),
        cmocka_unit_test(pretrained_says_why_a_head_is_new),
        cmocka_unit_test(pretrained_refuses_a_model_unlike_the_spec),
        cmocka_unit_test(pretrained_wants_a_vocabulary_that_fits),
        cmocka_unit_test(pretrained_refuses_a_shard_without_its_tensor),
        cmocka_unit_test(pretrained_of_no_folder_is_not_found),
        cmocka_unit_test(pretrained_reads_only_the_tensors_that_are_asked_for),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, goldens, pretrained_golden);
    SUITE_ROWS(&suite, changes, pretrained_change);
    SUITE_ROWS(&suite, rows, pretrained_row);
    return suite_run(&suite, "pretrained", scratch_make, scratch_remove);
}

/* --- aliases --- */

static struct alias_row {
    const char *name;
    const char *ours;
    const char *theirs[PRETRAINED_ALIAS_MAX + 1]; /* in order */
} aliases[] = {
    {"pretrained_alias_of_words",
     "bert.embeddings.word_embeddings.weight",
     {"bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"}},
    {"pretrained_alias_of_a_norm_weight",
     "bert.encoder.layer.11.output.LayerNorm.weight",
     {"bert.encoder.layer.11.output.LayerNorm.weight",
      "bert.encoder.layer.11.output.LayerNorm.gamma", "encoder.layer.11.output.LayerNorm.weight",
      "encoder.layer.11.output.LayerNorm.gamma"}},
    {"pretrained_alias_of_a_norm_bias",
     "bert.embeddings.LayerNorm.bias",
     {"bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta",
      "embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta"}},
    {"pretrained_alias_of_a_matrix",
     "bert.encoder.layer.0.attention.self.query.weight",
     {"bert.encoder.layer.0.attention.self.query.weight",
      "encoder.layer.0.attention.self.query.weight"}},
    {"pretrained_alias_of_a_bias",
     "bert.pooler.dense.bias",
     {"bert.pooler.dense.bias", "pooler.dense.bias"}},
    {"pretrained_alias_of_the_transform_norm",
     "cls.predictions.transform.LayerNorm.weight",
     {"cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.gamma"}},
    {"pretrained_alias_of_the_decoder_bias",
     "cls.predictions.bias",
     {"cls.predictions.bias", "cls.predictions.decoder.bias"}},
    {"pretrained_alias_of_the_next_sentence_matrix",
     "cls.seq_relationship.weight",
     {"cls.seq_relationship.weight"}},
    {"pretrained_alias_of_the_next_sentence_bias",
     "cls.seq_relationship.bias",
     {"cls.seq_relationship.bias"}},
    {"pretrained_alias_of_the_classifier", "classifier.weight", {"classifier.weight"}},
};

static void alias_row(void **state)
{
    const struct alias_row *row = *state;
    char out[MODEL_NAME_BYTES];
    int n = 0;

    for (int i = 0; i < PRETRAINED_ALIAS_MAX; i++) {
        if (!pretrained_alias(row->ours, i, out))
            continue;
        assert_non_null(row->theirs[n]);
        assert_string_equal(out, row->theirs[n]);
        n++;
    }
    assert_null(row->theirs[n]);
}

static int test_aliases(void)
{
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, aliases, alias_row);
    return suite_run(&suite, "pretrained_alias", NULL, NULL);
}

int main(void)
{
    return test_pretrained() + test_aliases();
}
