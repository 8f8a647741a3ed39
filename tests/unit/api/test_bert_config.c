#include "api/bert_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

#define SIZES                                                                                      \
    "\"vocab_size\":30522,\"num_hidden_layers\":6,\"intermediate_size\":1536,"                     \
    "\"max_position_embeddings\":512"
#define GOOD SIZES ",\"hidden_size\":384,\"num_attention_heads\":12"

static enum err_code parse(const char *text, struct bert_config *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc;

    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_OK);
    rc = bert_config_parse("config.json", root, out, err);
    json_free(root);
    return rc;
}

static struct row {
    const char *name;
    const char *text;
    const char *says; /* NULL: it is good */
} rows[] = {
    {"bert_config_needs_only_the_sizes", "{" GOOD "}", NULL},
    {"bert_config_accepts_gelu_python", "{" GOOD ",\"hidden_act\":\"gelu_python\"}", NULL},
    {"bert_config_accepts_what_it_does_not_know", "{" GOOD ",\"x\":[1],\"pad_token_id\":0}", NULL},
    {"bert_config_accepts_null_words", "{" GOOD ",\"position_embedding_type\":null}", NULL},
    {"bert_config_refuses_a_list", "[]", "config.json: not a JSON object"},
    {"bert_config_refuses_roberta", "{" GOOD ",\"model_type\":\"roberta\"}",
     "model_type is \"roberta\": SkyJob trains"},
    {"bert_config_refuses_a_model_type_that_is_no_text", "{" GOOD ",\"model_type\":5}",
     "model_type is \"(no text)\""},
    {"bert_config_refuses_gelu_new", "{" GOOD ",\"hidden_act\":\"gelu_new\"}",
     "hidden_act is \"gelu_new\": SkyJob computes the exact GELU"},
    {"bert_config_refuses_relative_positions",
     "{" GOOD ",\"position_embedding_type\":\"relative_key\"}", "\"absolute\" positions only"},
    {"bert_config_refuses_one_token_type", "{" GOOD ",\"type_vocab_size\":1}",
     "type_vocab_size must be 2"},
    {"bert_config_refuses_decoders", "{" GOOD ",\"is_decoder\":true}", "decoder"},
    {"bert_config_refuses_cross_attention", "{" GOOD ",\"add_cross_attention\":true}", "decoder"},
    {"bert_config_refuses_a_missing_size", "{" SIZES ",\"num_attention_heads\":12}",
     "config.json: hidden_size is missing; it must be a whole number in 1..16384"},
    {"bert_config_refuses_a_size_in_quotes",
     "{" SIZES ",\"hidden_size\":\"384\",\"num_attention_heads\":12}",
     "hidden_size is out of range or no number"},
    {"bert_config_refuses_a_fraction",
     "{" SIZES ",\"hidden_size\":384.5,\"num_attention_heads\":1}",
     "hidden_size is out of range or no number"},
    {"bert_config_refuses_a_size_of_zero",
     "{" SIZES ",\"hidden_size\":0,\"num_attention_heads\":1}", "hidden_size is out of range"},
    {"bert_config_refuses_a_huge_size",
     "{" SIZES ",\"hidden_size\":4294967680,\"num_attention_heads\":12}",
     "hidden_size is out of range"},
    {"bert_config_refuses_heads_that_do_not_divide",
     "{" SIZES ",\"hidden_size\":384,\"num_attention_heads\":5}",
     "config.json: num_attention_heads 5 does not divide hidden_size 384"},
    {"bert_config_refuses_an_epsilon_in_quotes", "{" GOOD ",\"layer_norm_eps\":\"1e-12\"}",
     "layer_norm_eps must be a number"},
    {"bert_config_refuses_a_negative_epsilon", "{" GOOD ",\"layer_norm_eps\":-1}",
     "layer_norm_eps must be a number"},
    {"bert_config_refuses_a_dropout_of_one", "{" GOOD ",\"hidden_dropout_prob\":1.0}",
     "hidden_dropout_prob must be a number from 0 to below 1"},
    {"bert_config_refuses_an_attention_dropout_that_is_a_list",
     "{" GOOD ",\"attention_probs_dropout_prob\":[]}", "attention_probs_dropout_prob"},
    {"bert_config_refuses_no_labels", "{" GOOD ",\"id2label\":{}}", "1..4096 labels"},
    {"bert_config_refuses_a_label_without_a_name",
     "{" GOOD ",\"id2label\":{\"0\":\"a\",\"2\":\"b\"}}",
     "id2label must name every label from 0 to 1"},
    {"bert_config_refuses_a_count_of_labels_in_quotes", "{" GOOD ",\"num_labels\":\"3\"}",
     "1..4096 labels"},
};

static void bert_config_row(void **state)
{
    const struct row *row = *state;
    struct bert_config c = {.hidden_dropout = 7};
    struct err err = {0};

    assert_int_equal(parse(row->text, &c, &err), row->says ? ERR_INVALID : ERR_OK);
    if (!row->says)
        return;
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
    assert_true(c.hidden_dropout == 7); /* untouched */
}

static void bert_config_reads_every_number(void **state)
{
    struct bert_config c;

    (void)state;
    assert_int_equal(parse("{" GOOD ",\"layer_norm_eps\":1e-5,\"hidden_dropout_prob\":0,"
                           "\"attention_probs_dropout_prob\":0.2,\"tie_word_embeddings\":false,"
                           "\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}}",
                           &c, NULL),
                     ERR_OK);
    assert_int_equal(c.model.vocab, 30522);
    assert_int_equal(c.model.hidden, 384);
    assert_int_equal(c.model.layers, 6);
    assert_int_equal(c.model.heads, 12);
    assert_int_equal(c.model.ffn, 1536);
    assert_int_equal(c.model.positions, 512);
    assert_int_equal(c.model.labels, 3);
    assert_true(c.model.norm_eps == 1e-5);
    assert_true(c.hidden_dropout == 0);
    assert_true(c.attention_dropout == 0.2);
    assert_false(c.is_tied);
}

static void bert_config_has_the_defaults_of_bert(void **state)
{
    struct bert_config c;

    (void)state;
    assert_int_equal(parse("{" GOOD "}", &c, NULL), ERR_OK);
    assert_true(c.model.norm_eps == 1e-12);
    assert_true(c.hidden_dropout == 0.1);
    assert_true(c.attention_dropout == 0.1);
    assert_true(c.is_tied);
    assert_int_equal(c.model.labels, 2);
}

static void bert_config_says_what_to_set_in_the_spec(void **state)
{
    struct bert_config c;
    struct model wanted;
    struct err err = {0};

    (void)state;
    assert_int_equal(parse("{" GOOD "}", &c, NULL), ERR_OK);
    wanted = c.model;
    wanted.labels = 9;
    assert_int_equal(bert_config_check("d/config.json", &c.model, &wanted, NULL), ERR_OK);
    wanted.hidden = 256;
    assert_int_equal(bert_config_check("d/config.json", &c.model, &wanted, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "d/config.json: another size: set spec.model.hiddenSize to 384 (is 256)");
    wanted.positions = 128;
    assert_int_equal(bert_config_check("d/config.json", &c.model, &wanted, &err), ERR_INVALID);
    assert_string_equal(err.text,
                        "d/config.json: another size: set spec.model.hiddenSize to 384 (is 256), "
                        "spec.model.maxPositions to 512 (is 128)");
}

static void bert_config_checks_only_the_sizes_that_are_wanted(void **state)
{
    struct bert_config c;
    struct model wanted = {.heads = 3};
    struct err err = {0};

    (void)state;
    assert_int_equal(parse("{" GOOD "}", &c, NULL), ERR_OK);
    assert_int_equal(bert_config_check("f", &c.model, &(struct model){.head = 0}, NULL), ERR_OK);
    assert_int_equal(bert_config_check("f", &c.model, &wanted, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "f: another size: set spec.model.attentionHeads to "));
}

/* --- labels --- */

static struct match {
    const char *name;
    const char *config; /* behind the sizes */
    const char *task;
    int n;
    const char *labels[3];
    int rows[3]; /* -1 in the first: refused */
    const char *says;
} matches[] = {
    {"bert_config_matches_labels_by_name",
     ",\"id2label\":{\"0\":\"c\",\"1\":\"b\",\"2\":\"a\"}",
     "Classification",
     3,
     {"a", "b", "c"},
     {2, 1, 0},
     NULL},
    {"bert_config_matches_names_in_any_order_of_the_file",
     ",\"id2label\":{\"2\":\"a\",\"0\":\"b\",\"1\":\"c\"}",
     "Classification",
     3,
     {"a", "b", "c"},
     {2, 0, 1},
     NULL},
    {"bert_config_matches_names_in_any_case",
     ",\"id2label\":{\"0\":\"ENTAILMENT\",\"1\":\"NEUTRAL\",\"2\":\"CONTRADICTION\"}",
     "MNLI",
     3,
     {"contradiction", "entailment", "neutral"},
     {2, 0, 1},
     NULL},
    {"bert_config_matches_names_with_other_hyphens",
     ",\"id2label\":{\"0\":\"not entailment\",\"1\":\"entailment\"}",
     "RTE",
     2,
     {"entailment", "not_entailment"},
     {1, 0},
     NULL},
    {"bert_config_knows_the_names_of_published_tasks",
     ",\"id2label\":{\"0\":\"POSITIVE\",\"1\":\"NEGATIVE\"}",
     "SST2",
     2,
     {"0", "1"},
     {1, 0},
     NULL},
    {"bert_config_matches_the_files_own_labels_of_published_tasks",
     ",\"id2label\":{\"0\":\"1\",\"1\":\"0\"}",
     "SST2",
     2,
     {"0", "1"},
     {1, 0},
     NULL},
    {"bert_config_takes_numbers_for_names",
     ",\"id2label\":{\"0\":5,\"1\":4}",
     "Classification",
     2,
     {"4", "5"},
     {1, 0},
     NULL},
    {"bert_config_takes_unnamed_labels_by_position",
     ",\"id2label\":{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\"}",
     "RTE",
     2,
     {"entailment", "not_entailment"},
     {0, 1},
     NULL},
    {"bert_config_takes_absent_names_by_position",
     "",
     "RTE",
     2,
     {"entailment", "not_entailment"},
     {0, 1},
     NULL},
    {"bert_config_refuses_other_labels_and_lists_both",
     ",\"id2label\":{\"0\":\"good\",\"1\":\"bad\"}",
     "RTE",
     2,
     {"entailment", "not_entailment"},
     {-1},
     "config.json: id2label has the labels good, bad; the task has entailment, not_entailment:"},
    {"bert_config_refuses_a_name_for_two_labels",
     ",\"id2label\":{\"0\":\"a\",\"1\":\"b\"}",
     "Classification",
     2,
     {"a", "A"},
     {-1},
     "the task has a, A"},
    {"bert_config_refuses_a_name_that_stands_twice",
     ",\"id2label\":{\"0\":\"a\",\"1\":\"A\"}",
     "Classification",
     2,
     {"a", "b"},
     {-1},
     "id2label has the labels a, A"},
    {"bert_config_refuses_another_number_of_names",
     ",\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}",
     "Classification",
     2,
     {"a", "b"},
     {-1},
     "id2label has the labels a, b, c; the task has a, b"},
    {"bert_config_cuts_long_lists",
     ",\"id2label\":{\"0\":\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\","
     "\"1\":\"abcdefghijklmnopqrstuvwxyz\",\"2\":\"x\"}",
     "Classification",
     2,
     {"a", "b"},
     {-1},
     "wxyz, ...; the task has a, b"},
};

static void match_row(void **state)
{
    const struct match *row = *state;
    struct bert_config c;
    struct err err = {0};
    int rows_of[TASK_LABELS_MAX] = {-1, -1, -1};
    char text[512];

    (void)snprintf(text, sizeof text, "{%s%s}", GOOD, row->config);
    assert_int_equal(parse(text, &c, &err), ERR_OK);
    assert_int_equal(bert_config_match("config.json", &c, task_find(row->task), row->labels, row->n,
                                       rows_of, &err),
                     row->says ? ERR_INVALID : ERR_OK);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("%s", err.text);
    for (int i = 0; i < row->n; i++)
        assert_int_equal(rows_of[i], row->says ? -1 : row->rows[i]);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(bert_config_reads_every_number),
        cmocka_unit_test(bert_config_has_the_defaults_of_bert),
        cmocka_unit_test(bert_config_says_what_to_set_in_the_spec),
        cmocka_unit_test(bert_config_checks_only_the_sizes_that_are_wanted),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, bert_config_row);
    SUITE_ROWS(&suite, matches, match_row);
    return suite_run(&suite, "bert_config", NULL, NULL);
}
