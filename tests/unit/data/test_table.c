#include "data/table.h"

#include "scratch.h"
#include "suite.h"

/* The header of MNLI's train.tsv, and a row of it. */
#define HEADER                                                                                     \
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"             \
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
#define ROW(a, b, label)                                                                           \
    "0\t1n\t1n\tfiction\t( )\t( )\t(ROOT)\t(ROOT)\t" a "\t" b "\t-\t" label "\n"

static struct layout layout;

/* What the table needs to know of a job. */
static const struct layout *use_task(const char *task)
{
    static struct spec spec;

    spec = (struct spec){.data.labels = {.n = 2, .names = {"bad", "7"}}};
    (void)snprintf(spec.data.task, sizeof spec.data.task, "%s", task);
    (void)snprintf(spec.data.columns.text, sizeof spec.data.columns.text, "review");
    (void)snprintf(spec.data.columns.label, sizeof spec.data.columns.label, "stars");
    layout_init(&layout, &spec);
    return &layout;
}

static struct table *open_text(const char *text)
{
    const struct layout *l = use_task("MNLI");
    struct table *t;
    struct err err;

    if (table_open(scratch_text("dev.tsv", text), l, &l->dev[0], &t, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return t;
}

static void table_finds_columns_by_name(void **state)
{
    struct table *t = open_text(HEADER ROW("It \"rains.", "It's wet", "entailment"));
    struct table_row row;
    bool end;

    (void)state;
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_false(end);
    assert_int_equal(row.text_bytes, 10); /* nothing quotes */
    assert_memory_equal(row.text, "It \"rains.", 10);
    assert_memory_equal(row.pair, "It's wet", 8);
    assert_int_equal(row.label, 1);
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_true(end);
    table_close(t);
}

static void table_takes_columns_in_any_order(void **state)
{
    struct table *t = open_text("gold_label\tsentence2\tx\tsentence1\r\nneutral\tB\tx\tA\r\n");
    struct table_row row;
    bool end;

    (void)state;
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_memory_equal(row.text, "A", 1);
    assert_memory_equal(row.pair, "B", 1);
    assert_int_equal(row.label, 2);
    table_close(t);
}

static void table_skips_and_counts_rows_without_agreement(void **state)
{
    struct table *t =
        open_text(HEADER ROW("a", "b", "-") ROW("c", "d", "neutral") ROW("e", "f", "-"));
    struct table_row row;
    bool end;

    (void)state;
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_memory_equal(row.text, "c", 1);
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_true(end);
    assert_int_equal(t->n_unlabelled, 2);
    table_close(t);
}

static void table_gives_a_row_again_by_its_offset(void **state)
{
    struct table *t = open_text(HEADER ROW("a", "b", "-") ROW("c", "d e", "neutral") "\n");
    struct table_row row;
    struct table_row again;
    bool end;

    (void)state;
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    assert_int_equal(table_next(t, &again, &end, NULL), ERR_OK);
    assert_true(end);
    lines_settle(&t->lines);
    assert_int_equal(table_at(t, row.offset, &again, NULL), ERR_OK);
    assert_int_equal(again.pair_bytes, 3);
    assert_memory_equal(again.pair, "d e", 3);
    table_close(t);
}

/* All rows as "text|pair|label or score" lines; the code that ended it. */
static enum err_code read_all(const char *task, int split, const char *file, const char *text,
                              struct buf *out, struct err *err)
{
    const struct layout *l = use_task(task);
    struct layout_split s = split < 0 ? l->train : split == 0 ? l->dev[0] : l->test[0];
    struct table *t = NULL;
    struct table_row row;
    bool end = false;
    enum err_code rc;

    (void)snprintf(s.file, sizeof s.file, "%s", file);
    rc = table_open(scratch_text(file, text), l, &s, &t, err);
    while (rc == ERR_OK && (rc = table_next(t, &row, &end, err)) == ERR_OK && !end) {
        assert_int_equal(buf_addf(out, NULL, "%.*s|%.*s|", (int)row.text_bytes, row.text,
                                  (int)row.pair_bytes, row.pair ? row.pair : ""),
                         ERR_OK);
        assert_int_equal(l->n_labels > 0 ? buf_addf(out, NULL, "%d ", row.label)
                                         : buf_addf(out, NULL, "%g ", (double)row.score),
                         ERR_OK);
    }
    if (rc == ERR_OK)
        assert_int_equal(buf_addf(out, NULL, "broken %d", (int)t->n_broken), ERR_OK);
    table_close(t);
    return rc;
}

enum { TRAIN = -1, DEV, TEST };

struct good {
    const char *name, *task;
    int split;
    const char *file, *text, *rows;
};
static struct good goods[] = {
    {"table_reads_cola_without_a_header", "CoLA", TRAIN, "train.tsv",
     "gj04\t1\t\tOur \"friends\n"
     "bc01\t0\t*\tThey drank\n",
     "Our \"friends||1 They drank||0 broken 0"},
    {"table_reads_colas_test_with_a_header", "CoLA", TEST, "test.tsv",
     "index\tsentence\n0\tBill slept\n", "Bill slept||0 broken 0"},
    {"table_reads_sst2", "SST2", DEV, "dev.tsv", "sentence\tlabel\nfine work\t1\n",
     "fine work||1 broken 0"},
    {"table_reads_mrpc_behind_a_byte_order_mark", "MRPC", TRAIN, "train.tsv",
     "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t70\t71\tA \"b\tB\r\n",
     "A \"b|B|1 broken 0"},
    {"table_reads_mrpcs_test", "MRPC", TEST, "test.tsv",
     "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA\tB\n", "A|B|0 broken 0"},
    {"table_reads_stsb_scores", "STSB", DEV, "dev.tsv",
     "index\tsentence1\tsentence2\tscore\n0\tA\tB\t3.800\n1\tC\tD\t5\n", "A|B|3.8 C|D|5 broken 0"},
    {"table_leaves_out_broken_rows_of_qqp_and_keeps_empty_questions", "QQP", TRAIN, "train.tsv",
     "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
     "0\t1\t2\tA\tB\t1\n1\t3\t4\tC is\n\nD\tE\t0\n2\t5\t6\tF\t\t0\n",
     "A|B|1 F||0 broken 3"},
    {"table_reads_qnli", "QNLI", DEV, "dev.tsv",
     "index\tquestion\tsentence\tlabel\n0\tA\tB\tnot_entailment\n", "A|B|1 broken 0"},
    {"table_reads_rte_and_ends_at_empty_lines", "RTE", DEV, "dev.tsv",
     "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n\n\n", "A|B|0 broken 0"},
    {"table_reads_ones_own_columns", "Classification", TRAIN, "train.tsv",
     "stars\treview\n7\tgood\nbad\tno\n", "good||1 no||0 broken 0"},
    {"table_reads_json_lines", "Classification", TRAIN, "my.jsonl",
     "{\"stars\": 7, \"review\": \"a\\tb\"}\n{\"review\": \"c\", \"stars\": \"bad\"}\n",
     "a\tb||1 c||0 broken 0"},
    {"table_reads_scores_of_json_lines", "Regression", DEV, "dev.jsonl",
     "{\"review\": \"a\", \"stars\": -2.5}\n", "a||-2.5 broken 0"},
    {"table_reads_a_test_of_json_lines", "Regression", TEST, "t.jsonl", "{\"review\": \"a\"}\n",
     "a||0 broken 0"},
    {"table_reads_csv", "Classification", TRAIN, "train.csv",
     "stars,review,x\n7,good,\nbad,no \"way\" 5\" tall,1\n",
     "good||1 no \"way\" 5\" tall||0 broken 0"},
    {"table_reads_quoted_csv", "Classification", TRAIN, "train.csv",
     "\xef\xbb\xbf\"stars\",\"review\"\r\n"
     "\"7\",\"a, \"\"b\"\"\r\nc\"\r\n"
     "bad,\"\"\"d\"\"\"\r\n"
     "7,\"\te\"",
     "a, \"b\"\r\nc||1 \"d\"||0 \te||1 broken 0"},
    {"table_reads_scores_of_csv", "Regression", DEV, "dev.csv", "review,stars\n\"a\nb\",\"-2.5\"\n",
     "a\nb||-2.5 broken 0"},
    {"table_reads_a_test_of_csv", "Regression", TEST, "t.csv", "review\n\"a,\"\n\n",
     "a,||0 broken 0"},
};

static void table_reads(void **state)
{
    const struct good *row = *state;
    struct buf got = {.max = 4096};
    struct err err = {0};

    if (read_all(row->task, row->split, row->file, row->text, &got, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(buf_text(&got), row->rows);
    buf_deinit(&got);
}

struct bad {
    const char *name, *task, *file, *text, *says;
};
static struct bad bads[] = {
    {"table_refuses_an_empty_file", "MNLI", "dev.tsv", "", "dev.tsv: empty"},
    {"table_names_the_column_that_is_missing", "MNLI", "dev.tsv",
     "sentence1\tsentence2\tlabel\na\tb\tneutral\n", "dev.tsv line 1: no column \"gold_label\""},
    {"table_lists_the_columns_that_are_there", "Classification", "dev.tsv", "text\tlabel\n",
     "spec.data.columns another; it names text, label"},
    {"table_refuses_a_column_that_is_there_twice", "MNLI", "dev.tsv",
     "sentence1\tsentence1\tsentence2\tgold_label\n",
     "dev.tsv line 1: column \"sentence1\" appears twice"},
    {"table_refuses_an_unknown_label", "MNLI", "dev.tsv",
     HEADER ROW("a", "b", "neutral") ROW("a", "b", "maybe"),
     "dev.tsv line 3: gold_label \"maybe\" is not one of contradiction, entailment, neutral"},
    {"table_refuses_a_label_with_a_space", "MNLI", "dev.tsv", HEADER ROW("a", "b", "neutral "),
     "dev.tsv line 2: gold_label \"neutral \""},
    {"table_refuses_an_empty_sentence", "MNLI", "dev.tsv", HEADER ROW("a", "", "neutral"),
     "dev.tsv line 2: sentence2 is empty"},
    {"table_refuses_a_blank_sentence", "MNLI", "dev.tsv", HEADER ROW("  ", "b", "neutral"),
     "dev.tsv line 2: sentence1 is empty"},
    {"table_refuses_a_row_with_a_column_too_few", "MNLI", "dev.tsv", HEADER "0\t1\tneutral\n",
     "dev.tsv line 2: 3 columns where the first line has 12"},
    {"table_refuses_a_row_with_a_column_too_many", "MNLI", "dev.tsv",
     HEADER ROW("a\tb", "b", "neutral"), "dev.tsv line 2: 13 columns"},
    {"table_refuses_an_empty_line", "MNLI", "dev.tsv", HEADER "\n" ROW("a", "b", "neutral"),
     "dev.tsv line 2: empty"},
    {"table_refuses_bytes_that_are_not_utf8", "MNLI", "dev.tsv",
     HEADER ROW("a\xff", "b", "neutral"), "dev.tsv line 2: byte"},
    {"table_refuses_a_cola_row_with_too_few_columns", "CoLA", "dev.tsv", "1\tA\n",
     "the sentence should be in column 4"},
    {"table_refuses_a_score_that_is_no_number", "STSB", "dev.tsv",
     "sentence1\tsentence2\tscore\nA\tB\t3.8x\n", "line 2: score \"3.8x\" is not a number"},
    {"table_refuses_an_empty_score", "STSB", "dev.tsv", "sentence1\tsentence2\tscore\nA\tB\t\n",
     "line 2: score \"\" is not a number"},
    {"table_refuses_a_score_that_is_infinite", "STSB", "dev.tsv",
     "sentence1\tsentence2\tscore\nA\tB\t1e300\n", "line 2: score \"1e300\" is not a number"},
    {"table_refuses_a_score_in_words", "STSB", "dev.tsv",
     "sentence1\tsentence2\tscore\nA\tB\tnan\n", "line 2: score \"nan\" is not a number"},
    {"table_refuses_broken_json", "Classification", "d.jsonl", "{\"stars\": 7,\n",
     "d.jsonl line 1"},
    {"table_refuses_json_that_is_no_object", "Classification", "d.jsonl", "[1]\n",
     "d.jsonl line 1: not a JSON object"},
    {"table_refuses_json_without_the_text", "Classification", "d.jsonl",
     "{\"stars\": 7}\n{\"stars\": 7, \"x\": 1}\n",
     "d.jsonl line 1: member \"review\" must be a string; the object has stars"},
    {"table_refuses_a_json_label_with_a_fraction", "Classification", "d.jsonl",
     "{\"review\": \"a\", \"stars\": 7.5}\n", "member \"stars\" must be a string or a whole"},
    {"table_refuses_a_json_score_in_quotes", "Regression", "d.jsonl",
     "{\"review\": \"a\", \"stars\": \"1\"}\n", "member \"stars\" must be a number"},
    {"table_refuses_text_behind_a_quote", "Classification", "d.csv",
     "stars,review\n7,\"a\nb\"\n7,\"a\"b\n", "d.csv line 4: a quoted field must end with a quote"},
    {"table_refuses_a_quote_that_is_not_closed", "Classification", "d.csv",
     "stars,review\n7,a\n7,\"b\n7,c\n", "d.csv line 3: a quoted field must end"},
    {"table_refuses_csv_of_too_many_columns", "Classification", "d.csv", "stars,review\n7,a,b\n",
     "d.csv line 2: 3 columns where the first line has 2; is a comma missing"},
    {"table_refuses_csv_without_the_column", "Classification", "d.csv", "stars,\"rev\"\"iew\"\n",
     "no column \"review\"; the first line must name it, or spec.data.columns another; it names "
     "stars, rev\"iew"},
    {"table_refuses_a_json_score_that_is_infinite", "Regression", "d.jsonl",
     "{\"review\": \"a\", \"stars\": 1e200}\n", "is not a number"},
};

static void table_refuses(void **state)
{
    const struct bad *row = *state;
    struct buf got = {.max = 4096};
    struct err err = {0};

    assert_int_equal(read_all(row->task, DEV, row->file, row->text, &got, &err), ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
    buf_deinit(&got);
}

static void table_refuses_a_header_of_more_than_64_columns(void **state)
{
    const struct layout *l = use_task("MNLI");
    char text[3000];
    struct err err = {0};
    struct table *t;

    (void)state;
    memset(text, '\t', sizeof text);
    assert_int_equal(
        table_open(scratch_write("dev.tsv", text, sizeof text), l, &l->dev[0], &t, &err),
        ERR_INVALID);
    assert_non_null(strstr(err.text, "3001 columns"));
}

static void table_gives_a_row_of_csv_again_by_its_offset(void **state)
{
    const struct layout *l = use_task("Classification");
    struct layout_split s = l->train;
    struct table *t;
    struct table_row rows[2];
    struct table_row again;
    bool end;

    (void)state;
    (void)snprintf(s.file, sizeof s.file, "t.csv");
    scratch_text("t.csv", "stars,review\n7,\"a\n\"\"b\"\n7,c\n");
    assert_int_equal(table_open(scratch_path("t.csv"), l, &s, &t, NULL), ERR_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(table_next(t, &rows[i], &end, NULL), ERR_OK);
    lines_settle(&t->lines);
    assert_int_equal(table_at(t, rows[0].offset, &again, NULL), ERR_OK);
    assert_int_equal(again.text_bytes, 4);
    assert_memory_equal(again.text, "a\n\"b", 4);
    assert_int_equal(table_at(t, rows[1].offset, &again, NULL), ERR_OK);
    assert_memory_equal(again.text, "c", 1);
    table_close(t);
}

static void table_takes_the_beginning_of_csv_when_it_need_not_have_all(void **state)
{
    const struct layout *l = use_task("Classification");
    struct layout_split s = l->train;
    struct table *t;
    struct table_row row;
    bool end = false;
    int n = 0;

    (void)state;
    (void)snprintf(s.file, sizeof s.file, "t.csv");
    scratch_text("t.csv", "stars,review\n7,\"a\nb\"\n7,\"c\nd\"\n7,e\n");
    assert_int_equal(table_open(scratch_path("t.csv"), l, &s, &t, NULL), ERR_OK);
    table_thin(t, 24);
    while (table_next(t, &row, &end, NULL) == ERR_OK && !end)
        n++;
    assert_int_equal(n, 2);
    table_close(t);
}

static void table_refuses_a_quote_that_takes_in_a_megabyte(void **state)
{
    const struct layout *l = use_task("Classification");
    struct layout_split s = l->train;
    size_t n = (2 << 20) + 64;
    char *text = malloc(n);
    struct table *t;
    struct table_row row;
    struct err err = {0};
    bool end;

    (void)state;
    assert_non_null(text);
    memset(text, '\n', n);
    memcpy(text, "stars,review\n7,\"", 16);
    (void)snprintf(s.file, sizeof s.file, "t.csv");
    scratch_write("t.csv", text, n);
    free(text);
    assert_int_equal(table_open(scratch_path("t.csv"), l, &s, &t, NULL), ERR_OK);
    assert_int_equal(table_next(t, &row, &end, &err), ERR_INVALID);
    assert_non_null(
        strstr(err.text, "line 2: longer than 1048576 bytes; is a line end or a quote"));
    table_close(t);
}

static void table_says_that_the_file_is_missing(void **state)
{
    const struct layout *l = use_task("MNLI");
    struct table *t;

    (void)state;
    assert_int_equal(table_open(scratch_path("none.tsv"), l, &l->dev[0], &t, NULL), ERR_NOT_FOUND);
}

/* Somebody writes into the file while the job runs. */
static void table_at_refuses_what_is_no_row_any_more(void **state)
{
    struct table *t = open_text(HEADER ROW("a", "b", "neutral"));
    struct err err = {0};
    struct table_row row;
    bool end;
    FILE *f;

    (void)state;
    assert_int_equal(table_next(t, &row, &end, NULL), ERR_OK);
    f = fopen(scratch_path("dev.tsv"), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)row.offset, SEEK_SET), 0);
    assert_int_equal(fwrite("\n", 1, 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(table_at(t, row.offset, &row, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "dev.tsv changed"));
    table_close(t);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(table_finds_columns_by_name),
        cmocka_unit_test(table_takes_columns_in_any_order),
        cmocka_unit_test(table_skips_and_counts_rows_without_agreement),
        cmocka_unit_test(table_gives_a_row_again_by_its_offset),
        cmocka_unit_test(table_refuses_a_header_of_more_than_64_columns),
        cmocka_unit_test(table_gives_a_row_of_csv_again_by_its_offset),
        cmocka_unit_test(table_takes_the_beginning_of_csv_when_it_need_not_have_all),
        cmocka_unit_test(table_refuses_a_quote_that_takes_in_a_megabyte),
        cmocka_unit_test(table_says_that_the_file_is_missing),
        cmocka_unit_test(table_at_refuses_what_is_no_row_any_more),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, goods, table_reads);
    SUITE_ROWS(&suite, bads, table_refuses);
    return suite_run(&suite, "table", scratch_make, scratch_remove);
}
