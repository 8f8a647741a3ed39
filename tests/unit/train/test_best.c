#include "train/best.h"

#include <math.h>

#include "suite.h"

#define MOST 8

static struct row {
    const char *name;
    enum task_metric by;
    int patience;
    double values[MOST]; /* of evaluations, 10 steps apart */
    int n;
    int64_t best; /* its step in the end */
    int ends;     /* the number of the evaluation that ends the run; 0: none does */
} rows[] = {
    {"best_is_the_highest", TASK_ACCURACY, 0, {0.5, 0.8, 0.7, 0.6}, 4, 20, 0},
    {"best_is_the_lowest_loss", TASK_EVAL_LOSS, 0, {0.5, 0.8, 0.4, 0.6}, 4, 30, 0},
    {"best_of_two_equal_ones_is_the_earlier", TASK_F1, 0, {0.5, 0.8, 0.8, 0.8}, 4, 20, 0},
    {"best_may_be_negative", TASK_MATTHEWS, 0, {-0.5, -0.1, -0.2}, 3, 20, 0},
    {"best_is_never_infinite", TASK_ACCURACY, 0, {0.1, (double)INFINITY, 0.05}, 3, 10, 0},
    {"best_is_never_nan", TASK_EVAL_LOSS, 0, {(double)NAN, 3, (double)NAN}, 3, 20, 0},
    {"best_may_be_none", TASK_EVAL_LOSS, 3, {(double)NAN, (double)NAN, (double)NAN}, 3, 0, 3},
    {"best_ends_after_as_many_in_a_row", TASK_ACCURACY, 2, {0.5, 0.8, 0.7, 0.8}, 4, 20, 4},
    {"best_counts_anew_after_a_better_one", TASK_ACCURACY, 2, {0.5, 0.4, 0.6, 0.5, 0.7}, 5, 50, 0},
    {"best_with_a_patience_of_one_ends_at_once", TASK_ACCURACY, 1, {0.5, 0.5}, 2, 10, 2},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct spec spec = {.training = {.patience = row->patience, .best_by = row->by}};
    struct progress_best best = {.step = 0};
    int ends = 0;

    for (int i = 0; i < row->n && ends == 0; i++) {
        bool is_best = best_take(&best, &spec, row->values[i], 2, 10 * (i + 1));

        assert_int_equal(is_best, best.step == 10 * (i + 1));
        assert_int_equal(is_best, best.n_since == 0);
        ends = best_ends(&best, &spec) ? i + 1 : 0;
    }
    assert_int_equal(best.step, row->best);
    assert_int_equal(best.lineage, row->best > 0 ? 2 : 0);
    assert_int_equal(ends, row->ends);
    if (row->best > 0)
        assert_true(best.value == row->values[row->best / 10 - 1]);
}

static void best_is_wanted_to_keep_weights_or_to_end(void **state)
{
    struct spec spec = {.training = {.patience = 0}};

    (void)state;
    assert_false(best_is_wanted(&spec));
    spec.training.patience = 1;
    assert_true(best_is_wanted(&spec));
    spec.training.patience = 0;
    spec.training.keeps_best = true;
    assert_true(best_is_wanted(&spec));
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(best_is_wanted_to_keep_weights_or_to_end),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, own);
    return suite_run(&suite, "best", NULL, NULL);
}
