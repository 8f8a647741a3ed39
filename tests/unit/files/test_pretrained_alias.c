#include "files/pretrained.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct row {
    const char *name;
    const char *ours;
    const char *theirs[PRETRAINED_ALIAS_MAX + 1]; /* in order */
} rows[] = {
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
    const struct row *row = *state;
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

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[N_ROWS];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, alias_row, NULL, NULL, &rows[i]};
    return _cmocka_run_group_tests("pretrained_alias", tests, N_ROWS, NULL, NULL);
}
