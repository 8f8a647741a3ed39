#include "files/alias.h"

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
    const char *theirs[ALIAS_MAX + 1]; /* in order */
} rows[] = {
    {"alias_of_words",
     "bert.embeddings.word_embeddings.weight",
     {"bert.embeddings.word_embeddings.weight", "embeddings.word_embeddings.weight"}},
    {"alias_of_a_norm_weight",
     "bert.encoder.layer.11.output.LayerNorm.weight",
     {"bert.encoder.layer.11.output.LayerNorm.weight",
      "bert.encoder.layer.11.output.LayerNorm.gamma", "encoder.layer.11.output.LayerNorm.weight",
      "encoder.layer.11.output.LayerNorm.gamma"}},
    {"alias_of_a_norm_bias",
     "bert.embeddings.LayerNorm.bias",
     {"bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta",
      "embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta"}},
    {"alias_of_a_matrix",
     "bert.encoder.layer.0.attention.self.query.weight",
     {"bert.encoder.layer.0.attention.self.query.weight",
      "encoder.layer.0.attention.self.query.weight"}},
    {"alias_of_a_bias", "bert.pooler.dense.bias", {"bert.pooler.dense.bias", "pooler.dense.bias"}},
    {"alias_of_the_transform_norm",
     "cls.predictions.transform.LayerNorm.weight",
     {"cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.gamma"}},
    {"alias_of_the_decoder_bias",
     "cls.predictions.bias",
     {"cls.predictions.bias", "cls.predictions.decoder.bias"}},
    {"alias_of_the_next_sentence_matrix",
     "cls.seq_relationship.weight",
     {"cls.seq_relationship.weight"}},
    {"alias_of_the_next_sentence_bias", "cls.seq_relationship.bias", {"cls.seq_relationship.bias"}},
    {"alias_of_the_classifier", "classifier.weight", {"classifier.weight"}},
};

static void alias_row(void **state)
{
    const struct row *row = *state;
    char out[MODEL_NAME_BYTES];
    int n = 0;

    for (int i = 0; i < ALIAS_MAX; i++) {
        if (!alias_make(row->ours, i, out))
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
    return _cmocka_run_group_tests("alias", tests, N_ROWS, NULL, NULL);
}
