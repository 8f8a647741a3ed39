#include "api/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static size_t all_params(const struct model *m)
{
    size_t n = 0;

    for (int u = 0; u < model_units(m); u++)
        n += model_unit_params(m, u);
    return n;
}

/* Parameters of the published encoders with their pooler, without a classifier. */
static void model_presets_have_the_published_number_of_parameters(void **state)
{
    static const struct {
        const char *name;
        size_t params;
    } published[] = {
        {"BertTiny", 4385920},    {"BertMini", 11170560},  {"BertSmall", 28763648},
        {"BertMedium", 41373184}, {"BertBase", 109482240}, {"BertLarge", 335141888},
    };

    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct model m;

        assert_int_equal(model_preset(published[i].name, &m, NULL), ERR_OK);
        assert_int_equal(model_check(&m, NULL), ERR_OK);
        assert_int_equal(all_params(&m) - model_unit_params(&m, model_units(&m) - 1),
                         published[i].params);
    }
}

static void model_bert_base_with_two_labels_has_109483778_parameters(void **state)
{
    struct model m;

    (void)state;
    assert_int_equal(model_preset("BertBase", &m, NULL), ERR_OK);
    m.labels = 2;
    assert_int_equal(all_params(&m), 109483778);
}

/* BertForPreTraining and BertForMaskedLM of transformers, base size, without the tied decoder. */
static void model_language_models_have_their_published_sizes(void **state)
{
    struct model m;

    (void)state;
    assert_int_equal(model_preset("BertBase", &m, NULL), ERR_OK);
    m.head = MODEL_HEAD_PRETRAINING;
    assert_int_equal(model_units(&m), 26);
    assert_int_equal(model_unit_kind(&m, 24), UNIT_FFN);
    assert_int_equal(model_unit_kind(&m, 25), UNIT_LM_HEAD);
    assert_int_equal(all_params(&m), 110106428);
    m.head = MODEL_HEAD_MASKED_LM;
    assert_int_equal(all_params(&m), 109514298);
    assert_true(model_is_tied(&m));
}

static void model_preset_that_does_not_exist_lists_those_that_do(void **state)
{
    struct model m;
    struct err err;

    (void)state;
    assert_int_equal(model_preset("BertHuge", &m, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "\"BertHuge\" is not one of BertTiny, BertMini"));
}

/* Every name of BertForSequenceClassification with one layer, in the order of units. */
static const char *const names[] = {
    "bert.embeddings.word_embeddings.weight",
    "bert.embeddings.position_embeddings.weight",
    "bert.embeddings.token_type_embeddings.weight",
    "bert.embeddings.LayerNorm.weight",
    "bert.embeddings.LayerNorm.bias",
    "bert.encoder.layer.0.attention.self.query.weight",
    "bert.encoder.layer.0.attention.self.key.weight",
    "bert.encoder.layer.0.attention.self.value.weight",
    "bert.encoder.layer.0.attention.self.query.bias",
    "bert.encoder.layer.0.attention.self.key.bias",
    "bert.encoder.layer.0.attention.self.value.bias",
    "bert.encoder.layer.0.attention.output.dense.weight",
    "bert.encoder.layer.0.attention.output.dense.bias",
    "bert.encoder.layer.0.attention.output.LayerNorm.weight",
    "bert.encoder.layer.0.attention.output.LayerNorm.bias",
    "bert.encoder.layer.0.intermediate.dense.weight",
    "bert.encoder.layer.0.intermediate.dense.bias",
    "bert.encoder.layer.0.output.dense.weight",
    "bert.encoder.layer.0.output.dense.bias",
    "bert.encoder.layer.0.output.LayerNorm.weight",
    "bert.encoder.layer.0.output.LayerNorm.bias",
    "bert.pooler.dense.weight",
    "bert.pooler.dense.bias",
    "classifier.weight",
    "classifier.bias",
};

static void model_tensors_are_called_as_hugging_face_calls_them(void **state)
{
    struct model m;
    size_t n = 0;

    (void)state;
    assert_int_equal(model_preset("BertTiny", &m, NULL), ERR_OK);
    m.layers = 1;
    for (int u = 0; u < model_units(&m); u++)
        for (int i = 0; i < model_unit_tensors(&m, u); i++)
            assert_string_equal(model_tensor(&m, u, i).name, names[n++]);
    assert_int_equal(n, sizeof names / sizeof names[0]);
    m.layers = MODEL_LAYERS_MAX;
    assert_string_equal(model_tensor(&m, 2 * MODEL_LAYERS_MAX, 2).name,
                        "bert.encoder.layer.511.output.dense.weight");
}

static void model_tensors_of_a_unit_lie_end_to_end(void **state)
{
    struct model m;

    (void)state;
    assert_int_equal(model_preset("BertBase", &m, NULL), ERR_OK);
    for (int u = 0; u < model_units(&m); u++) {
        size_t next = 0;

        assert_true(model_unit_tensors(&m, u) <= MODEL_UNIT_TENSORS_MAX);
        for (int i = 0; i < model_unit_tensors(&m, u); i++) {
            struct model_tensor t = model_tensor(&m, u, i);

            assert_int_equal(t.offset, next);
            assert_int_equal(t.count, (size_t)t.dims[0] * (size_t)t.dims[1]);
            assert_int_equal(t.is_matrix, t.n_dims == 2);
            assert_int_equal(t.is_gain, strstr(t.name, "LayerNorm.weight") != NULL);
            next += t.count;
        }
        assert_int_equal(next, model_unit_params(&m, u));
    }
}

static void model_units_have_kinds_layers_and_names_for_people(void **state)
{
    struct model m;
    char name[MODEL_NAME_BYTES];

    (void)state;
    assert_int_equal(model_preset("BertTiny", &m, NULL), ERR_OK);
    assert_int_equal(model_units(&m), 7);
    assert_int_equal(model_unit_kind(&m, 0), UNIT_EMBEDDINGS);
    assert_int_equal(model_unit_kind(&m, 3), UNIT_ATTENTION);
    assert_int_equal(model_unit_kind(&m, 4), UNIT_FFN);
    assert_int_equal(model_unit_kind(&m, 5), UNIT_POOLER);
    assert_int_equal(model_unit_kind(&m, 6), UNIT_HEAD);
    assert_int_equal(model_unit_layer(&m, 0), -1);
    assert_int_equal(model_unit_layer(&m, 4), 1);
    assert_int_equal(model_unit_layer(&m, 5), -1);
    model_range_name(&m, 0, 4, name);
    assert_string_equal(name, "embeddings to attention 1");
    model_range_name(&m, 6, 1, name);
    assert_string_equal(name, "head");
}

static void model_check_refuses_sizes_that_do_not_fit_together(void **state)
{
    struct model good;
    struct model bad;
    struct err err;

    (void)state;
    assert_int_equal(model_preset("BertTiny", &good, NULL), ERR_OK);
    bad = good;
    bad.hidden = 129;
    assert_int_equal(model_check(&bad, &err), ERR_INVALID);
    assert_string_equal(
        err.text, "spec.model.hiddenSize: 129 is not a multiple of spec.model.attentionHeads, 2");
    bad = good;
    bad.heads = 0;
    assert_int_equal(model_check(&bad, NULL), ERR_INVALID);
    bad = good;
    bad.layers = MODEL_LAYERS_MAX + 1;
    assert_int_equal(model_check(&bad, NULL), ERR_INVALID);
    bad = good;
    bad.vocab = 0;
    assert_int_equal(model_check(&bad, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_presets_have_the_published_number_of_parameters),
        cmocka_unit_test(model_bert_base_with_two_labels_has_109483778_parameters),
        cmocka_unit_test(model_language_models_have_their_published_sizes),
        cmocka_unit_test(model_preset_that_does_not_exist_lists_those_that_do),
        cmocka_unit_test(model_tensors_are_called_as_hugging_face_calls_them),
        cmocka_unit_test(model_tensors_of_a_unit_lie_end_to_end),
        cmocka_unit_test(model_units_have_kinds_layers_and_names_for_people),
        cmocka_unit_test(model_check_refuses_sizes_that_do_not_fit_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
