#include "data/source.h"

#include "golden_truncate.h"
#include "scratch.h"

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
                                  vocab_token(&tokenizer.vocab, s.ids[k])),
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

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0], N_OWN = 10 };
    struct CMUnitTest tests[N_ROWS + N_OWN] = {
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
    };
    int failed;

    (void)snprintf(spec.data.task, sizeof spec.data.task, "MNLI");
    layout_init(&layout, &spec);
    if (vocab_parse("vocab", VOCAB, strlen(VOCAB), &tokenizer.vocab, NULL) != ERR_OK)
        return 1;
    for (size_t i = 0; i < N_ROWS; i++)
        tests[N_OWN + i] =
            (struct CMUnitTest){rows[i].name, source_truncates, NULL, NULL, &rows[i]};
    failed =
        _cmocka_run_group_tests("source_rows", tests, N_OWN + N_ROWS, scratch_make, scratch_remove);
    vocab_deinit(&tokenizer.vocab);
    return failed;
}
