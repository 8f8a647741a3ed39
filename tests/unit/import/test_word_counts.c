#include "import/word_counts.h"

#include "scratch.h"

static uint64_t count_of(const struct word_counts *c, const char *word)
{
    const struct map_entry *entry = map_find(&c->words, word, strlen(word));

    return entry ? entry->value.number : 0;
}

static void add(struct word_counts *c, const char *text)
{
    assert_int_equal(word_counts_add(c, text, strlen(text), NULL), ERR_OK);
}

static void word_counts_count_words_of_all_texts(void **state)
{
    struct word_counts c;

    (void)state;
    assert_int_equal(word_counts_init(&c, false, WORD_COUNTS_WORDS_MAX, NULL), ERR_OK);
    add(&c, "The cat, the dog.");
    add(&c, "the end");
    assert_int_equal(c.words.n, 6);
    assert_int_equal(c.n_seen, 8);
    assert_int_equal(count_of(&c, "the"), 3);
    assert_int_equal(count_of(&c, "cat"), 1);
    assert_int_equal(count_of(&c, "."), 1);
    assert_int_equal(count_of(&c, "The"), 0);
    assert_true(c.places['c'] & WORD_COUNTS_FIRST);
    assert_false(c.places['c'] & WORD_COUNTS_REST);
    assert_true(c.places['o'] & WORD_COUNTS_REST);
    assert_false(c.places['o'] & WORD_COUNTS_FIRST);
    assert_false(c.places['T'] & WORD_COUNTS_FIRST);
    word_counts_deinit(&c);
}

static void word_counts_keep_case_when_told_to(void **state)
{
    struct word_counts c;

    (void)state;
    assert_int_equal(word_counts_init(&c, true, WORD_COUNTS_WORDS_MAX, NULL), ERR_OK);
    add(&c, "The the");
    assert_int_equal(count_of(&c, "The"), 1);
    assert_int_equal(count_of(&c, "the"), 1);
    word_counts_deinit(&c);
}

static void word_counts_find_ten_thousand_words_again(void **state)
{
    struct word_counts c;
    char text[16];

    (void)state;
    assert_int_equal(word_counts_init(&c, false, WORD_COUNTS_WORDS_MAX, NULL), ERR_OK);
    for (int i = 0; i < 30000; i++) {
        (void)snprintf(text, sizeof text, "w%d", i % 10000);
        add(&c, text);
    }
    assert_int_equal(c.words.n, 10000);
    for (size_t i = 0; i < c.words.n; i++)
        assert_int_equal(c.words.entries[i].value.number, 3);
    word_counts_deinit(&c);
}

static void word_counts_drop_the_rarer_half_when_full_but_no_character(void **state)
{
    struct word_counts c;
    char text[16];

    (void)state;
    assert_int_equal(word_counts_init(&c, false, 100, NULL), ERR_OK);
    add(&c, "often often often rare\xc3\xb8");
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof text, "w%d often", i);
        add(&c, text);
        assert_true(c.words.n <= 100);
    }
    assert_true(c.n_pruned >= 10);
    assert_int_equal(count_of(&c, "often"), 1003);
    assert_int_equal(count_of(&c, "rare\xc3\xb8"), 0);
    assert_int_equal(count_of(&c, "w999"), 1);
    assert_true(c.places[0xf8] & WORD_COUNTS_REST);
    assert_int_equal(c.n_seen, 2004);
    word_counts_deinit(&c);
}

static void word_counts_bound_the_text_of_long_words(void **state)
{
    struct word_counts c;
    char text[101];

    (void)state;
    assert_int_equal(word_counts_init(&c, false, 1000, NULL), ERR_OK);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(text, sizeof text, "%0100d", i);
        add(&c, text);
    }
    assert_true(c.n_pruned > 0);
    assert_true(c.text_bytes < 100000);
    word_counts_deinit(&c);
}

static void word_counts_leave_out_words_that_are_unknown_anyway(void **state)
{
    struct word_counts c;
    char text[102];

    (void)state;
    assert_int_equal(word_counts_init(&c, false, 100, NULL), ERR_OK);
    memset(text, 'x', 101);
    assert_int_equal(word_counts_add(&c, text, 101, NULL), ERR_OK);
    assert_int_equal(c.words.n, 0);
    assert_false(c.places['x'] & WORD_COUNTS_FIRST);
    assert_int_equal(word_counts_add(&c, text, 100, NULL), ERR_OK);
    assert_int_equal(c.words.n, 1);
    word_counts_deinit(&c);
}

static void word_counts_read_files_and_name_the_bad_line(void **state)
{
    struct word_counts c;
    struct err err;

    (void)state;
    assert_int_equal(word_counts_init(&c, false, 100, NULL), ERR_OK);
    assert_int_equal(word_counts_add_file(&c, scratch_text("a.txt", "one two\n\ntwo"), NULL),
                     ERR_OK);
    assert_int_equal(count_of(&c, "two"), 2);
    assert_int_equal(word_counts_add_file(&c, scratch_text("b.txt", "one\nt\xff\n"), &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.text, "b.txt line 2: byte 2 is not UTF-8"));
    assert_int_equal(word_counts_add_file(&c, scratch_path("none"), &err), ERR_NOT_FOUND);
    word_counts_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(word_counts_count_words_of_all_texts),
        cmocka_unit_test(word_counts_keep_case_when_told_to),
        cmocka_unit_test(word_counts_find_ten_thousand_words_again),
        cmocka_unit_test(word_counts_drop_the_rarer_half_when_full_but_no_character),
        cmocka_unit_test(word_counts_bound_the_text_of_long_words),
        cmocka_unit_test(word_counts_leave_out_words_that_are_unknown_anyway),
        cmocka_unit_test(word_counts_read_files_and_name_the_bad_line),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
