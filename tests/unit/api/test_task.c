#include "api/task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void task_names_and_table_agree(void **state)
{
    int n = 0;

    (void)state;
    for (const char *const *name = task_names; *name; name++, n++) {
        assert_non_null(task_find(*name));
        assert_string_equal(task_find(*name)->name, *name);
    }
    assert_int_equal(n, 13);
    assert_null(task_find("mnli"));
    assert_null(task_find(""));
}

static void task_labels_fit_their_limits(void **state)
{
    (void)state;
    for (const char *const *name = task_names; *name; name++) {
        const struct task *t = task_find(*name);

        assert_in_range(t->n_labels, 0, TASK_LABELS_MAX);
        assert_int_equal(t->n_labels > 0, t->head == MODEL_HEAD_CLASSIFIER && !t->is_own);
        for (int i = 0; i < t->n_labels; i++)
            assert_true(strlen(t->labels[i]) < TASK_LABEL_BYTES);
    }
}

#define BIT(metric) (1u << TASK_##metric)

static void task_metrics_are_those_of_glue(void **state)
{
    (void)state;
    assert_int_equal(task_find("MNLI")->metrics, BIT(ACCURACY));
    assert_int_equal(task_find("QQP")->metrics, BIT(ACCURACY) | BIT(F1));
    assert_true(task_find("CoLA")->metrics & BIT(MATTHEWS));
    assert_int_equal(task_find("STSB")->metrics, BIT(PEARSON) | BIT(SPEARMAN));
}

static void task_ranks_by_official_metrics_only(void **state)
{
    (void)state;
    assert_true(task_is_ranked_by(task_find("CoLA"), "matthews"));
    assert_false(task_is_ranked_by(task_find("CoLA"), "accuracy"));
    assert_true(task_is_ranked_by(task_find("MRPC"), "f1"));
    assert_true(task_is_ranked_by(task_find("STSB"), "spearman"));
    assert_false(task_is_ranked_by(task_find("MNLI"), "evalLoss"));
    assert_false(task_is_ranked_by(task_find("MNLI"), ""));
    for (const char *const *name = task_names; *name; name++) {
        const struct task *t = task_find(*name);

        assert_true(t->ranked_by != 0);
        assert_int_equal(t->ranked_by & ~t->metrics, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_names_and_table_agree),
        cmocka_unit_test(task_labels_fit_their_limits),
        cmocka_unit_test(task_metrics_are_those_of_glue),
        cmocka_unit_test(task_ranks_by_official_metrics_only),
    };

    return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
