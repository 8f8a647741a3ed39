#include "text/wordpiece.h"

#include "scratch.h"
#include "text/chars.h"

struct row {
    const char *name;
    const char *text;
    const char *words; /* separated by bars */
    bool keep_case;
};

static struct row rows[] = {
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
    const struct row *row = *state;
    struct buf got = {.max = 1000};
    const int32_t *chars;
    size_t n;
    struct words w;

    w = (struct words){.keep_case = row->keep_case};
    /* Twice: a text begins anew. */
    for (int i = 0; i < 2; i++) {
        buf_reset(&got);
        assert_int_equal(words_read(&w, row->text, strlen(row->text), NULL), ERR_OK);
        while (words_next(&w, &chars, &n)) {
            if (got.len > 0)
                assert_int_equal(buf_add(&got, "|", 1, NULL), ERR_OK);
            for (size_t k = 0; k < n; k++) {
                char utf8[4];

                assert_int_equal(buf_add(&got, utf8, chars_encode(chars[k], utf8), NULL), ERR_OK);
            }
        }
        assert_string_equal(buf_text(&got), row->words);
    }
    words_deinit(&w);
    buf_deinit(&got);
}

static void words_are_none_after_a_refused_text(void **state)
{
    const int32_t *chars;
    size_t n;
    struct words w;
    struct err err;

    (void)state;
    w = (struct words){.keep_case = false};
    assert_int_equal(words_read(&w, "a b", 3, NULL), ERR_OK);
    assert_int_equal(words_read(&w, "a b \xff", 5, &err), ERR_INVALID);
    assert_string_equal(err.text, "byte 4 is not UTF-8");
    assert_false(words_next(&w, &chars, &n));
    words_deinit(&w);
}

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[N_ROWS + 1] = {cmocka_unit_test(words_are_none_after_a_refused_text)};

    for (size_t i = 0; i < N_ROWS; i++)
        tests[1 + i] = (struct CMUnitTest){rows[i].name, words_are, NULL, NULL, &rows[i]};
    return _cmocka_run_group_tests("wordpiece_words", tests, N_ROWS + 1, NULL, NULL);
}
