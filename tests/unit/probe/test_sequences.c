#include "probe/sequences.h"

#include <math.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "scratch.h"

#define VOCAB "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\n"

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    scratch_text("vocab.txt", VOCAB);
    scratch_text("train.tsv", "index\tsentence1\tsentence2\tgold_label\n"
                              "0\ta b\tc\tneutral\n"
                              "1\ta b a b a b a b a b\tc\tentailment\n");
    return 0;
}

static struct spec make_spec(void)
{
    return (struct spec){.data.task = "MNLI", .training.max_length = 12};
}

/* "A" is a word of the vocabulary only when capitals count; else it is "a", and two tokens long. */
static void sequences_have_the_case_of_the_model(void **state)
{
    struct spec spec = make_spec();
    struct sequences s;

    (void)state;
    spec.letters = SPEC_CASE_ABSENT;
    scratch_text("vocab.txt", VOCAB "Ab\n##b\n");
    scratch_text("train.tsv", "index\tsentence1\tsentence2\tgold_label\n0\tAb\tc\tneutral\n");
    scratch_text("tokenizer_config.json", "{\"do_lower_case\":false}");
    assert_int_equal(sequences_read(&spec, scratch, scratch, &s, NULL), ERR_OK);
    assert_int_equal(s.tokens[0], 5); /* [CLS] Ab [SEP] c [SEP] */
    scratch_text("tokenizer_config.json", "{\"do_lower_case\":true}");
    assert_int_equal(sequences_read(&spec, scratch, scratch, &s, NULL), ERR_OK);
    assert_int_equal(s.tokens[0], 6);
}

static void sequences_are_read_cut_as_training_cuts_them(void **state)
{
    struct spec spec = make_spec();
    struct sequences s;
    struct node_lengths l;

    (void)state;
    assert_int_equal(sequences_read(&spec, scratch, NULL, &s, NULL), ERR_OK);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.tokens[0], 6); /* [CLS] a b [SEP] c [SEP] */
    assert_int_equal(s.tokens[1], 12);
    l = sequences_lengths(&s);
    assert_true(l.mean == 9);
    assert_true(l.mean_square == (36 + 144) / 2.0);
}

/* Pairs of 5 tokens and, behind them, as many of 11. */
static void sequences_come_from_all_over_a_file_that_is_sorted(void **state)
{
    struct spec spec = make_spec();
    struct buf text = {.max = 1 << 22};
    struct sequences s;
    char sorted[64];

    (void)state;
    (void)snprintf(sorted, sizeof sorted, "%s/sorted", scratch);
    assert_int_equal(mkdir(sorted, 0700), 0);
    assert_int_equal(buf_addf(&text, NULL, "index\tsentence1\tsentence2\tgold_label\n"), ERR_OK);
    for (int i = 0; i < 40000; i++)
        assert_int_equal(
            buf_addf(&text, NULL, "%05d\t%s\tc\tneutral\n", i, i < 20000 ? "a" : "a b a b a b a"),
            ERR_OK);
    scratch_text("sorted/train.tsv", text.data);
    assert_int_equal(sequences_read(&spec, sorted, scratch, &s, NULL), ERR_OK);
    assert_true(s.n > 1000);
    assert_true(fabs(sequences_lengths(&s).mean - 8) < 0.5);
    buf_deinit(&text);
}

static void sequences_of_missing_data_are_an_error_and_leave_the_result(void **state)
{
    struct spec spec = make_spec();
    struct sequences s = {.n = 99};
    struct err err;

    (void)state;
    assert_int_equal(sequences_read(&spec, "/nowhere", NULL, &s, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "vocab.txt"));
    assert_int_equal(s.n, 99);
}

static void sequences_that_are_made_up_have_the_usual_mean_and_spread(void **state)
{
    struct spec spec = {.training.max_length = 128};
    struct sequences s;

    (void)state;
    sequences_make(&spec, &s);
    assert_in_range(s.tokens[0] + s.tokens[1], 77, 79); /* rounded */
    assert_in_range(s.tokens[1] - s.tokens[0], 38, 40); /* 1.25: half the mean above and below */
    assert_true(sequences_lengths(&s).mean == 0);
    spec.training.max_length = 16;
    sequences_make(&spec, &s);
    assert_int_equal(s.tokens[0], 16);
    assert_int_equal(s.tokens[1], 16);
}

/* Every pair of one short and one long: micro-batches of the same size, as training packs them. */
static void sequences_are_dealt_so_that_micro_batches_are_alike(void **state)
{
    struct sequences s = {.n = 4, .tokens = {10, 2, 9, 3}};
    int32_t starts[2][3];

    (void)state;
    assert_int_equal(sequences_deal(&s, 2, 2, &starts[0][0], NULL), ERR_OK);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(starts[k][0], 0);
        assert_int_equal(starts[k][2], 12);
    }
    assert_int_equal(starts[0][1], 10);
    assert_int_equal(starts[1][1], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_read_cut_as_training_cuts_them),
        cmocka_unit_test(sequences_come_from_all_over_a_file_that_is_sorted),
        cmocka_unit_test(sequences_of_missing_data_are_an_error_and_leave_the_result),
        cmocka_unit_test(sequences_that_are_made_up_have_the_usual_mean_and_spread),
        cmocka_unit_test(sequences_are_dealt_so_that_micro_batches_are_alike),
        cmocka_unit_test(sequences_have_the_case_of_the_model), /* changes the files */
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
