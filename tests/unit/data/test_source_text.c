#include "data/source.h"

#include "scratch.h"

/* Words say where they are from: document, sentence. */
#define VOCAB                                                                                      \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na1\na2\na3\na4\na5\nb1\nb2\nb3\nc1\nc2\nc3\nc4\nc5\nx\n"
#define A "a1 a1\na2 a2\na3 a3 a3\na4\na5 a5\n"
#define B "b1 b1 b1 b1\nb2\nb3\n"
#define C "c1\nc2\nc3\nc4\nc5\n"

enum { LENGTH = 10 }; /* chunks of up to 7 tokens */

static struct tokenizer tokenizer;
static struct spec spec;
static struct layout layout;

static enum err_code load(const char *task, const char *text, uint64_t seed, struct source *out,
                          struct err *err)
{
    struct source_params p = {.layout = &layout,
                              .tokenizer = &tokenizer,
                              .max_length = LENGTH,
                              .mask_probability = 0.15,
                              .seed = seed};

    (void)snprintf(spec.data.task, sizeof spec.data.task, "%s", task);
    layout_init(&layout, &spec);
    scratch_text("train.txt", text);
    return source_load(&p, scratch, &layout.train, out, err);
}

static void load_well(const char *task, const char *text, struct source *out)
{
    struct err err;

    if (load(task, text, 1, out, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* A sample as text, with its masks undone: "[CLS] a1 [SEP]|b1 [SEP] 1". */
static void print(struct source *c, size_t i, uint64_t epoch, char out[static 256])
{
    struct sequence s;
    int32_t ids[LENGTH];
    int n;

    assert_int_equal(source_get(c, i, epoch, &s, NULL), ERR_OK);
    assert_int_equal(s.sample, i);
    assert_in_range(s.length, 3, LENGTH);
    assert_true(s.n_targets >= 1);
    memcpy(ids, s.ids, (size_t)s.length * sizeof *ids);
    for (int k = 0; k < s.n_targets; k++) {
        assert_in_range(s.rows[k], k > 0 ? s.rows[k - 1] + 1 : 1, s.length - 2);
        ids[s.rows[k]] = s.target_ids[k];
    }
    n = 0;
    for (int k = 0; k < s.length; k++)
        n += snprintf(out + n, 256 - (size_t)n, "%s%s",
                      k == 0           ? ""
                      : k == s.n_first ? "|"
                                       : " ",
                      vocab_token(&tokenizer.vocab, ids[k]));
    (void)snprintf(out + n, 256 - (size_t)n, " %d", s.label);
}

static void check(struct source *c, size_t i, const char *want)
{
    char got[256];

    print(c, i, 0, got);
    assert_string_equal(got, want);
}

static void source_groups_sentences_of_a_document(void **state)
{
    struct source c;

    (void)state;
    load_well("MaskedLM", "\n" A "\n \n" B C "\n\n", &c);
    assert_int_equal(c.n_documents, 2);
    assert_int_equal(c.n_samples, 4);
    check(&c, 0, "[CLS] a1 a1 a2 a2 a3 a3 a3 [SEP] 0");
    check(&c, 1, "[CLS] a4 a5 a5 [SEP] 0");
    check(&c, 2, "[CLS] b1 b1 b1 b1 b2 b3 c1 [SEP] 0");
    check(&c, 3, "[CLS] c2 c3 c4 c5 [SEP] 0");
    assert_int_equal(c.n_cut, 0);
    source_deinit(&c);
}

static void source_cuts_a_sentence_that_is_too_long(void **state)
{
    struct source c;

    (void)state;
    load_well("MaskedLM", "a1\nx x x x x x x x x x x\na2", &c);
    assert_int_equal(c.n_samples, 3);
    assert_int_equal(c.n_cut, 1);
    check(&c, 0, "[CLS] a1 [SEP] 0");
    check(&c, 1, "[CLS] x x x x x x x x [SEP] 0");
    check(&c, 2, "[CLS] a2 [SEP] 0");
    source_deinit(&c);
}

/* U+200B is dropped by the tokenizer: a line of it alone has no tokens. */
static void source_passes_over_lines_without_tokens(void **state)
{
    struct source c;

    (void)state;
    load_well("MaskedLM", "\xe2\x80\x8b\na1\n\xe2\x80\x8b\na2\r\n", &c);
    assert_int_equal(c.n_samples, 1);
    check(&c, 0, "[CLS] a1 a2 [SEP] 0");
    source_deinit(&c);
}

/* What every pair of this text must be, whatever the dice say. */
static void check_pair(const char *sample, bool *out_random)
{
    const char *second = strchr(sample, '|');
    int label = sample[strlen(sample) - 1] - '0';

    assert_non_null(second);
    *out_random = label == 1;
    assert_true((sample[6] == second[1]) == (label == 0)); /* the same document, or another */
    if (label == 0) { /* all of the chunk, cut behind a sentence */
        const char *last = strstr(sample, " [SEP]|") - 2;

        assert_true(memcmp(last, second + 1, 2) != 0);
    }
}

static void source_pairs_what_follows_and_what_does_not(void **state)
{
    struct source c;
    int n_random = 0, n_cuts[4] = {0};

    (void)state;
    load_well("Pretraining", A "\n" C "\n" B, &c);
    for (uint64_t epoch = 0; epoch < 400; epoch++) {
        for (size_t i = 0; i < c.n_samples; i++) {
            char sample[256];
            bool is_random;

            print(&c, i, epoch, sample);
            check_pair(sample, &is_random);
            n_random += is_random;
            if (i == 0) /* a1 a1 | a2 a2 | a3 a3 a3 */
                n_cuts[!strncmp(sample, "[CLS] a1 a1 [SEP]", 17)         ? 0
                       : !strncmp(sample, "[CLS] a1 a1 a2 a2 [SEP]", 23) ? 1
                                                                         : 2]++;
        }
    }
    assert_int_equal(c.n_samples, 4);
    assert_in_range(n_random, 700, 900); /* of 1600; a deviation is 20 */
    assert_in_range(n_cuts[0], 150, 250);
    assert_in_range(n_cuts[1], 100, 250); /* less: some lose their end to a long second */
    source_deinit(&c);
}

static void source_gives_one_sentence_a_stranger(void **state)
{
    struct source c;
    char sample[256];

    (void)state;
    load_well("Pretraining", "a1 a2 a3 a4 a5 a1 a2 a3 a4\n\nb1\n", &c);
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        print(&c, 0, epoch, sample);
        assert_string_equal(sample, "[CLS] a1 a2 a3 a4 a5 a1 [SEP]|b1 [SEP] 1");
    }
    source_deinit(&c);
}

static void source_is_a_function_of_seed_epoch_and_chunk(void **state)
{
    struct source c, other;
    struct sequence s;
    int32_t first[LENGTH];
    int n_same[2] = {0, 0};

    (void)state;
    load_well("Pretraining", A "\n" B "\n" C, &c);
    assert_int_equal(load("Pretraining", A "\n" B "\n" C, 2, &other, NULL), ERR_OK);
    for (uint64_t epoch = 0; epoch < 100; epoch++) {
        int length;

        assert_int_equal(source_get(&c, 0, epoch, &s, NULL), ERR_OK);
        length = s.length;
        memcpy(first, s.ids, (size_t)length * sizeof *first);
        assert_int_equal(source_get(&c, 2, epoch, &s, NULL), ERR_OK);
        assert_int_equal(source_get(&c, 0, epoch, &s, NULL), ERR_OK);
        assert_int_equal(s.length, length);
        assert_memory_equal(s.ids, first, (size_t)length * sizeof *first);
        assert_int_equal(source_get(&c, 0, epoch + 1, &s, NULL), ERR_OK);
        n_same[0] +=
            s.length == length && memcmp(s.ids, first, (size_t)length * sizeof *first) == 0;
        assert_int_equal(source_get(&other, 0, epoch, &s, NULL), ERR_OK);
        n_same[1] +=
            s.length == length && memcmp(s.ids, first, (size_t)length * sizeof *first) == 0;
    }
    assert_true(n_same[0] < 30 && n_same[1] < 30);
    source_deinit(&c);
    source_deinit(&other);
}

struct row {
    const char *name, *task, *text, *says;
};
static struct row rows[] = {
    {"source_refuses_a_text_without_words", "MaskedLM", "\n\n  \n", "train.txt: no words"},
    {"source_refuses_an_empty_file", "MaskedLM", "", "train.txt: no words"},
    {"source_of_pairs_needs_two_documents", "Pretraining", A, "train.txt: one document"},
    {"source_refuses_bytes_that_are_not_utf8", "MaskedLM", "a1\na\xff\n",
     "train.txt line 2: byte 2 is not UTF-8"},
};

static void source_refuses(void **state)
{
    const struct row *row = *state;
    struct err err = {0};
    struct source c;

    assert_int_equal(load(row->task, row->text, 0, &c, &err), ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void source_says_what_is_missing(void **state)
{
    struct source c;
    struct err err = {0};
    struct source_params p = {.layout = &layout, .tokenizer = &tokenizer, .max_length = LENGTH};

    (void)state;
    load_well("MaskedLM", "a1\n", &c);
    assert_int_equal(source_get(&c, 1, 0, &(struct sequence){0}, NULL), ERR_INVALID);
    source_deinit(&c);
    assert_int_equal(source_load(&p, scratch, &layout.dev[0], &c, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "correct spec.data.files.dev"));
}

static void source_ends_a_document_where_it_leaves_lines_out(void **state)
{
    struct source_params p = {
        .layout = &layout, .tokenizer = &tokenizer, .max_length = LENGTH, .most_bytes = 2000};
    struct buf text = {.max = 1 << 20};
    struct source c;

    (void)state;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(buf_addf(&text, NULL, "a1\n"), ERR_OK);
    load_well("MaskedLM", text.data, &c); /* sets task and text */
    assert_int_equal(c.n_documents, 1);
    source_deinit(&c);
    assert_int_equal(source_load(&p, scratch, &layout.train, &c, NULL), ERR_OK);
    assert_int_equal(c.n_documents, 64);
    source_deinit(&c);
    buf_deinit(&text);
}

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0], N_OWN = 8 };
    struct CMUnitTest tests[N_ROWS + N_OWN] = {
        cmocka_unit_test(source_ends_a_document_where_it_leaves_lines_out),
        cmocka_unit_test(source_groups_sentences_of_a_document),
        cmocka_unit_test(source_cuts_a_sentence_that_is_too_long),
        cmocka_unit_test(source_passes_over_lines_without_tokens),
        cmocka_unit_test(source_pairs_what_follows_and_what_does_not),
        cmocka_unit_test(source_gives_one_sentence_a_stranger),
        cmocka_unit_test(source_is_a_function_of_seed_epoch_and_chunk),
        cmocka_unit_test(source_says_what_is_missing),
    };
    int failed;

    if (vocab_parse("vocab", VOCAB, strlen(VOCAB), &tokenizer.vocab, NULL) != ERR_OK)
        return 1;
    for (size_t i = 0; i < N_ROWS; i++)
        tests[N_OWN + i] = (struct CMUnitTest){rows[i].name, source_refuses, NULL, NULL, &rows[i]};
    failed =
        _cmocka_run_group_tests("source_text", tests, N_OWN + N_ROWS, scratch_make, scratch_remove);
    vocab_deinit(&tokenizer.vocab);
    return failed;
}
