#include "text/tokenizer.h"

#include <sys/stat.h>

#include "base/buf.h"
#include "scratch.h"
#include "suite.h"
#include "text/wordpiece.h"

#define VOCAB "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n##s\n"
#define WORDS "\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3"
#define MODEL                                                                                      \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","                                   \
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{" WORDS
#define NORMALIZER(lower)                                                                          \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":" lower "},"                        \
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"

/* An empty folder below the scratch folder; good until the next call with that name. */
static const char *make_folder(const char *name)
{
    static char folders[2][PATH_MAX];
    char *folder = folders[name[0] == 'm'];
    char command[2 * PATH_MAX];

    (void)snprintf(folder, PATH_MAX, "%s", scratch_path(name));
    (void)snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder);
    assert_int_equal(system(command), 0);
    return folder;
}

/* Whether the tokenizer in the folder "model" is cased; -1: refused, with `err` set. */
static int case_with(const char *model, enum spec_case asked, struct err *err)
{
    struct tokenizer t;
    int is_cased;

    *err = (struct err){0};
    if (tokenizer_load(NULL, model, asked, &t, err) != ERR_OK)
        return -1;
    is_cased = t.is_cased;
    tokenizer_deinit(&t);
    return is_cased;
}

static struct row {
    const char *name;
    const char *config; /* tokenizer_config.json */
    const char *json;   /* tokenizer.json */
    enum spec_case asked;
    int is_cased;     /* -1: refused */
    const char *says; /* then */
} rows[] = {
    {"tokenizer_is_cased_by_its_configuration", "{\"do_lower_case\":false}", NULL, SPEC_CASE_ABSENT,
     1, NULL},
    {"tokenizer_is_cased_by_its_normalizer", NULL, "{" NORMALIZER("false") "}", SPEC_CASE_ABSENT, 1,
     NULL},
    {"tokenizer_is_uncased_by_its_normalizer", NULL, "{" NORMALIZER("true") "}", SPEC_CASE_ABSENT,
     0, NULL},
    {"tokenizer_agrees_with_a_spec_that_says_the_same", "{\"do_lower_case\":false}", NULL,
     SPEC_CASE_CASED, 1, NULL},
    {"tokenizer_refuses_to_lower_case_a_cased_model", "{\"do_lower_case\":false}", NULL,
     SPEC_CASE_UNCASED, -1, "spec.model.case is Uncased but the model in "},
    {"tokenizer_refuses_to_keep_the_case_of_an_uncased_model", NULL, "{" NORMALIZER("true") "}",
     SPEC_CASE_CASED, -1, "is Uncased by its own files: leave spec.model.case out"},
    {"tokenizer_refuses_files_that_contradict_each_other", "{\"do_lower_case\":false}",
     "{" NORMALIZER("true") "}", SPEC_CASE_ABSENT, -1,
     "tokenizer_config.json is of a cased model but tokenizer.json of an uncased one"},
    {"tokenizer_asks_the_spec_where_no_file_states_the_case", "{}", "{}", SPEC_CASE_CASED, 1, NULL},
    {"tokenizer_of_small_letters_is_uncased", NULL, NULL, SPEC_CASE_ABSENT, 0, NULL},
    {"tokenizer_takes_accents_stripped_with_lower_case",
     "{\"do_lower_case\":true,\"strip_accents\":true}", NULL, SPEC_CASE_ABSENT, 0, NULL},
    {"tokenizer_takes_an_undecided_strip_accents",
     "{\"do_lower_case\":false,\"strip_accents\":null}", NULL, SPEC_CASE_ABSENT, 1, NULL},
    {"tokenizer_refuses_lower_case_with_accents",
     "{\"do_lower_case\":true,\"strip_accents\":false}", NULL, SPEC_CASE_ABSENT, -1,
     "lower-cases text and keeps its accents"},
    {"tokenizer_refuses_capitals_without_accents",
     "{\"do_lower_case\":false,\"strip_accents\":true}", NULL, SPEC_CASE_ABSENT, -1,
     "keeps capitals and strips accents"},
    {"tokenizer_refuses_unsplit_chinese", "{\"tokenize_chinese_chars\":false}", NULL,
     SPEC_CASE_ABSENT, -1, "tokenizer_config.json: does not split Chinese"},
    {"tokenizer_refuses_a_broken_configuration", "{", NULL, SPEC_CASE_ABSENT, -1,
     "tokenizer_config.json"},
};

static void tokenizer_row(void **state)
{
    const struct row *row = *state;
    const char *model = make_folder("model");
    struct err err;

    scratch_text("model/vocab.txt", VOCAB);
    if (row->config)
        scratch_text("model/tokenizer_config.json", row->config);
    if (row->json)
        scratch_text("model/tokenizer.json", row->json);
    assert_int_equal(case_with(model, row->asked, &err), row->is_cased);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

/* --- tokenizer.json alone --- */

static void check_ids(const char *folder, bool is_cased)
{
    struct buf ids = {.max = 1 << 10};
    struct buf want = {.max = 1 << 10};
    struct token_list list = {0};
    struct wordpiece wordpiece;
    struct tokenizer t;
    struct err err;
    char path[PATH_MAX];
    static const char text[] = "The cats, running \xc3\xa9";

    if (tokenizer_load(NULL, folder, SPEC_CASE_ABSENT, &t, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(t.is_cased, is_cased);
    assert_int_equal(t.vocab.n_tokens, 14);
    assert_int_equal(t.vocab.mask, 4);
    wordpiece = (struct wordpiece){.vocab = &t.vocab, .keep_case = t.is_cased};
    assert_int_equal(wordpiece_encode(&wordpiece, text, strlen(text), &list, NULL), ERR_OK);
    assert_int_equal(buf_addf(&ids, NULL, "%d", t.vocab.cls), ERR_OK);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(buf_addf(&ids, NULL, " %d", list.ids[i]), ERR_OK);
    assert_int_equal(buf_addf(&ids, NULL, " %d\n", t.vocab.sep), ERR_OK);
    (void)snprintf(path, sizeof path, "%s/ids.txt", folder);
    assert_int_equal(file_read(path, &want, NULL), ERR_OK);
    assert_string_equal(buf_text(&ids), buf_text(&want));
    buf_deinit(&ids);
    buf_deinit(&want);
    token_list_deinit(&list);
    wordpiece_deinit(&wordpiece);
    tokenizer_deinit(&t);
}

static void tokenizer_reads_what_transformers_saves(void **state)
{
    (void)state;
    check_ids("tests/golden/tokenizer/cased", true);
    check_ids("tests/golden/tokenizer/uncased", false);
}

static struct bad {
    const char *name;
    const char *json;
    const char *says;
} bads[] = {
    {"tokenizer_refuses_bpe", "{\"model\":{\"type\":\"BPE\"}}", "model.type is \"BPE\""},
    {"tokenizer_refuses_another_unknown_token",
     "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"<unk>\","
     "\"continuing_subword_prefix\":\"##\"}}",
     "model.unk_token must be"},
    {"tokenizer_refuses_words_of_another_length",
     "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
     "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":200}}",
     "max_input_chars_per_word must be 100"},
    {"tokenizer_refuses_another_normalizer", "{" MODEL "}}}", "must be BertNormalizer"},
    {"tokenizer_refuses_an_id_that_is_missing", "{" MODEL ",\"a\":5}}," NORMALIZER("true") "}",
     "the id of \"a\" must be a whole number in 0..4"},
    {"tokenizer_refuses_an_id_twice", "{" MODEL ",\"a\":3}}," NORMALIZER("true") "}",
     "the id of \"a\""},
    {"tokenizer_refuses_an_id_that_is_no_number",
     "{" MODEL ",\"a\":\"4\"}}," NORMALIZER("true") "}", "the id of \"a\""},
    {"tokenizer_refuses_a_token_with_a_line_break",
     "{" MODEL ",\"a\\nb\":4}}," NORMALIZER("true") "}", "token 4 holds a line break"},
    {"tokenizer_refuses_added_tokens",
     "{" MODEL "}},\"added_tokens\":[{\"id\":4,\"content\":\"[E1]\"}]," NORMALIZER("true") "}",
     "added_tokens: \"[E1]\" is not in model.vocab"},
    {"tokenizer_refuses_an_empty_vocabulary",
     "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
     "\"continuing_subword_prefix\":\"##\",\"vocab\":{}}," NORMALIZER("true") "}",
     "tokenizer.json: empty"},
};

static void bad_row(void **state)
{
    const struct bad *row = *state;
    const char *model = make_folder("model");
    struct err err;

    scratch_text("model/tokenizer.json", row->json);
    assert_int_equal(case_with(model, SPEC_CASE_ABSENT, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

/* --- two folders --- */

static void tokenizer_takes_the_words_beside_the_data(void **state)
{
    const char *model = make_folder("model");
    const char *data = make_folder("data");
    struct tokenizer t;
    struct err err = {0};

    (void)state;
    assert_int_equal(tokenizer_load(data, model, SPEC_CASE_ABSENT, &t, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "has neither vocab.txt nor tokenizer.json"));
    assert_int_equal(tokenizer_load(data, NULL, SPEC_CASE_ABSENT, &t, NULL), ERR_NOT_FOUND);
    scratch_text("data/vocab.txt", VOCAB);
    scratch_text("model/tokenizer_config.json", "{\"do_lower_case\":false}");
    assert_int_equal(tokenizer_load(data, model, SPEC_CASE_ABSENT, &t, NULL), ERR_OK);
    assert_true(t.is_cased);
    assert_int_equal(t.vocab.n_tokens, 6);
    tokenizer_deinit(&t);
    assert_int_equal(tokenizer_load(data, NULL, SPEC_CASE_ABSENT, &t, NULL), ERR_OK);
    assert_false(t.is_cased);
    tokenizer_deinit(&t);
}

static void tokenizer_prefers_the_words_of_the_model(void **state)
{
    const char *model = make_folder("model");
    const char *data = make_folder("data");
    struct tokenizer t;

    (void)state;
    scratch_text("data/vocab.txt", VOCAB "a\n");
    scratch_text("model/vocab.txt", VOCAB);
    assert_int_equal(tokenizer_load(data, model, SPEC_CASE_ABSENT, &t, NULL), ERR_OK);
    assert_int_equal(t.vocab.n_tokens, 6);
    tokenizer_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(tokenizer_reads_what_transformers_saves),
        cmocka_unit_test(tokenizer_takes_the_words_beside_the_data),
        cmocka_unit_test(tokenizer_prefers_the_words_of_the_model),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, tokenizer_row);
    SUITE_ROWS(&suite, bads, bad_row);
    return suite_run(&suite, "tokenizer", scratch_make, scratch_remove);
}
