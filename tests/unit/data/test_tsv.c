#include "data/tsv.h"

#include "scratch.h"

/* The header of MNLI's train.tsv, and a row of it. */
#define HEADER                                                                                     \
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"             \
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
#define ROW(a, b, label)                                                                           \
    "0\t1n\t1n\tfiction\t( )\t( )\t(ROOT)\t(ROOT)\t" a "\t" b "\t-\t" label "\n"

static struct tsv *open_text(const char *text)
{
    struct tsv *t;
    struct err err;

    if (tsv_open(scratch_text("dev.tsv", text), &t, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return t;
}

static void tsv_finds_columns_by_name(void **state)
{
    struct tsv *t = open_text(HEADER ROW("It \"rains.", "It's wet", "entailment"));
    struct tsv_row row;
    bool end;

    (void)state;
    assert_int_equal(tsv_next(t, &row, &end, NULL), ERR_OK);
    assert_false(end);
    assert_int_equal(row.text_a_bytes, 10); /* nothing quotes */
    assert_memory_equal(row.text_a, "It \"rains.", 10);
    assert_memory_equal(row.text_b, "It's wet", 8);
    assert_int_equal(row.label, 1);
    assert_int_equal(row.line, 2);
    assert_int_equal(tsv_next(t, &row, &end, NULL), ERR_OK);
    assert_true(end);
    tsv_close(t);
}

static void tsv_takes_columns_in_any_order(void **state)
{
    struct tsv *t = open_text("gold_label\tsentence2\tx\tsentence1\r\nneutral\tB\tx\tA\r\n");
    struct tsv_row row;
    bool end;

    (void)state;
    assert_int_equal(tsv_next(t, &row, &end, NULL), ERR_OK);
    assert_memory_equal(row.text_a, "A", 1);
    assert_memory_equal(row.text_b, "B", 1);
    assert_int_equal(row.label, 2);
    tsv_close(t);
}

static void tsv_numbers_labels_as_glue_does(void **state)
{
    (void)state;
    assert_string_equal(tsv_label_name(0), "contradiction");
    assert_string_equal(tsv_label_name(1), "entailment");
    assert_string_equal(tsv_label_name(2), "neutral");
}

static void tsv_skips_and_counts_rows_without_agreement(void **state)
{
    struct tsv *t =
        open_text(HEADER ROW("a", "b", "-") ROW("c", "d", "neutral") ROW("e", "f", "-"));
    struct tsv_row row;
    bool end;

    (void)state;
    assert_int_equal(tsv_next(t, &row, &end, NULL), ERR_OK);
    assert_memory_equal(row.text_a, "c", 1);
    assert_int_equal(row.line, 3);
    assert_int_equal(tsv_next(t, &row, &end, NULL), ERR_OK);
    assert_true(end);
    assert_int_equal(tsv_skipped(t), 2);
    tsv_close(t);
}

struct row {
    const char *name, *text, *says;
};
static struct row rows[] = {
    {"tsv_refuses_an_empty_file", "", "dev.tsv: empty"},
    {"tsv_names_the_column_that_is_missing", "sentence1\tsentence2\tlabel\na\tb\tneutral\n",
     "dev.tsv line 1: no column \"gold_label\""},
    {"tsv_refuses_a_column_that_is_there_twice", "sentence1\tsentence1\tsentence2\tgold_label\n",
     "dev.tsv line 1: column \"sentence1\" is there twice"},
    {"tsv_refuses_an_unknown_label", HEADER ROW("a", "b", "neutral") ROW("a", "b", "maybe"),
     "dev.tsv line 3: gold_label \"maybe\" is none of"},
    {"tsv_refuses_a_label_with_a_space", HEADER ROW("a", "b", "neutral "),
     "dev.tsv line 2: gold_label \"neutral \""},
    {"tsv_refuses_an_empty_sentence", HEADER ROW("a", "", "neutral"),
     "dev.tsv line 2: sentence2 is empty"},
    {"tsv_refuses_a_blank_sentence", HEADER ROW("  ", "b", "neutral"),
     "dev.tsv line 2: sentence1 is empty"},
    {"tsv_refuses_a_row_with_a_column_too_few", HEADER "0\t1\tneutral\n",
     "dev.tsv line 2: 3 columns where the first line names 12"},
    {"tsv_refuses_a_row_with_a_column_too_many", HEADER ROW("a\tb", "b", "neutral"),
     "dev.tsv line 2: 13 columns"},
    {"tsv_refuses_an_empty_line", HEADER "\n" ROW("a", "b", "neutral"),
     "dev.tsv line 2: 1 columns"},
    {"tsv_refuses_bytes_that_are_not_utf8", HEADER ROW("a\xff", "b", "neutral"),
     "dev.tsv line 2: byte"},
};

static void tsv_refuses(void **state)
{
    const struct row *row = *state;
    struct err err = {0};
    struct tsv_row got;
    struct tsv *t = NULL;
    bool end = false;
    enum err_code rc = tsv_open(scratch_text("dev.tsv", row->text), &t, &err);

    while (rc == ERR_OK && !end)
        rc = tsv_next(t, &got, &end, &err);
    tsv_close(t);
    assert_int_equal(rc, ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void tsv_refuses_a_header_of_more_than_64_columns(void **state)
{
    char text[3000];
    struct err err = {0};
    struct tsv *t;

    (void)state;
    memset(text, '\t', sizeof text);
    assert_int_equal(tsv_open(scratch_write("dev.tsv", text, sizeof text), &t, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "3001 columns"));
}

static void tsv_says_that_the_file_is_missing(void **state)
{
    struct tsv *t;

    (void)state;
    assert_int_equal(tsv_open(scratch_path("none.tsv"), &t, NULL), ERR_NOT_FOUND);
}

int main(void)
{
    enum { N_ROWS = sizeof rows / sizeof rows[0], N_OWN = 6 };
    struct CMUnitTest tests[N_ROWS + N_OWN] = {
        cmocka_unit_test(tsv_finds_columns_by_name),
        cmocka_unit_test(tsv_takes_columns_in_any_order),
        cmocka_unit_test(tsv_numbers_labels_as_glue_does),
        cmocka_unit_test(tsv_skips_and_counts_rows_without_agreement),
        cmocka_unit_test(tsv_refuses_a_header_of_more_than_64_columns),
        cmocka_unit_test(tsv_says_that_the_file_is_missing),
    };

    for (size_t i = 0; i < N_ROWS; i++)
        tests[N_OWN + i] = (struct CMUnitTest){rows[i].name, tsv_refuses, NULL, NULL, &rows[i]};
    return _cmocka_run_group_tests("tsv", tests, N_OWN + N_ROWS, scratch_make, scratch_remove);
}
