#include "data/predictions.h"

#include <math.h>
#include <sys/stat.h>

#include "scratch.h"

static struct spec spec;
static struct layout layout;

static struct predictions start(const char *task)
{
    struct predictions p;

    (void)snprintf(spec.data.task, sizeof spec.data.task, "%s", task);
    layout_init(&layout, &spec);
    predictions_init(&p, &layout);
    return p;
}

static void check_file(const char *name, const char *want)
{
    struct buf got = {.max = 4096};

    assert_int_equal(file_read(scratch_path(name), &got, NULL), ERR_OK);
    assert_string_equal(buf_text(&got), want);
    buf_deinit(&got);
}

static void predictions_name_labels_in_file_order(void **state)
{
    struct predictions p = start("MNLI");

    (void)state;
    assert_int_equal(predictions_add_label(&p, 2, NULL), ERR_OK);
    assert_int_equal(predictions_add_label(&p, 0, NULL), ERR_OK);
    assert_int_equal(predictions_add_label(&p, 1, NULL), ERR_OK);
    assert_int_equal(predictions_write(&p, scratch_path("new folder"), &layout.test[1], 3, NULL),
                     ERR_OK);
    check_file("new folder/MNLI-mm.tsv",
               "index\tprediction\n0\tneutral\n1\tcontradiction\n2\tentailment\n");
    predictions_deinit(&p);
}

static void predictions_of_a_regression_are_numbers(void **state)
{
    struct predictions p = start("STSB");
    struct err err = {0};

    (void)state;
    assert_int_equal(predictions_add_score(&p, 3.25f, NULL), ERR_OK);
    assert_int_equal(predictions_add_score(&p, -0.0625f, NULL), ERR_OK);
    assert_int_equal(predictions_add_score(&p, NAN, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "row 2 is not finite"));
    assert_int_equal(predictions_write(&p, scratch, &layout.test[0], 2, NULL), ERR_OK);
    check_file("STS-B.tsv", "index\tprediction\n0\t3.25\n1\t-0.0625\n");
    predictions_deinit(&p);
}

static void predictions_that_are_not_complete_leave_no_file(void **state)
{
    struct predictions p = start("RTE");
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(predictions_add_label(&p, 1, NULL), ERR_OK);
    assert_int_equal(predictions_write(&p, scratch, &layout.test[0], 2, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "RTE.tsv: 1 predictions for the 2 rows of test.tsv"));
    assert_int_not_equal(stat(scratch_path("RTE.tsv"), &st), 0);
    predictions_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_name_labels_in_file_order),
        cmocka_unit_test(predictions_of_a_regression_are_numbers),
        cmocka_unit_test(predictions_that_are_not_complete_leave_no_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
