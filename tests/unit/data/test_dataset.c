#include "data/dataset.h"

#include "scratch.h"

#define VOCAB  "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\n.\n"
#define HEADER "sentence1\tsentence2\tgold_label\n"

static struct vocab vocab;

static enum err_code load(const char *text, int max_length, struct dataset *out, struct err *err)
{
    struct dataset_params p = {.vocab = &vocab, .max_length = max_length};

    scratch_text("train.tsv", text);
    return dataset_load(&p, scratch, DATASET_TRAIN_FILE, out, err);
}

static void check_sample(const struct dataset *d, size_t i, const char *want)
{
    struct buf got = {.max = 4096};

    for (uint64_t k = d->starts[i]; k < d->starts[i + 1]; k++)
        assert_int_equal(buf_addf(&got, NULL, "%s%s", k == d->starts[i] + d->second[i] ? "|" : " ",
                                  vocab_token(&vocab, d->ids[k])),
                         ERR_OK);
    assert_string_equal(buf_text(&got), want);
    buf_deinit(&got);
}

static void dataset_puts_special_tokens_around_both_sentences(void **state)
{
    struct dataset d;

    (void)state;
    assert_int_equal(load(HEADER "A b\tc.\tneutral\nx\tf\tcontradiction\n", 128, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 2);
    check_sample(&d, 0, " [CLS] a b [SEP]|c . [SEP]");
    check_sample(&d, 1, " [CLS] [UNK] [SEP]|f [SEP]");
    assert_int_equal(d.labels[0], 2);
    assert_int_equal(d.labels[1], 0);
    assert_int_equal(dataset_length(&d, 0), 7);
    assert_int_equal(d.length_max, 7);
    assert_int_equal(d.n_truncated, 0);
    dataset_deinit(&d);
}

struct row {
    const char *name, *pair, *tokens;
    int max_length;
};
static struct row rows[] = {
    {"dataset_shortens_the_longer_sentence_first", "a b c d e f\ta", " [CLS] a b c d [SEP]|a [SEP]",
     8},
    {"dataset_shortens_the_second_sentence_first_too", "a\ta b c d e f",
     " [CLS] a [SEP]|a b c d [SEP]", 8},
    {"dataset_shortens_the_second_of_two_equal_sentences", "a b c d\ta b c d",
     " [CLS] a b c [SEP]|a b [SEP]", 8},
    {"dataset_shortens_both_to_the_same_length", "a b c d e f\ta b c d",
     " [CLS] a b c [SEP]|a b c [SEP]", 9},
    {"dataset_keeps_a_pair_that_just_fits", "a b c\td e", " [CLS] a b c [SEP]|d e [SEP]", 8},
};

static void dataset_truncates(void **state)
{
    const struct row *row = *state;
    struct dataset d;
    char text[256];

    (void)snprintf(text, sizeof text, HEADER "%s\tneutral\n", row->pair);
    assert_int_equal(load(text, row->max_length, &d, NULL), ERR_OK);
    check_sample(&d, 0, row->tokens);
    assert_int_equal(d.n_truncated, dataset_length(&d, 0) == 8 && strlen(row->pair) == 9 ? 0 : 1);
    dataset_deinit(&d);
}

/* What BERT's _truncate_seq_pair does, token by token, against ours in one step. */
static void dataset_truncates_as_the_reference_does(void **state)
{
    char text[512];

    (void)state;
    for (int a = 1; a <= 12; a++) {
        for (int b = 1; b <= 12; b++) {
            struct dataset d;
            int left_a = a;
            int left_b = b;
            int n = snprintf(text, sizeof text, HEADER);

            for (int i = 0; i < a; i++)
                n += snprintf(text + n, sizeof text - (size_t)n, " a");
            n += snprintf(text + n, sizeof text - (size_t)n, "\t");
            for (int i = 0; i < b; i++)
                n += snprintf(text + n, sizeof text - (size_t)n, " b");
            (void)snprintf(text + n, sizeof text - (size_t)n, "\tneutral\n");
            while (left_a + left_b > 11 - 3)
                *(left_a > left_b ? &left_a : &left_b) -= 1;
            assert_int_equal(load(text, 11, &d, NULL), ERR_OK);
            assert_int_equal(d.second[0], left_a + 2);
            assert_int_equal(dataset_length(&d, 0), left_a + left_b + 3);
            dataset_deinit(&d);
        }
    }
}

static void dataset_counts_rows_without_a_label(void **state)
{
    struct dataset d;

    (void)state;
    assert_int_equal(load(HEADER "a\tb\t-\na\tb\tneutral\n", 16, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 1);
    assert_int_equal(d.n_skipped, 1);
    dataset_deinit(&d);
}

static void dataset_holds_many_rows(void **state)
{
    struct buf text = {.max = 1 << 22};
    struct dataset d;

    (void)state;
    assert_int_equal(buf_addf(&text, NULL, HEADER), ERR_OK);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buf_addf(&text, NULL, "a%s\tb c\t%s\n", i % 2 ? " d" : "",
                                  i % 3 ? "neutral" : "entailment"),
                         ERR_OK);
    assert_int_equal(load(text.data, 16, &d, NULL), ERR_OK);
    assert_int_equal(d.n_samples, 5000);
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(dataset_length(&d, i), 6 + i % 2);
        assert_int_equal(d.labels[i], i % 3 ? 2 : 1);
    }
    dataset_deinit(&d);
    buf_deinit(&text);
}

static void dataset_tells_a_missing_file_from_a_broken_one(void **state)
{
    struct dataset_params p = {.vocab = &vocab, .max_length = 16};
    struct dataset d;
    struct err err = {0};

    (void)state;
    assert_int_equal(dataset_load(&p, scratch, DATASET_DEV_FILE, &d, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "dev_matched.tsv"));
    assert_non_null(strstr(err.text, "add what is missing"));
    assert_int_equal(load(HEADER "a\tb\tperhaps\n", 16, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "train.tsv line 2"));
    assert_int_equal(load(HEADER "a\tb\t-\n", 16, &d, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "no row with a label"));
    assert_int_equal(dataset_load(&p, scratch_path("none"), DATASET_DEV_FILE, &d, NULL),
                     ERR_NOT_FOUND);
}

static void dataset_refuses_lengths_without_room(void **state)
{
    struct dataset d;

    (void)state;
    assert_int_equal(load(HEADER "a\tb\tneutral\n", 7, &d, NULL), ERR_INVALID);
    assert_int_equal(load(HEADER "a\tb\tneutral\n", 8193, &d, NULL), ERR_INVALID);
}

static void dataset_vocab_comes_from_the_same_folder(void **state)
{
    struct vocab v;
    struct err err = {0};

    (void)state;
    scratch_text("vocab.txt", VOCAB);
    assert_int_equal(dataset_vocab(scratch, &v, NULL), ERR_OK);
    assert_int_equal(v.n_tokens, 11);
    vocab_deinit(&v);
    assert_int_equal(dataset_vocab(scratch_path("none"), &v, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "vocab.txt"));
}

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0], N_OWN = 7 };
    struct CMUnitTest tests[N_ROWS + N_OWN] = {
        cmocka_unit_test(dataset_puts_special_tokens_around_both_sentences),
        cmocka_unit_test(dataset_truncates_as_the_reference_does),
        cmocka_unit_test(dataset_counts_rows_without_a_label),
        cmocka_unit_test(dataset_holds_many_rows),
        cmocka_unit_test(dataset_tells_a_missing_file_from_a_broken_one),
        cmocka_unit_test(dataset_refuses_lengths_without_room),
        cmocka_unit_test(dataset_vocab_comes_from_the_same_folder),
    };
    int failed;

    if (vocab_parse("vocab", VOCAB, strlen(VOCAB), &vocab, NULL) != ERR_OK)
        return 1;
    for (size_t i = 0; i < N_ROWS; i++)
        tests[N_OWN + i] =
            (struct CMUnitTest){rows[i].name, dataset_truncates, NULL, NULL, &rows[i]};
    failed =
        _cmocka_run_group_tests("dataset", tests, N_OWN + N_ROWS, scratch_make, scratch_remove);
    vocab_deinit(&vocab);
    return failed;
}
