#include "import/vocab_build.h"

#include "scratch.h"
#include "text/wordpiece.h"

static const char *const corpus[] = {
    "the cat sat on the mat and the dog lay on the rug",
    "the newest and the lowest of the widest rivers",
    "newer rivers are lower than the wider rivers, the lowest river is new",
    "Caf\xc3\xa9s in Z\xc3\xbcrich: \xe4\xb8\xad\xe5\x9b\xbd, 100%",
    "\xce\xa3\xce\x9f\xce\xa6\xce\x9f\xce\xa3!",
};
enum { N_LINES = sizeof corpus / sizeof corpus[0] };

static void count(struct word_counts *c, bool keep_case, bool backwards)
{
    assert_int_equal(word_counts_init(c, keep_case, WORD_COUNTS_WORDS_MAX, NULL), ERR_OK);
    for (int i = 0; i < N_LINES; i++) {
        const char *line = corpus[backwards ? N_LINES - 1 - i : i];

        assert_int_equal(word_counts_add(c, line, strlen(line), NULL), ERR_OK);
    }
}

static void build(int n_tokens, bool keep_case, bool backwards, struct buf *text, int *out_n)
{
    struct word_counts c;
    struct err err;

    *text = (struct buf){.max = VOCAB_FILE_MAX_BYTES};
    count(&c, keep_case, backwards);
    if (vocab_build(&c, n_tokens, text, out_n, &err) != ERR_OK)
        fail_msg("%s", err.text);
    word_counts_deinit(&c);
}

static void spell_corpus(const struct vocab *v, bool keep_case)
{
    struct wordpiece w;
    struct token_list list = {0};

    w = (struct wordpiece){.vocab = v, .keep_case = keep_case};
    for (int i = 0; i < N_LINES; i++)
        assert_int_equal(wordpiece_encode(&w, corpus[i], strlen(corpus[i]), &list, NULL), ERR_OK);
    assert_true(list.n > 0);
    for (size_t i = 0; i < list.n; i++)
        assert_int_not_equal(list.ids[i], v->unk);
    token_list_deinit(&list);
    wordpiece_deinit(&w);
}

static void vocab_build_spells_every_word_of_the_corpus_at_any_size(void **state)
{
    (void)state;
    for (int n_tokens = 60; n_tokens <= 75; n_tokens += 3) {
        for (int keep_case = 0; keep_case < 2; keep_case++) {
            struct buf text;
            struct vocab v;
            int n;

            build(n_tokens, keep_case, false, &text, &n);
            assert_int_equal(vocab_parse("v", buf_text(&text), text.len, &v, NULL), ERR_OK);
            assert_int_equal(v.n_tokens, n);
            spell_corpus(&v, keep_case);
            vocab_deinit(&v);
            buf_deinit(&text);
        }
    }
}

static void vocab_build_has_each_token_once_and_the_special_ones_first(void **state)
{
    struct buf text;
    struct vocab v;
    int n;

    (void)state;
    build(60, false, false, &text, &n);
    assert_int_equal(n, 60); /* as many as asked for */
    assert_memory_equal(buf_text(&text), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n!\n%\n", 35);
    assert_int_equal(vocab_parse("v", buf_text(&text), text.len, &v, NULL), ERR_OK);
    for (int32_t id = 0; id < n; id++)
        assert_int_equal(vocab_find(&v, v.tokens[id], strlen(v.tokens[id])), id);
    vocab_deinit(&v);
    buf_deinit(&text);
}

static void vocab_build_makes_frequent_words_one_token(void **state)
{
    struct buf text;
    struct vocab v;
    int n;

    (void)state;
    build(1000, false, false, &text, &n);
    assert_int_equal(vocab_parse("v", buf_text(&text), text.len, &v, NULL), ERR_OK);
    assert_true(vocab_find(&v, "the", 3) > 0);
    assert_true(vocab_find(&v, "rivers", 6) > 0);
    assert_true(vocab_find(&v, "lowest", 6) > 0);
    assert_int_equal(vocab_find(&v, "widest", 6), -1); /* occurs once */
    vocab_deinit(&v);
    buf_deinit(&text);
}

static void vocab_build_stops_when_nothing_occurs_twice(void **state)
{
    struct buf text;
    int n;

    (void)state;
    build(10000, false, false, &text, &n);
    assert_in_range(n, 60, 90);
    buf_deinit(&text);
}

static void vocab_build_does_not_depend_on_the_order_of_the_lines(void **state)
{
    struct buf a;
    struct buf b;
    int n;

    (void)state;
    build(60, false, false, &a, &n);
    build(60, false, true, &b, &n);
    assert_string_equal(buf_text(&a), buf_text(&b));
    buf_deinit(&a);
    buf_deinit(&b);
}

static void vocab_build_orders_a_small_corpus_by_hand(void **state)
{
    static const char text[] = "abab abab b cab";
    struct buf out = {.max = 1000};
    struct word_counts c;
    int n;

    (void)state;
    assert_int_equal(word_counts_init(&c, false, 100, NULL), ERR_OK);
    assert_int_equal(word_counts_add(&c, text, sizeof text - 1, NULL), ERR_OK);
    assert_int_equal(vocab_build(&c, 100, &out, &n, NULL), ERR_OK);
    /* ##a ##b occurs 3 times; then a ##b and ab ##ab twice; c ##ab is there once. */
    assert_string_equal(buf_text(&out),
                        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##a\n##b\n##ab\nab\nabab\n");
    assert_int_equal(n, 13);
    word_counts_deinit(&c);
    buf_deinit(&out);
}

static void vocab_build_says_what_to_do_about_a_wrong_size_or_corpus(void **state)
{
    struct buf out = {.max = VOCAB_FILE_MAX_BYTES};
    struct word_counts c;
    struct err err;
    int n;

    (void)state;
    count(&c, false, false);
    assert_int_equal(vocab_build(&c, 30, &out, &n, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "30 tokens are too few"));
    assert_non_null(strstr(err.text, "ask for at least "));
    n = (int)strtol(strstr(err.text, "at least ") + 9, NULL, 10);
    assert_int_equal(vocab_build(&c, n - 1, &out, &n, NULL), ERR_INVALID);
    assert_int_equal(vocab_build(&c, n, &out, &n, NULL), ERR_OK);
    assert_int_equal(vocab_build(&c, VOCAB_TOKENS_MAX + 1, &out, &n, NULL), ERR_LIMIT);
    word_counts_deinit(&c);
    buf_deinit(&out);

    assert_int_equal(word_counts_init(&c, false, 100, NULL), ERR_OK);
    assert_int_equal(vocab_build(&c, 100, &out, &n, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "no words in the corpus"));
    word_counts_deinit(&c);
}

static int test_vocab_build(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocab_build_spells_every_word_of_the_corpus_at_any_size),
        cmocka_unit_test(vocab_build_has_each_token_once_and_the_special_ones_first),
        cmocka_unit_test(vocab_build_makes_frequent_words_one_token),
        cmocka_unit_test(vocab_build_stops_when_nothing_occurs_twice),
        cmocka_unit_test(vocab_build_does_not_depend_on_the_order_of_the_lines),
        cmocka_unit_test(vocab_build_orders_a_small_corpus_by_hand),
        cmocka_unit_test(vocab_build_says_what_to_do_about_a_wrong_size_or_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- counting words --- */

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

static int test_word_counts(void)
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

int main(void)
{
    return test_vocab_build() + test_word_counts();
}
