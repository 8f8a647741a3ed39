#include "cli/tuner.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "suite.h"

/* --- Student's t, against the usual tables --- */

static struct quantile {
    const char *name;
    double tail;
    int n_free;
    double want;
} quantiles[] = {
    {"tuner_t_has_the_tables_value_for_1_degree_at_5_percent", 0.05, 1, 6.3138},
    {"tuner_t_has_the_tables_value_for_2_degrees_at_2.5_percent", 0.025, 2, 4.3027},
    {"tuner_t_has_the_tables_value_for_3_degrees_at_0.5_percent", 0.005, 3, 5.8409},
    {"tuner_t_has_the_tables_value_for_4_degrees_at_5_percent", 0.05, 4, 2.1318},
    {"tuner_t_has_the_tables_value_for_5_degrees_at_1_percent", 0.01, 5, 3.3649},
    {"tuner_t_has_the_tables_value_for_7_degrees_at_10_percent", 0.1, 7, 1.4149},
    {"tuner_t_has_the_tables_value_for_10_degrees_at_0.1_percent", 0.001, 10, 4.1437},
    {"tuner_t_has_the_tables_value_for_30_degrees_at_5_percent", 0.05, 30, 1.6973},
    {"tuner_t_has_the_tables_value_far_out", 0.0005, 1, 636.619},
    {"tuner_t_is_0_in_the_middle", 0.5, 4, 0},
};

static void check_quantile(void **state)
{
    const struct quantile *q = *state;

    assert_true(fabs(tuner_t(q->tail, q->n_free) - q->want) < 1e-4 * fmax(1, q->want));
}

/* --- runs that are made up --- */

/* Uniform in (0, 1]: the generator of Knuth's MMIX. */
static double uniform(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)((*seed >> 11) + 1) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
    double radius = sqrt(-2 * log(uniform(seed)));

    return radius * cos(2 * 3.14159265358979323846 * uniform(seed));
}

/* A world of runs: by candidate, then BSP, the mean metric; `spread` of each run about it. */
struct world {
    double means[TUNER_CANDIDATES + 1];
    double spread;
    double seconds[TUNER_CANDIDATES + 1];
    int failing; /* the first that fail to train */
    uint64_t seed;
};

static int index_of(int percent)
{
    int i = 0;

    while (i < TUNER_CANDIDATES && tuner_percents[i] != percent)
        i++;
    return i;
}

/* Tune in that world; returns the answer. */
static int tune(struct tuner *t, struct world *w, double margin, bool is_less_better, int n_pairs)
{
    struct tuner_run run;

    tuner_init(t, margin, is_less_better, n_pairs);
    while (tuner_next(t, &run)) {
        int i = index_of(run.percent);
        struct tuner_result result = {
            .is_trained = i >= w->failing, .metric = NAN, .seconds = w->seconds[i]};

        if (result.is_trained)
            result.metric = w->means[i] + w->spread * normal(&w->seed);
        tuner_note(t, &result);
    }
    return tuner_answer(t);
}

static struct row {
    const char *name;
    double means[TUNER_CANDIDATES + 1];
    double spread;
    double margin;
    bool is_less_better;
    int n_pairs;
    int failing;
    int answer; /* percent */
    int n_runs; /* 0: whatever it takes */
    enum tuner_verdict verdicts[TUNER_CANDIDATES];
} rows[] = {
    {.name = "tuner_takes_the_cheapest_where_all_are_alike",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0.01,
     .n_pairs = 5,
     .answer = 0,
     .n_runs = 6,
     .verdicts = {TUNER_GOOD}},
    {.name = "tuner_takes_the_first_that_is_good_though_a_later_one_is_not",
     .means = {0.6, 0.8, 0.6, 0.8, 0.8, 0.8},
     .margin = 0.01,
     .n_pairs = 5,
     .answer = 6,
     .n_runs = 9,
     .verdicts = {TUNER_WORSE, TUNER_GOOD}},
    {.name = "tuner_takes_bsp_where_all_are_worse",
     .means = {0.6, 0.7, 0.7, 0.7, 0.75, 0.8},
     .margin = 0.01,
     .n_pairs = 5,
     .answer = TUNER_BSP,
     .n_runs = 18,
     .verdicts = {TUNER_WORSE, TUNER_WORSE, TUNER_WORSE, TUNER_WORSE, TUNER_WORSE}},
    {.name = "tuner_takes_what_is_better_than_bsp",
     .means = {0.9, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0,
     .n_pairs = 5,
     .answer = 0,
     .n_runs = 6,
     .verdicts = {TUNER_GOOD}},
    {.name = "tuner_needs_more_than_no_difference_for_a_margin_of_0",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0,
     .n_pairs = 5,
     .answer = TUNER_BSP,
     .n_runs = 18,
     .verdicts = {TUNER_FUTILE, TUNER_FUTILE, TUNER_FUTILE, TUNER_FUTILE, TUNER_FUTILE}},
    {.name = "tuner_decides_after_two_pairs_if_there_are_no_more",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0.01,
     .n_pairs = 2,
     .answer = 0,
     .n_runs = 4,
     .verdicts = {TUNER_GOOD}},
    {.name = "tuner_takes_undecided_for_worse",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0,
     .n_pairs = 2,
     .answer = TUNER_BSP,
     .n_runs = 12,
     .verdicts = {TUNER_UNDECIDED, TUNER_UNDECIDED, TUNER_UNDECIDED, TUNER_UNDECIDED,
                  TUNER_UNDECIDED}},
    {.name = "tuner_takes_a_higher_loss_for_worse",
     .means = {0.7, 0.59, 0.5, 0.5, 0.5, 0.6},
     .margin = 0.01,
     .is_less_better = true,
     .n_pairs = 5,
     .answer = 6,
     .n_runs = 9,
     .verdicts = {TUNER_WORSE, TUNER_GOOD}},
    {.name = "tuner_drops_what_fails_to_train_at_once",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .margin = 0.01,
     .n_pairs = 5,
     .failing = 2,
     .answer = 12,
     .n_runs = 8,
     .verdicts = {TUNER_FAILED, TUNER_FAILED, TUNER_GOOD}},
    {.name = "tuner_sees_a_large_loss_of_accuracy_through_noise",
     .means = {0.6, 0.65, 0.8, 0.8, 0.8, 0.8},
     .spread = 0.002,
     .margin = 0.01,
     .n_pairs = 8,
     .answer = 12,
     .verdicts = {TUNER_WORSE, TUNER_WORSE, TUNER_GOOD}},
    {.name = "tuner_cannot_see_a_small_margin_through_noise",
     .means = {0.8, 0.8, 0.8, 0.8, 0.8, 0.8},
     .spread = 0.02,
     .margin = 0.001,
     .n_pairs = 3,
     .answer = TUNER_BSP,
     .n_runs = 18,
     .verdicts = {TUNER_UNDECIDED, TUNER_UNDECIDED, TUNER_UNDECIDED, TUNER_UNDECIDED,
                  TUNER_UNDECIDED}},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct world world = {.spread = row->spread, .failing = row->failing, .seed = 20210408};
    struct tuner t;

    memcpy(world.means, row->means, sizeof world.means);
    assert_int_equal(tune(&t, &world, row->margin, row->is_less_better, row->n_pairs), row->answer);
    for (int i = 0; i < TUNER_CANDIDATES; i++)
        assert_int_equal(tuner_summary(&t, i).verdict, row->verdicts[i]);
    if (row->n_runs > 0)
        assert_int_equal(tuner_count(&t), row->n_runs);
}

static void tuner_runs_bsp_first_and_once_per_seed(void **state)
{
    static const struct tuner_run want[] = {{TUNER_BSP, 0}, {0, 0}, {TUNER_BSP, 1}, {0, 1},
                                            {TUNER_BSP, 2}, {0, 2}, {6, 0},         {6, 1},
                                            {6, 2},         {12, 0}};
    struct tuner t;
    struct tuner_run run;

    (void)state;
    tuner_init(&t, 0.01, false, 4);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct tuner_result result = {.is_trained = true};

        assert_true(tuner_next(&t, &run));
        assert_int_equal(run.percent, want[i].percent);
        assert_int_equal(run.seed, want[i].seed);
        result.metric = run.percent == TUNER_BSP ? 0.8 : 0.5;
        tuner_note(&t, &result);
    }
}

/* Mean -0.5 and standard deviation 1, of three pairs; three looks of five pairs at 5%. */
static void tuner_bounds_the_mean_of_the_differences(void **state)
{
    static const double metrics[] = {9.5, 10.5, 8.5};
    struct tuner t;
    struct tuner_run run;
    struct tuner_summary s;
    double reach = tuner_t(0.05 / 3, 2) / sqrt(3);

    (void)state;
    tuner_init(&t, 4, false, 5);
    for (int i = 0; i < 6; i++) {
        assert_true(tuner_next(&t, &run));
        tuner_note(&t, &(struct tuner_result){
                           .is_trained = true,
                           .metric = run.percent == TUNER_BSP ? 10 : metrics[run.seed]});
    }
    s = tuner_summary(&t, 0);
    assert_int_equal(s.n_pairs, 3);
    assert_true(fabs(s.mean + 0.5) < 1e-12);
    assert_true(fabs(s.lower - (-0.5 - reach)) < 1e-9);
    assert_true(fabs(s.upper - (-0.5 + reach)) < 1e-9);
    assert_int_equal(s.verdict, TUNER_GOOD); /* -0.5 - 3.08 is above -4 */
}

/* Its best pair is within the margin of 1, but with two more like it the mean is still below. */
static void tuner_gives_up_when_the_best_pair_would_not_do(void **state)
{
    static const double metrics[] = {7, 10, 7.5};
    struct tuner t;
    struct tuner_run run;

    (void)state;
    tuner_init(&t, 1, false, 5);
    while (tuner_next(&t, &run) && run.percent != tuner_percents[1])
        tuner_note(&t, &(struct tuner_result){
                           .is_trained = true,
                           .metric = run.percent == TUNER_BSP ? 10 : metrics[run.seed]});
    assert_int_equal(tuner_summary(&t, 0).verdict, TUNER_FUTILE);
    assert_int_equal(tuner_count(&t), 6);
}

static void tuner_goes_on_while_the_best_pair_would_do(void **state)
{
    static const double metrics[] = {10.5, 9, 10.5};
    struct tuner t;
    struct tuner_run run;

    (void)state;
    tuner_init(&t, 1, false, 8);
    for (int i = 0; i < 6; i++) {
        assert_true(tuner_next(&t, &run));
        tuner_note(&t, &(struct tuner_result){
                           .is_trained = true,
                           .metric = run.percent == TUNER_BSP ? 10 : metrics[run.seed]});
    }
    assert_int_equal(tuner_summary(&t, 0).verdict, TUNER_OPEN);
    assert_true(tuner_next(&t, &run));
    assert_int_equal(run.seed, 3);
}

/* How often, of `n` tunings, ASP is taken where it is `loss` points below BSP. */
static int times_taken(int n, double loss, double margin, int n_pairs)
{
    struct world world = {.means = {80 - loss, 0, 0, 0, 0, 80}, .spread = 0.4, .seed = 11};
    int n_taken = 0;
    struct tuner t;

    for (int i = 0; i < n; i++)
        n_taken += tune(&t, &world, margin, false, n_pairs) == 0;
    return n_taken;
}

static void tuner_rarely_takes_what_is_worse_by_the_margin(void **state)
{
    (void)state;
    assert_in_range(times_taken(2000, 1, 1, 5), 1, 100); /* 5% of them */
    assert_in_range(times_taken(2000, 1, 1, 2), 1, 120); /* one look: as often as that, by chance */
}

static void tuner_mostly_takes_what_is_as_good(void **state)
{
    (void)state;
    assert_true(times_taken(2000, 0, 1, 5) > 1000);
    assert_true(times_taken(2000, 0, 1, 8) > 1700);
}

static void tuner_saves_the_time_that_the_answer_takes_less(void **state)
{
    struct world world = {.means = {0.5, 0.8, 0, 0, 0, 0.8}, .seconds = {10, 12, 0, 0, 0, 20}};
    struct tuner t;

    (void)state;
    assert_int_equal(tune(&t, &world, 0.01, false, 5), 6);
    assert_true(fabs(tuner_saving(&t) - 8) < 1e-9);
    assert_true(fabs(tuner_seconds(&t) - 3 * (10 + 12 + 20)) < 1e-9);
}

static void tuner_saves_nothing_with_bsp(void **state)
{
    struct world world = {.means = {0, 0, 0, 0, 0, 0.8}, .seconds = {1, 1, 1, 1, 1, 2}};
    struct tuner t;

    (void)state;
    assert_int_equal(tune(&t, &world, 0.01, false, 5), TUNER_BSP);
    assert_true(tuner_saving(&t) <= 0);
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(tuner_runs_bsp_first_and_once_per_seed),
        cmocka_unit_test(tuner_bounds_the_mean_of_the_differences),
        cmocka_unit_test(tuner_gives_up_when_the_best_pair_would_not_do),
        cmocka_unit_test(tuner_goes_on_while_the_best_pair_would_do),
        cmocka_unit_test(tuner_rarely_takes_what_is_worse_by_the_margin),
        cmocka_unit_test(tuner_mostly_takes_what_is_as_good),
        cmocka_unit_test(tuner_saves_the_time_that_the_answer_takes_less),
        cmocka_unit_test(tuner_saves_nothing_with_bsp),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, quantiles, check_quantile);
    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, own);
    return suite_run(&suite, "tuner", NULL, NULL);
}
