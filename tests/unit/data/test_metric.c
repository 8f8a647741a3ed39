#include "data/metric.h"

#include <math.h>

#include "scratch.h"

struct golden {
    const char *name;
    uint32_t seed;
    int n, n_labels; /* 0: a regression */
    const char *how;
    double accuracy, matthews, f1, pearson, spearman;
};

#include "golden_metrics.h"
#include "suite.h"

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static bool is(const struct golden *g, const char *how)
{
    return strcmp(g->how, how) == 0;
}

static void add_class(struct metric *m, const struct golden *g, uint32_t a, uint32_t b)
{
    int n = g->n_labels;
    int truth = is(g, "noise") ? a % 10 == 0 : (int)a % n;
    int answer = is(g, "mostly")  ? (b % 4 ? truth : (int)(b / 4) % n)
                 : is(g, "noise") ? b % 8 == 0
                 : is(g, "wrong") ? (truth + 1) % n
                 : is(g, "same")  ? truth
                                  : 0;

    metric_add_class(m, answer, truth);
}

static void add_score(struct metric *m, const struct golden *g, uint32_t a, uint32_t b)
{
    float truth = is(g, "coarse") ? (float)(a % 26) / 4 : (float)a / 8192;
    float mostly = truth / 2 + (float)b / 16384;
    float answer = is(g, "mostly")   ? mostly
                   : is(g, "coarse") ? (float)(b % 5 + a % 26 / 8)
                   : is(g, "wrong")  ? -truth
                   : is(g, "far")    ? 128 + mostly
                                     : 2.5f;

    metric_add_score(m, answer, truth);
}

static double value_named(const struct task *task, const double *values, enum task_metric kind)
{
    enum task_metric list[TASK_METRICS];
    int n = task_metric_list(task, list);

    for (int i = 0; i < n; i++)
        if (list[i] == kind)
            return values[i];
    fail_msg("%s has no metric %d", task->name, (int)kind);
    return 0;
}

static void check(const struct task *task, const double *values, enum task_metric kind, double want)
{
    double got = value_named(task, values, kind);

    if (!(fabs(got - want) < 1e-12))
        fail_msg("metric %d: %.17g, not %.17g", (int)kind, got, want);
}

static void metric_is_the_references(void **state)
{
    const struct golden *g = *state;
    const struct task *task = task_find(g->n_labels > 0 ? "Classification" : "STSB");
    double values[TASK_METRICS];
    struct metric m;

    assert_int_equal(metric_init(&m, task, g->n_labels, (size_t)g->n, NULL), ERR_OK);
    for (int pass = 0; pass < 2; pass++) { /* the second must not remember the first */
        uint32_t seed = g->seed;

        metric_reset(&m);
        for (int i = 0; i < g->n; i++) {
            uint32_t a = draw(&seed);
            uint32_t b = draw(&seed);

            if (g->n_labels > 0)
                add_class(&m, g, a, b);
            else
                add_score(&m, g, a, b);
        }
        (void)metric_values(&m, 0.5, values);
        check(task, values, TASK_EVAL_LOSS, 0.5);
        if (g->n_labels > 0) {
            check(task, values, TASK_ACCURACY, g->accuracy);
            check(task, values, TASK_MATTHEWS, g->matthews);
            check(task, values, TASK_F1, g->f1);
        } else {
            check(task, values, TASK_PEARSON, g->pearson);
            check(task, values, TASK_SPEARMAN, g->spearman);
        }
    }
    metric_deinit(&m);
}

static void metric_of_nothing_is_zero(void **state)
{
    (void)state;
    for (int i = 0; task_names[i]; i++) {
        double values[TASK_METRICS];
        struct metric m;
        int n;

        assert_int_equal(metric_init(&m, task_find(task_names[i]), 2, 4, NULL), ERR_OK);
        n = metric_values(&m, 0, values);
        assert_in_range(n, 2, TASK_METRICS);
        for (int k = 0; k < n; k++)
            assert_true(values[k] == 0);
        metric_deinit(&m);
    }
}

/* A model that broke gives a number all the same, and no pair more than there is room for. */
static void metric_of_answers_that_are_not_finite_is_a_number(void **state)
{
    const struct task *task = task_find("STSB");
    double values[TASK_METRICS];
    struct metric m;

    (void)state;
    assert_int_equal(metric_init(&m, task, 0, 4, NULL), ERR_OK);
    for (int i = 0; i < 6; i++)
        metric_add_score(&m, i % 2 ? NAN : INFINITY, (float)i);
    assert_int_equal(metric_values(&m, 1, values), 3);
    assert_true(values[0] == 0);
    assert_true(isfinite(values[1]));
    metric_deinit(&m);
}

static void metric_counts_words_and_next_sentences(void **state)
{
    const struct task *task = task_find("Pretraining");
    double values[TASK_METRICS];
    struct metric m;

    (void)state;
    assert_int_equal(metric_init(&m, task, 0, 4, NULL), ERR_OK);
    for (int i = 0; i < 8; i++)
        metric_add_word(&m, i, i < 6 ? i : 0);
    metric_add_class(&m, 1, 1);
    metric_add_class(&m, 0, 1);
    assert_int_equal(metric_values(&m, 2, values), 3);
    check(task, values, TASK_ACCURACY, 0.75);
    check(task, values, TASK_NEXT_SENTENCE, 0.5);
    metric_deinit(&m);
}

static void metric_names_begin_with_what_a_task_is_ranked_by(void **state)
{
    enum task_metric list[TASK_METRICS];
    char name[METRIC_NAME_BYTES];

    (void)state;
    assert_int_equal(task_metric_list(task_find("CoLA"), list), 3);
    metric_name(list[0], "", name);
    assert_string_equal(name, "matthews");
    metric_name(list[1], "", name);
    assert_string_equal(name, "accuracy");
    metric_name(list[2], "Mismatched", name);
    assert_string_equal(name, "evalLossMismatched");
    for (int i = 0; task_names[i]; i++) {
        const struct task *task = task_find(task_names[i]);

        (void)task_metric_list(task, list);
        metric_name(list[0], "", name);
        assert_true(task_is_ranked_by(task, name));
    }
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(metric_of_nothing_is_zero),
        cmocka_unit_test(metric_of_answers_that_are_not_finite_is_a_number),
        cmocka_unit_test(metric_counts_words_and_next_sentences),
        cmocka_unit_test(metric_names_begin_with_what_a_task_is_ranked_by),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, goldens, metric_is_the_references);
    return suite_run(&suite, "metric", NULL, NULL);
}
