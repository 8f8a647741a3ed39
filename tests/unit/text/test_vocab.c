#include "text/vocab.h"

#include "scratch.h"
#include "suite.h"

#define SPECIAL "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"

static void vocab_gives_every_line_its_number(void **state)
{
    struct vocab v;

    (void)state;
    assert_int_equal(vocab_load(scratch_text("v", SPECIAL "the\n##s\n\xc3\xa9"), &v, NULL), ERR_OK);
    assert_int_equal(v.n_tokens, 7);
    assert_int_equal(v.pad, 0);
    assert_int_equal(v.unk, 1);
    assert_int_equal(v.cls, 2);
    assert_int_equal(v.sep, 3);
    assert_int_equal(vocab_find(&v, "the", 3), 4);
    assert_int_equal(vocab_find(&v, "##s", 3), 5);
    assert_int_equal(vocab_find(&v, "\xc3\xa9", 2), 6);
    assert_int_equal(vocab_find(&v, "th", 2), -1);
    assert_int_equal(vocab_find(&v, "thes", 4), -1);
    assert_string_equal(v.tokens[5], "##s");
    assert_int_equal(v.token_max_bytes, 5);
    vocab_deinit(&v);
}

static void vocab_ignores_carriage_returns(void **state)
{
    struct vocab v;
    const char *text = "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\nthe\r\n";

    (void)state;
    assert_int_equal(vocab_parse("v", text, strlen(text), &v, NULL), ERR_OK);
    assert_int_equal(vocab_find(&v, "the", 3), 4);
    vocab_deinit(&v);
}

static void vocab_keeps_the_last_of_two_equal_lines(void **state)
{
    struct vocab v;
    const char *text = SPECIAL "the\n\nthe\nof\n";

    (void)state;
    assert_int_equal(vocab_parse("v", text, strlen(text), &v, NULL), ERR_OK);
    assert_int_equal(vocab_find(&v, "the", 3), 6);
    assert_int_equal(vocab_find(&v, "of", 2), 7);
    assert_int_equal(v.n_tokens, 8);
    vocab_deinit(&v);
}

static void vocab_finds_each_of_many_tokens(void **state)
{
    struct buf text = {.max = 1 << 20};
    struct vocab v;
    char word[16];

    (void)state;
    assert_int_equal(buf_addf(&text, NULL, SPECIAL), ERR_OK);
    for (int i = 0; i < 30000; i++)
        assert_int_equal(buf_addf(&text, NULL, "w%d\n", i), ERR_OK);
    assert_int_equal(vocab_parse("v", text.data, text.len, &v, NULL), ERR_OK);
    for (int i = 0; i < 30000; i++) {
        int n = snprintf(word, sizeof word, "w%d", i);

        assert_int_equal(vocab_find(&v, word, (size_t)n), i + 4);
    }
    vocab_deinit(&v);
    buf_deinit(&text);
}

static void vocab_saves_what_it_has_read(void **state)
{
    const char *text = SPECIAL "the\n##s\nthe\n";
    struct buf saved = {.max = 1024};
    struct vocab v;

    (void)state;
    assert_int_equal(vocab_parse("v", text, strlen(text), &v, NULL), ERR_OK);
    assert_int_equal(vocab_save(&v, scratch, NULL), ERR_OK);
    assert_int_equal(file_read(scratch_path(VOCAB_FILE), &saved, NULL), ERR_OK);
    assert_string_equal(buf_text(&saved), text);
    buf_deinit(&saved);
    vocab_deinit(&v);
}

struct row {
    const char *name;
    const char *text;
    size_t len; /* 0: strlen */
    enum err_code code;
    const char *says;
};
static struct row rows[] = {
    {"vocab_refuses_an_empty_file", "", 0, ERR_INVALID, "v.txt: empty"},
    {"vocab_names_the_special_token_that_is_missing", "[PAD]\n[UNK]\n[SEP]\n", 0, ERR_INVALID,
     "no token \"[CLS]\""},
    {"vocab_refuses_text_that_is_not_utf8", SPECIAL "a\n\xff\n", 0, ERR_INVALID, "v.txt line 6"},
    {"vocab_refuses_an_overlong_encoding", SPECIAL "\xc0\xaf\n", 0, ERR_INVALID, "v.txt line 5"},
    {"vocab_refuses_a_nul", SPECIAL "a\0b\n", sizeof SPECIAL + 3, ERR_INVALID, "v.txt line 5"},
};

static void vocab_refuses(void **state)
{
    const struct row *row = *state;
    struct err err = {0};
    struct vocab v;
    size_t len = row->len ? row->len : strlen(row->text);

    assert_int_equal(vocab_parse("v.txt", row->text, len, &v, &err), row->code);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void vocab_refuses_a_token_of_more_than_1024_bytes(void **state)
{
    char text[2000];
    struct err err = {0};
    struct vocab v;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, SPECIAL, strlen(SPECIAL));
    assert_int_equal(vocab_parse("v", text, sizeof text, &v, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "v line 5: token of"));
}

static void vocab_says_that_the_file_is_missing(void **state)
{
    struct err err = {0};
    struct vocab v;

    (void)state;
    assert_int_equal(vocab_load(scratch_path("nowhere"), &v, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "nowhere"));
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(vocab_gives_every_line_its_number),
        cmocka_unit_test(vocab_ignores_carriage_returns),
        cmocka_unit_test(vocab_keeps_the_last_of_two_equal_lines),
        cmocka_unit_test(vocab_finds_each_of_many_tokens),
        cmocka_unit_test(vocab_saves_what_it_has_read),
        cmocka_unit_test(vocab_refuses_a_token_of_more_than_1024_bytes),
        cmocka_unit_test(vocab_says_that_the_file_is_missing),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, vocab_refuses);
    return suite_run(&suite, "vocab", scratch_make, scratch_remove);
}
