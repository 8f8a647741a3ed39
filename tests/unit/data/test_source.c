#include "data/source.h"

#include "golden_truncate.h"
#include "scratch.h"
#include "suite.h"

#define VOCAB  "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\n.\n"
#define HEADER "sentence1\tsentence2\tgold_label\n"

static struct tokenizer tokenizer;
static struct spec spec;
static struct layout layout;

static enum err_code load(const char *text, int max_length, struct source *out, struct err *err)
{
    struct source_params p = {.layout = &layout, .tokenizer = &tokenizer, .max_length = max_length};

    scratch_text("train.tsv", text);
    return source_load(&p, scratch, &layout.train, out, err);
}

static struct sequence get(struct source *d, size_t i)
{
    struct sequence s;

    assert_int_equal(source_get(d, i, 0, &s, NULL), ERR_OK);
    assert_int_equal(s.sample, i);
    assert_int_equal(s.n_targets, 0);
    return s;
}

static void check_sample(struct source *d, size_t i, const char *want)
{
    struct buf got = {.max = 4096};
    struct sequence s = get(d, i);

    for (int k = 0; k < s.length; k++)
        assert_int_equal(buf_addf(&got, NULL, "%s%s", k == s.n_first ? "|" : " ",
                                  tokenizer.vocab.tokens[s.ids[k]]),
                         ERR_OK);
    assert_string_equal(buf_text(&got), want);
    buf_deinit(&got);
}

static void source_puts_special_tokens_around_both_sentences(void **state)
{
    struct source d;

    (void)state;
    assert_int_equal(load(HEADER "A b\tc.\tneutral\nx\tf\tcontradiction\n", 128, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 2);
    check_sample(&d, 1, " [CLS] [UNK] [SEP]|f [SEP]");
    check_sample(&d, 0, " [CLS] a b [SEP]|c . [SEP]");
    assert_int_equal(get(&d, 0).label, 2);
    assert_int_equal(get(&d, 1).label, 0);
    source_deinit(&d);
}

static void source_puts_one_sentence_into_one_segment(void **state)
{
    struct spec own = {.data.task = "SST2"};
    struct layout single;
    struct source_params p = {.layout = &single, .tokenizer = &tokenizer, .max_length = 8};
    struct source d;

    (void)state;
    layout_init(&single, &own);
    scratch_text("dev.tsv", "sentence\tlabel\na b\t1\na b c d e f a\t0\n");
    assert_int_equal(source_load(&p, scratch, &single.dev[0], &d, NULL), ERR_OK);
    check_sample(&d, 0, " [CLS] a b [SEP]");
    check_sample(&d, 1, " [CLS] a b c d e f [SEP]");
    assert_int_equal(get(&d, 0).label, 1);
    source_deinit(&d);
}

static void source_keeps_the_scores_of_a_regression(void **state)
{
    struct spec own = {.data.task = "STSB", .model.head = MODEL_HEAD_REGRESSION};
    struct layout scored;
    struct tokenizer cased = tokenizer;
    struct source_params p = {.layout = &scored, .tokenizer = &cased, .max_length = 8};
    struct source d;

    (void)state;
    cased.is_cased = true;
    layout_init(&scored, &own);
    scratch_text("dev.tsv", "sentence1\tsentence2\tscore\na\tB\t1.25\na\tb\t0.5\n");
    assert_int_equal(source_load(&p, scratch, &scored.dev[0], &d, NULL), ERR_OK);
    assert_true(get(&d, 0).score == 1.25f);
    assert_true(get(&d, 1).score == 0.5f);
    check_sample(&d, 0, " [CLS] a [SEP]|[UNK] [SEP]"); /* a cased model */
    source_deinit(&d);
}

struct row {
    const char *name, *pair, *tokens;
    int max_length;
};
static struct row rows[] = {
    {"source_shortens_the_longer_sentence_first", "a b c d e f\ta", " [CLS] a b c d [SEP]|a [SEP]",
     8},
    {"source_shortens_the_second_sentence_first_too", "a\ta b c d e f",
     " [CLS] a [SEP]|a b c d [SEP]", 8},
    {"source_shortens_the_first_of_two_equal_sentences", "a b c d\ta b c d",
     " [CLS] a b [SEP]|a b c [SEP]", 8},
    {"source_shortens_both_to_the_same_length", "a b c d e f\ta b c d",
     " [CLS] a b c [SEP]|a b c [SEP]", 9},
    {"source_keeps_a_pair_that_just_fits", "a b c\td e", " [CLS] a b c [SEP]|d e [SEP]", 8},
};

static void source_truncates(void **state)
{
    const struct row *row = *state;
    struct source d;
    char text[256];

    (void)snprintf(text, sizeof text, HEADER "%s\tneutral\n", row->pair);
    assert_int_equal(load(text, row->max_length, &d, NULL), ERR_OK);
    check_sample(&d, 0, row->tokens);
    source_deinit(&d);
}

static void source_truncates_as_the_reference_does(void **state)
{
    enum {
        N_LENGTHS = sizeof lengths / sizeof lengths[0],
        MOST = sizeof kept[0] / sizeof kept[0][0]
    };
    char text[512];

    (void)state;
    for (int i = 0; i < N_LENGTHS * MOST * MOST; i++) {
        int length = i / (MOST * MOST);
        int a = i / MOST % MOST;
        int b = i % MOST;
        const int *want = kept[length][a][b];
        struct source d;
        int n = snprintf(text, sizeof text, HEADER);

        for (int k = 0; k <= a; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, " a");
        n += snprintf(text + n, sizeof text - (size_t)n, "\t");
        for (int k = 0; k <= b; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, " b");
        (void)snprintf(text + n, sizeof text - (size_t)n, "\tneutral\n");
        assert_int_equal(load(text, lengths[length], &d, NULL), ERR_OK);
        assert_int_equal(get(&d, 0).n_first, want[0] + 2);
        assert_int_equal(get(&d, 0).length, want[0] + want[1] + 3);
        source_deinit(&d);
    }
}

static void source_counts_rows_without_a_label(void **state)
{
    struct source d;

    (void)state;
    assert_int_equal(load(HEADER "a\tb\t-\na\tb\tneutral\n", 16, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 1);
    assert_int_equal(d.n_unlabelled, 1);
    source_deinit(&d);
}

static void source_holds_many_rows(void **state)
{
    struct buf text = {.max = 1 << 22};
    struct source d;

    (void)state;
    assert_int_equal(buf_addf(&text, NULL, HEADER), ERR_OK);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buf_addf(&text, NULL, "a%s\tb c\t%s\n", i % 2 ? " d" : "",
                                  i % 3 ? "neutral" : "entailment"),
                         ERR_OK);
    assert_int_equal(load(text.data, 16, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 5000);
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(get(&d, i).length, 6 + i % 2);
        assert_int_equal(get(&d, i).label, i % 3 ? 2 : 1);
    }
    source_deinit(&d);
    buf_deinit(&text);
}

static void source_takes_its_lines_from_all_over_when_it_need_not_have_all(void **state)
{
    struct source_params p = {
        .layout = &layout, .tokenizer = &tokenizer, .max_length = 16, .most_bytes = 20000};
    struct buf text = {.max = 1 << 22};
    struct source d;
    int n_late = 0;

    (void)state;
    assert_int_equal(buf_addf(&text, NULL, HEADER), ERR_OK);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(buf_addf(&text, NULL, "a\tb\t%s\n", i < 10000 ? "neutral" : "entailment"),
                         ERR_OK);
    scratch_text("train.tsv", text.data);
    assert_int_equal(source_load(&p, scratch, &layout.train, &d, NULL), ERR_OK);
    assert_in_range(d.n_samples, 1000, 2000);
    for (size_t i = 0; i < d.n_samples; i++)
        n_late += get(&d, i).label == 1;
    assert_in_range(n_late, d.n_samples * 45 / 100, d.n_samples * 55 / 100);
    source_deinit(&d);
    buf_deinit(&text);
}

static void source_has_no_sample_behind_the_last(void **state)
{
    struct sequence s;
    struct source d;

    (void)state;
    assert_int_equal(load(HEADER "a\tb\tneutral\n", 16, &d, NULL), ERR_OK);
    assert_int_equal(source_get(&d, 1, 0, &s, NULL), ERR_INVALID);
    source_deinit(&d);
}

static void source_tells_a_missing_file_from_a_broken_one(void **state)
{
    struct source_params p = {.layout = &layout, .tokenizer = &tokenizer, .max_length = 16};
    struct source d;
    struct err err = {0};

    (void)state;
    (void)unlink(scratch_path("train.tsv"));
    assert_int_equal(source_load(&p, scratch, &layout.train, &d, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "for MNLI the data folder must contain train.tsv: add it"));
    assert_int_equal(source_load(&p, scratch, &layout.dev[0], &d, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "or correct spec.data.files.dev"));
    assert_int_equal(source_load(&p, scratch, &layout.test[0], &d, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "test_matched.tsv"));
    assert_non_null(strstr(err.text, "or correct spec.data.files.test"));
    assert_null(strstr(err.text, "train"));
    assert_int_equal(load(HEADER "a\tb\tperhaps\n", 16, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "train.tsv line 2"));
    assert_int_equal(load(HEADER "a\tb\t-\n", 16, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "no row with a label"));
}

static void source_refuses_lengths_without_room(void **state)
{
    struct source d;

    (void)state;
    assert_int_equal(load(HEADER "a\tb\tneutral\n", 7, &d, NULL), ERR_INVALID);
    assert_int_equal(load(HEADER "a\tb\tneutral\n", 8193, &d, NULL), ERR_INVALID);
}

/* Of the layout whose data were loaded last. */
static void check_stop(void)
{
    atomic_bool stops = true;
    struct source_params p = {
        .layout = &layout, .tokenizer = &tokenizer, .max_length = 16, .stops = &stops};
    struct source d;

    assert_int_equal(source_load(&p, scratch, &layout.train, &d, NULL), ERR_GONE);
    atomic_store(&stops, false);
    assert_int_equal(source_load(&p, scratch, &layout.train, &d, NULL), ERR_OK);
    source_deinit(&d);
}

static void source_of_rows_is_not_read_once_it_is_stopped(void **state)
{
    (void)state;
    scratch_text("train.tsv", HEADER "a\tb\tneutral\n");
    check_stop();
}

static int test_source(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(source_puts_special_tokens_around_both_sentences),
        cmocka_unit_test(source_puts_one_sentence_into_one_segment),
        cmocka_unit_test(source_keeps_the_scores_of_a_regression),
        cmocka_unit_test(source_truncates_as_the_reference_does),
        cmocka_unit_test(source_counts_rows_without_a_label),
        cmocka_unit_test(source_holds_many_rows),
        cmocka_unit_test(source_takes_its_lines_from_all_over_when_it_need_not_have_all),
        cmocka_unit_test(source_has_no_sample_behind_the_last),
        cmocka_unit_test(source_tells_a_missing_file_from_a_broken_one),
        cmocka_unit_test(source_refuses_lengths_without_room),
        cmocka_unit_test(source_of_rows_is_not_read_once_it_is_stopped),
    };
    struct suite suite = {.n = 0};
    int failed;

    (void)snprintf(spec.data.task, sizeof spec.data.task, "MNLI");
    layout_init(&layout, &spec);
    if (vocab_parse("vocab", VOCAB, strlen(VOCAB), &tokenizer.vocab, NULL) != ERR_OK)
        return 1;
    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, source_truncates);
    failed = suite_run(&suite, "source_rows", scratch_make, scratch_remove);
    vocab_deinit(&tokenizer.vocab);
    return failed;
}

/* --- text --- */

/* Words say where they are from: document, sentence. */
#define TEXT_VOCAB                                                                                 \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na1\na2\na3\na4\na5\nb1\nb2\nb3\nc1\nc2\nc3\nc4\nc5\nx\n"
#define A "a1 a1\na2 a2\na3 a3 a3\na4\na5 a5\n"
#define B "b1 b1 b1 b1\nb2\nb3\n"
#define C "c1\nc2\nc3\nc4\nc5\n"

enum { LENGTH = 10 }; /* chunks of up to 7 tokens */

static struct tokenizer tokenizer;
static struct spec spec;
static struct layout layout;

static enum err_code load_text(const char *task, const char *text, uint64_t seed,
                               struct source *out, struct err *err)
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

    if (load_text(task, text, 1, out, &err) != ERR_OK)
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
                      tokenizer.vocab.tokens[ids[k]]);
    (void)snprintf(out + n, 256 - (size_t)n, " %d", s.label);
}

static void check_text(struct source *c, size_t i, const char *want)
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
    check_text(&c, 0, "[CLS] a1 a1 a2 a2 a3 a3 a3 [SEP] 0");
    check_text(&c, 1, "[CLS] a4 a5 a5 [SEP] 0");
    check_text(&c, 2, "[CLS] b1 b1 b1 b1 b2 b3 c1 [SEP] 0");
    check_text(&c, 3, "[CLS] c2 c3 c4 c5 [SEP] 0");
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
    check_text(&c, 0, "[CLS] a1 [SEP] 0");
    check_text(&c, 1, "[CLS] x x x x x x x x [SEP] 0");
    check_text(&c, 2, "[CLS] a2 [SEP] 0");
    source_deinit(&c);
}

/* U+200B is dropped by the tokenizer: a line of it alone has no tokens. */
static void source_passes_over_lines_without_tokens(void **state)
{
    struct source c;

    (void)state;
    load_well("MaskedLM", "\xe2\x80\x8b\na1\n\xe2\x80\x8b\na2\r\n", &c);
    assert_int_equal(c.n_samples, 1);
    check_text(&c, 0, "[CLS] a1 a2 [SEP] 0");
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
    assert_int_equal(load_text("Pretraining", A "\n" B "\n" C, 2, &other, NULL), ERR_OK);
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

struct text_row {
    const char *name, *task, *text, *says;
};
static struct text_row text_rows[] = {
    {"source_refuses_a_text_without_words", "MaskedLM", "\n\n  \n", "train.txt: no words"},
    {"source_refuses_an_empty_file", "MaskedLM", "", "train.txt: no words"},
    {"source_of_pairs_needs_two_documents", "Pretraining", A, "train.txt: one document"},
    {"source_refuses_bytes_that_are_not_utf8", "MaskedLM", "a1\na\xff\n",
     "train.txt line 2: byte 2 is not UTF-8"},
};

static void source_refuses(void **state)
{
    const struct text_row *row = *state;
    struct err err = {0};
    struct source c;

    assert_int_equal(load_text(row->task, row->text, 0, &c, &err), ERR_INVALID);
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

static void source_of_text_is_not_read_once_it_is_stopped(void **state)
{
    struct source c;

    (void)state;
    load_well("MaskedLM", A B, &c); /* sets task and text */
    source_deinit(&c);
    check_stop();
}

static int test_text(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(source_ends_a_document_where_it_leaves_lines_out),
        cmocka_unit_test(source_groups_sentences_of_a_document),
        cmocka_unit_test(source_cuts_a_sentence_that_is_too_long),
        cmocka_unit_test(source_passes_over_lines_without_tokens),
        cmocka_unit_test(source_pairs_what_follows_and_what_does_not),
        cmocka_unit_test(source_gives_one_sentence_a_stranger),
        cmocka_unit_test(source_is_a_function_of_seed_epoch_and_chunk),
        cmocka_unit_test(source_says_what_is_missing),
        cmocka_unit_test(source_of_text_is_not_read_once_it_is_stopped),
    };
    struct suite suite = {.n = 0};
    int failed;

    if (vocab_parse("vocab", TEXT_VOCAB, strlen(TEXT_VOCAB), &tokenizer.vocab, NULL) != ERR_OK)
        return 1;
    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, text_rows, source_refuses);
    failed = suite_run(&suite, "source_text", scratch_make, scratch_remove);
    vocab_deinit(&tokenizer.vocab);
    return failed;
}

int main(void)
{
    return test_source() + test_text();
}
