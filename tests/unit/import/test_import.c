#include "import/import.h"

#include "files/safetensors.h"
#include "golden_model.h"
#include "scratch.h"
#include "suite.h"

#define VOCAB "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n##s\n"

/* A golden folder with a vocabulary beside it, which those do without. */
static const char *copy_folder(const char *golden, const char *vocab)
{
    static char folder[PATH_MAX];
    char command[2 * PATH_MAX];

    (void)snprintf(folder, sizeof folder, "%s", scratch_path("from"));
    (void)snprintf(command, sizeof command, "rm -rf '%s' && cp -r 'tests/golden/%s' '%s'", folder,
                   golden, folder);
    assert_int_equal(system(command), 0);
    scratch_text("from/vocab.txt", vocab);
    return folder;
}

static struct row {
    const char *name;
    const char *golden;
    enum model_head head;
    int labels;
    bool is_headless;
    const char *class_name;
} rows[] = {
    {"import_of_a_checkpoint_of_tensorflow", "bundle/two", MODEL_HEAD_PRETRAINING, 2, false,
     "BertForPreTraining"},
    {"import_of_a_checkpoint_in_one_file", "bundle/one", MODEL_HEAD_PRETRAINING, 2, false,
     "BertForPreTraining"},
    {"import_of_bf16_shards", "pretrained/pretraining-bf16-shards", MODEL_HEAD_PRETRAINING, 2,
     false, "BertForPreTraining"},
    {"import_of_a_masked_lm", "pretrained/masked-lm", MODEL_HEAD_MASKED_LM, 2, false,
     "BertForMaskedLM"},
    {"import_of_a_classifier", "pretrained/classifier", MODEL_HEAD_CLASSIFIER, 3, false,
     "BertForSequenceClassification"},
    {"import_of_a_bare_encoder", "pretrained/encoder-f16", MODEL_HEAD_CLASSIFIER, 2, true,
     "BertModel"},
};

/* All tensors in F32 under our names, and a config that reads back. */
static void check_written(const struct row *row, const struct import_report *r)
{
    struct safetensors *s;
    struct pretrained *p;
    int n = 0;

    assert_int_equal(safetensors_open(scratch_path("to/model.safetensors"), &s, NULL), ERR_OK);
    for (int unit = 0; unit < model_units(&r->model); unit++)
        for (int i = 0; i < model_unit_tensors(&r->model, unit); i++) {
            struct model_tensor t = model_tensor(&r->model, unit, i);
            const struct weight *w = safetensors_find(s, t.name);
            float x[64];

            if (!w)
                continue;
            assert_int_equal(w->type, WEIGHT_F32);
            assert_true(w->count == t.count && t.count <= 64);
            assert_int_equal(weight_read(w, x, NULL), ERR_OK);
            for (size_t k = 0; k < t.count; k++)
                assert_true(x[k] == golden_element(t.name, k));
            n++;
        }
    assert_int_equal(n, s->n);
    assert_int_equal(n, r->n_tensors);
    safetensors_close(s);
    assert_int_equal(pretrained_open(scratch_path("to"), NULL, &p, NULL), ERR_OK);
    assert_int_equal(pretrained_check(p, &r->model, NULL), ERR_OK);
    assert_int_equal(pretrained_config(p)->model.labels, row->labels);
    assert_int_equal(pretrained_has(p, "classifier.bias"), row->labels == 3);
    pretrained_close(p);
}

static void import_row(void **state)
{
    const struct row *row = *state;
    struct import_report r;
    struct buf config = {.max = 1 << 16};
    const char *from = copy_folder(row->golden, VOCAB);
    struct err err;

    if (import_folder(from, scratch_path("to"), &r, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(r.model.head, row->head);
    assert_int_equal(r.is_headless, row->is_headless);
    assert_false(r.is_cased);
    check_written(row, &r);
    assert_int_equal(file_read(scratch_path("to/config.json"), &config, NULL), ERR_OK);
    assert_non_null(strstr(buf_text(&config), row->class_name));
    buf_deinit(&config);
}

static bool imports_as_cased(const char *vocab, const char *tokenizer)
{
    const char *from = copy_folder("pretrained/encoder-f16", vocab);
    struct import_report r;

    if (tokenizer)
        scratch_text("from/tokenizer_config.json", tokenizer);
    assert_int_equal(import_folder(from, scratch_path("to"), &r, NULL), ERR_OK);
    return r.is_cased;
}

static void import_tells_case_by_the_tokenizer_or_the_words(void **state)
{
    (void)state;
    assert_true(imports_as_cased(VOCAB "The\n", NULL));
    assert_true(imports_as_cased(VOCAB "##S\n", NULL));
    assert_false(imports_as_cased(VOCAB "#\n", NULL));
    assert_false(imports_as_cased(VOCAB "The\n", "{\"do_lower_case\":true}"));
    assert_true(imports_as_cased(VOCAB, "{\"do_lower_case\":false}"));
    assert_false(imports_as_cased(VOCAB, "{}"));
}

static void import_refuses_a_vocabulary_that_is_too_large(void **state)
{
    struct import_report r;
    struct err err = {0};
    const char *from = copy_folder("bundle/one", VOCAB "a\nb\nc\nd\ne\nf\n");

    (void)state;
    assert_int_equal(import_folder(from, scratch_path("new"), &r, &err), ERR_INVALID);
    assert_non_null(
        strstr(err.text, "bert_config.json: vocab_size is 11 but the vocabulary has 12"));
    assert_int_not_equal(access(scratch_path("new"), F_OK), 0);
}

static void import_refuses_a_classifier_unlike_its_config(void **state)
{
    struct import_report r;
    struct err err = {0};
    const char *from = copy_folder("pretrained/classifier", VOCAB);

    (void)state;
    scratch_text("from/config.json", "{\"vocab_size\":11,\"hidden_size\":4,\"num_hidden_layers\":1,"
                                     "\"num_attention_heads\":2,\"intermediate_size\":8,"
                                     "\"max_position_embeddings\":6,\"num_labels\":2}");
    assert_int_equal(import_folder(from, scratch_path("new"), &r, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "classifier.bias has shape [3], the task needs [2] by its "
                                     "config: correct num_labels there"));
    assert_int_not_equal(access(scratch_path("new/model.safetensors"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(import_tells_case_by_the_tokenizer_or_the_words),
        cmocka_unit_test(import_refuses_a_vocabulary_that_is_too_large),
        cmocka_unit_test(import_refuses_a_classifier_unlike_its_config),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, import_row);
    return suite_run(&suite, "import", scratch_make, scratch_remove);
}
