#include "import/bundle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct row {
    const char *name;
    const char *ours;
    const char *theirs;
    bool is_transposed;
} rows[] = {
    {"bundle_name_of_words", "bert.embeddings.word_embeddings.weight",
     "bert/embeddings/word_embeddings", false},
    {"bundle_name_of_a_norm_weight", "bert.encoder.layer.11.output.LayerNorm.weight",
     "bert/encoder/layer_11/output/LayerNorm/gamma", false},
    {"bundle_name_of_a_norm_bias", "bert.embeddings.LayerNorm.bias",
     "bert/embeddings/LayerNorm/beta", false},
    {"bundle_name_of_a_matrix", "bert.encoder.layer.0.attention.self.query.weight",
     "bert/encoder/layer_0/attention/self/query/kernel", true},
    {"bundle_name_of_a_bias", "bert.pooler.dense.bias", "bert/pooler/dense/bias", false},
    {"bundle_name_of_the_transform_norm", "cls.predictions.transform.LayerNorm.weight",
     "cls/predictions/transform/LayerNorm/gamma", false},
    {"bundle_name_of_the_decoder_bias", "cls.predictions.bias", "cls/predictions/output_bias",
     false},
    {"bundle_name_of_the_next_sentence_matrix", "cls.seq_relationship.weight",
     "cls/seq_relationship/output_weights", false},
    {"bundle_name_of_the_next_sentence_bias", "cls.seq_relationship.bias",
     "cls/seq_relationship/output_bias", false},
    {"bundle_name_of_the_classifier", "classifier.weight", "output_weights", false},
};

static void bundle_name_row(void **state)
{
    const struct row *row = *state;
    char out[MODEL_NAME_BYTES];
    bool is_transposed;

    bundle_name(row->ours, out, &is_transposed);
    assert_string_equal(out, row->theirs);
    assert_int_equal(is_transposed, row->is_transposed);
}

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[N_ROWS];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, bundle_name_row, NULL, NULL, &rows[i]};
    return _cmocka_run_group_tests("bundle_names", tests, N_ROWS, NULL, NULL);
}
