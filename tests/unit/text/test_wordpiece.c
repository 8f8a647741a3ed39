#include "text/wordpiece.h"

#include "base/hash.h"
#include "scratch.h"
#include "suite.h"
#include "text/chars.h"
#include "text/lines.h"

/* Ids are line numbers; the tests compare the tokens' texts. */
static const char vocab_text[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n##a\na\nb\n##b\nthe\n.\n,\n$\ncafe\nhe\n##llo\n"
    "\xe4\xb8\xad\n\xe5\x9b\xbd\n\xcf\x83\n##\xcf\x83\n##\xcf\x82\n\xce\xb1\n##\xce\xb1\n"
    "\xc3\x89\nCaf\n##\xc3\xa9\nThe\n\xe2\x80\x94\nI\ni\n[\n]\nsep\n##e\n#\n";

struct row {
    const char *name;
    const char *text;
    const char *tokens; /* separated by spaces */
    bool keep_case;
};

static struct row rows[] = {
    {"wordpiece_takes_the_longest_piece_again_and_again", "unaffable", "un ##aff ##able", false},
    {"wordpiece_makes_the_whole_word_unknown_when_a_rest_is", "unaffables the", "[UNK] the", false},
    {"wordpiece_lower_cases_and_strips_accents", "Caf\xc3\xa9 THE", "cafe the", false},
    {"wordpiece_strips_accents_that_stand_alone", "cafe\xcc\x81", "cafe", false},
    {"wordpiece_keeps_case_and_accents_when_told_to", "Caf\xc3\xa9 The the",
     "Caf ##\xc3\xa9 The the", true},
    {"wordpiece_splits_punctuation", "the.a,b$", "the . a , b $", false},
    {"wordpiece_splits_unicode_punctuation",
     "a\xe2\x80\x94"
     "b",
     "a \xe2\x80\x94 b", false},
    {"wordpiece_puts_every_ideograph_on_its_own",
     "a\xe4\xb8\xad\xe5\x9b\xbd"
     "b",
     "a \xe4\xb8\xad \xe5\x9b\xbd b", false},
    {"wordpiece_drops_control_characters",
     "t\x01h\xe2\x80\x8b"
     "e\xef\xbf\xbd",
     "the", false},
    {"wordpiece_splits_at_every_kind_of_space",
     "a\xc2\xa0"
     "b\xe3\x80\x80the\xe2\x80\xa8"
     "a\tb\r",
     "a b the a b", false},
    {"wordpiece_ends_a_greek_word_with_a_final_sigma", "\xce\x91\xce\xa3\xce\x91\xce\xa3",
     "\xce\xb1 ##\xcf\x83 ##\xce\xb1 ##\xcf\x82", false},
    {"wordpiece_knows_no_final_sigma_in_a_word_of_one_letter", "\xce\xa3", "\xcf\x83", false},
    {"wordpiece_lower_cases_the_dotted_capital_i", "\xc4\xb0", "i", false},
    {"wordpiece_does_not_let_text_forge_special_tokens", "[SEP]", "[ sep ]", false},
    {"wordpiece_treats_number_signs_as_punctuation", "##able", "# # [UNK]", false},
    {"wordpiece_gives_nothing_for_nothing", "", "", false},
    {"wordpiece_gives_nothing_for_spaces_and_controls", " \t \xc2\xa0\x02", "", false},
};

static struct vocab vocab;

static void check_tokens(struct wordpiece *w, const char *text, size_t len, const char *want)
{
    struct token_list list = {0};
    struct buf got = {.max = 1 << 20};
    struct err err = {0};

    if (wordpiece_encode(w, text, len, &list, &err) != ERR_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(buf_addf(&got, NULL, "%s%s", i ? " " : "", vocab.tokens[list.ids[i]]),
                         ERR_OK);
    assert_string_equal(buf_text(&got), want);
    buf_deinit(&got);
    token_list_deinit(&list);
}

static void wordpiece_tokenises(void **state)
{
    const struct row *row = *state;
    struct wordpiece w;

    w = (struct wordpiece){.vocab = &vocab, .keep_case = row->keep_case};
    check_tokens(&w, row->text, strlen(row->text), row->tokens);
    wordpiece_deinit(&w);
}

static void wordpiece_gives_up_on_words_of_more_than_100_characters(void **state)
{
    char text[202];
    struct wordpiece w;
    struct token_list list = {0};

    (void)state;
    w = (struct wordpiece){.vocab = &vocab, .keep_case = false};
    for (int i = 0; i < 101; i++) /* characters count, not bytes */
        memcpy(text + 2 * i, "\xce\xb1", 2);
    check_tokens(&w, text, 202, "[UNK]");
    assert_int_equal(wordpiece_encode(&w, text, 200, &list, NULL), ERR_OK);
    assert_int_equal(list.n, 100);
    token_list_deinit(&list);
    wordpiece_deinit(&w);
}

static void wordpiece_refuses_what_is_not_utf8_and_leaves_the_list_alone(void **state)
{
    static const char *const bad[] = {"a \xff", "a \xc0\xaf", "a \xed\xa0\x80",
                                      "a \xf4\x90\x80\x80", "a \xe4\xb8"};
    struct wordpiece w;
    struct token_list list = {0};
    struct err err;

    (void)state;
    w = (struct wordpiece){.vocab = &vocab, .keep_case = false};
    assert_int_equal(wordpiece_encode(&w, "the", 3, &list, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wordpiece_encode(&w, bad[i], strlen(bad[i]), &list, &err), ERR_INVALID);
        assert_string_equal(err.text, "byte 2 is not UTF-8");
        assert_int_equal(list.n, 1);
    }
    token_list_deinit(&list);
    wordpiece_deinit(&w);
}

static void wordpiece_survives_a_million_marks(void **state)
{
    size_t len = WORDPIECE_TEXT_MAX_BYTES / 6 * 6;
    char *text = malloc(len + 6);
    struct wordpiece w;
    struct token_list list = {0};

    (void)state;
    assert_non_null(text);
    /* Marks of two classes in turn, not of category Mn: the worst case for ordering them. */
    for (size_t i = 0; i < len; i += 7)
        memcpy(text + i, i + 7 <= len ? "\xe3\x80\xae\xf0\x96\xbf\xb0" : "aaaaaa",
               i + 7 <= len ? 7 : len - i);
    w = (struct wordpiece){.vocab = &vocab, .keep_case = false};
    assert_int_equal(wordpiece_encode(&w, text, len, &list, NULL), ERR_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.ids[0], vocab.unk);
    assert_int_equal(wordpiece_encode(&w, text, WORDPIECE_TEXT_MAX_BYTES + 1, &list, NULL),
                     ERR_LIMIT);
    token_list_deinit(&list);
    wordpiece_deinit(&w);
    free(text);
}

static void wordpiece_orders_marks_canonically(void **state)
{
    struct wordpiece w;
    struct vocab v;
    struct token_list list = {0};
    /* U+302E has class 224 and U+1D165 class 216, neither is an accent: NFD swaps them. */
    const char *text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\xf0\x9d\x85\xa5\xe3\x80\xae\n";

    (void)state;
    assert_int_equal(vocab_parse("v", text, strlen(text), &v, NULL), ERR_OK);
    w = (struct wordpiece){.vocab = &v, .keep_case = false};
    assert_int_equal(wordpiece_encode(&w, "a\xe3\x80\xae\xf0\x9d\x85\xa5", 8, &list, NULL), ERR_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.ids[0], 4);
    token_list_deinit(&list);
    wordpiece_deinit(&w);
    vocab_deinit(&v);
}

static int test_wordpiece(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(wordpiece_gives_up_on_words_of_more_than_100_characters),
        cmocka_unit_test(wordpiece_refuses_what_is_not_utf8_and_leaves_the_list_alone),
        cmocka_unit_test(wordpiece_survives_a_million_marks),
        cmocka_unit_test(wordpiece_orders_marks_canonically),
    };
    struct suite suite = {.n = 0};
    int failed;

    if (vocab_parse("vocab", vocab_text, sizeof vocab_text - 1, &vocab, NULL) != ERR_OK)
        return 1;
    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, wordpiece_tokenises);
    failed = suite_run(&suite, "wordpiece", scratch_make, scratch_remove);
    vocab_deinit(&vocab);
    return failed;
}

/* --- words --- */

struct words_row {
    const char *name;
    const char *text;
    const char *words; /* separated by bars */
    bool keep_case;
};

static struct words_row words_rows[] = {
    {"words_are_separated_by_space_and_punctuation", "Don't  stop,\tnow", "don|'|t|stop|,|now",
     false},
    {"words_keep_case_and_accents_when_told_to", "Caf\xc3\xa9 NOW", "Caf\xc3\xa9|NOW", true},
    {"words_lose_accents_and_case", "Caf\xc3\xa9 NOW", "cafe|now", false},
    {"words_of_ideographs_are_single", "a\xe4\xb8\xad\xe5\x9b\xbd", "a|\xe4\xb8\xad|\xe5\x9b\xbd",
     false},
    {"words_are_none_in_an_empty_text", "", "", false},
    {"words_are_none_in_spaces_and_controls", " \x01 ", "", false},
};

static void words_are(void **state)
{
    const struct words_row *row = *state;
    struct buf got = {.max = 1000};
    const int32_t *chars;
    size_t n;
    struct wordpiece w;

    w = (struct wordpiece){.keep_case = row->keep_case};
    /* Twice: a text begins anew. */
    for (int i = 0; i < 2; i++) {
        buf_reset(&got);
        assert_int_equal(wordpiece_read(&w, row->text, strlen(row->text), NULL), ERR_OK);
        while (wordpiece_next(&w, &chars, &n)) {
            if (got.len > 0)
                assert_int_equal(buf_add(&got, "|", 1, NULL), ERR_OK);
            for (size_t k = 0; k < n; k++) {
                char utf8[4];

                assert_int_equal(buf_add(&got, utf8, chars_encode(chars[k], utf8), NULL), ERR_OK);
            }
        }
        assert_string_equal(buf_text(&got), row->words);
    }
    wordpiece_deinit(&w);
    buf_deinit(&got);
}

static void words_are_none_after_a_refused_text(void **state)
{
    const int32_t *chars;
    size_t n;
    struct wordpiece w;
    struct err err;

    (void)state;
    w = (struct wordpiece){.keep_case = false};
    assert_int_equal(wordpiece_read(&w, "a b", 3, NULL), ERR_OK);
    assert_int_equal(wordpiece_read(&w, "a b \xff", 5, &err), ERR_INVALID);
    assert_string_equal(err.text, "byte 4 is not UTF-8");
    assert_false(wordpiece_next(&w, &chars, &n));
    wordpiece_deinit(&w);
}

static int test_words(void)
{
    enum { N_ROWS = sizeof words_rows / sizeof words_rows[0] };
    struct CMUnitTest tests[N_ROWS + 1] = {cmocka_unit_test(words_are_none_after_a_refused_text)};

    for (size_t i = 0; i < N_ROWS; i++)
        tests[1 + i] =
            (struct CMUnitTest){words_rows[i].name, words_are, NULL, NULL, &words_rows[i]};
    return _cmocka_run_group_tests("wordpiece_words", tests, N_ROWS + 1, NULL, NULL);
}

/* --- golden --- */

/* 10,000 lines, ordinary and hostile, against the reference tokenizer: see
 * hack/gen-golden-tokens.py, which also tells what the reference makes of a line. */

#define GOLDEN_LINES "tests/unit/text/golden_tokens.txt"
#define GOLDEN_VOCAB "tests/unit/text/golden_vocab.txt"
#define N_LINES      10000
#define N_SHOWN      10

static struct vocab golden_vocab;

/* "\{hex}" stands for one character. */
static void unescape(const char *text, size_t len, struct buf *out)
{
    char utf8[4];

    buf_reset(out);
    for (size_t i = 0; i < len; i++) {
        char *end;

        if (text[i] != '\\') {
            assert_int_equal(buf_add(out, text + i, 1, NULL), ERR_OK);
            continue;
        }
        assert_int_equal(
            buf_add(out, utf8, chars_encode((int32_t)strtol(text + i + 2, &end, 16), utf8), NULL),
            ERR_OK);
        assert_int_equal(*end, '}');
        i = (size_t)(end - text);
    }
}

static void join(const struct token_list *list, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i < list->n; i++)
        assert_int_equal(
            buf_addf(out, NULL, "%s%s", i ? " " : "", golden_vocab.tokens[list->ids[i]]), ERR_OK);
}

static uint32_t fold(const struct buf *text)
{
    uint64_t hash = hash_bytes(HASH_START, buf_text(text), text->len);

    return (uint32_t)(hash >> 32 ^ hash);
}

static void check_lines(bool keep_case)
{
    struct buf text = {.max = LINES_MAX_BYTES};
    struct buf got = {.max = LINES_MAX_BYTES};
    struct token_list list = {0};
    struct wordpiece w;
    struct lines lines;
    const char *line;
    size_t len;
    bool end = false;
    int n_bad = 0;

    w = (struct wordpiece){.vocab = &golden_vocab, .keep_case = keep_case};
    assert_int_equal(lines_open(GOLDEN_LINES, &lines, NULL), ERR_OK);
    while (lines_next(&lines, &line, &len, &end, NULL) == ERR_OK && !end) {
        uint32_t want = (uint32_t)strtoul(line + (keep_case ? 9 : 0), NULL, 16);

        unescape(line + 18, len - 18, &text);
        list.n = 0;
        assert_int_equal(wordpiece_encode(&w, buf_text(&text), text.len, &list, NULL), ERR_OK);
        join(&list, &got);
        if (fold(&got) != want && n_bad++ < N_SHOWN)
            print_error("line %d: \"%.*s\" became: %s\n", (int)lines_number(&lines), (int)len - 18,
                        line + 18, buf_text(&got));
    }
    assert_true(end);
    assert_int_equal(lines_number(&lines), N_LINES);
    if (n_bad > 0)
        fail_msg("%d lines differ; `hack/gen-golden-tokens.py show N` tells what line N should be",
                 n_bad);
    lines_close(&lines);
    wordpiece_deinit(&w);
    token_list_deinit(&list);
    buf_deinit(&text);
    buf_deinit(&got);
}

static void wordpiece_gives_the_reference_tokens_of_10000_lines(void **state)
{
    (void)state;
    check_lines(false);
}

static void wordpiece_gives_the_reference_tokens_of_10000_lines_with_case(void **state)
{
    (void)state;
    check_lines(true);
}

static int test_golden(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_gives_the_reference_tokens_of_10000_lines),
        cmocka_unit_test(wordpiece_gives_the_reference_tokens_of_10000_lines_with_case),
    };
    struct err err;
    int failed;

    if (vocab_load(GOLDEN_VOCAB, &golden_vocab, &err) != ERR_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    vocab_deinit(&golden_vocab);
    return failed;
}

int main(void)
{
    return test_wordpiece() + test_words() + test_golden();
}
