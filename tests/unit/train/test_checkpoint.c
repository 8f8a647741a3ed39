#include "train/checkpoint.h"

#include "base/clock.h"
#include "scratch.h"
#include "tiny_model.h"

#define WAIT_MS 60000

static struct plan plan = {
    .revision = 1,
    .n_workers = 1,
    .workers = {{.n_units = TINY_UNITS}},
    .spec = {.model = TINY_MODEL, .training = {.optimizer = SPEC_OPTIMIZER_ADAMW, .seed = 3}}};
static struct loader loader;
static const struct history history;
static const struct progress progress = {.step = 4, .loss = 0.5};
static struct state s;
static struct store store;
static struct checkpoint c;

static int set_up(void **state)
{
    const struct checkpoint_params params = {
        .store = &store, .plan = &plan, .worker = 0, .state = &s, .loader = &loader};

    plan.spec.model.vocab = 2 << 20; /* the embeddings take several pieces */
    plan.spec.checkpoint.keep = 2;
    plan.saves_from_copy = true;
    s = (struct state){.lineage = 2,
                       .step = 4,
                       .updates = 4,
                       .origins = {.n = 1, .list = {{1, 3}}},
                       .end = {.revision = 1, .step = 4, .updates = 3, .scale = 1}};
    if (scratch_make(state) != 0 || store_open(&store, scratch, NULL) != ERR_OK ||
        state_add(&s, &plan.spec, 0, TINY_UNITS, NULL) != ERR_OK)
        return -1;
    return checkpoint_init(&c, &params, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    checkpoint_deinit(&c);
    state_deinit(&s);
    return scratch_remove(state);
}

/* All floats of the state are functions of the step. */
static void fill(int64_t step)
{
    for (int u = 0; u < TINY_UNITS; u++)
        for (size_t i = 0; i < s.units[u].count; i++) {
            s.units[u].params[i] = (float)(step * 100 + u);
            s.units[u].moment[i] = (float)(step * 100 + u + 10);
            s.units[u].variance[i] = (float)(step * 100 + u + 20);
        }
    s.step = s.end.step = step;
}

static void assert_all(const float *x, size_t n, int64_t value)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != (float)value)
            assert_float_equal(x[i], (float)value, 0); /* shows both */
}

static void assert_written(int64_t step)
{
    struct store_point point;
    struct store_reader *reader;

    assert_int_equal(store_list(&store, &point, 1), 1);
    assert_int_equal(point.at.end.step, step);
    assert_int_equal(point.at.lineage, 2);
    assert_int_equal(point.origins.n, 1);
    assert_int_equal(store_read(&store, &point.at, &plan.spec.model, true, &reader, NULL), ERR_OK);
    for (int u = 0; u < TINY_UNITS; u++) {
        size_t n = s.units[u].count;
        float *x = calloc(3 * n, sizeof *x);

        assert_non_null(x);
        assert_int_equal(store_read_unit(reader, u, x, x + n, x + 2 * n, NULL), ERR_OK);
        assert_all(x, n, step * 100 + u);
        assert_all(x + n, n, step * 100 + u + 10);
        assert_all(x + 2 * n, n, step * 100 + u + 20);
        free(x);
    }
    store_close(reader);
}

static void checkpoint_has_the_state_as_it_was_when_it_began(void **state)
{
    (void)state;
    /* The update comes sooner or later than the writer: what is written is the same. */
    for (int64_t step = 1; step <= 6; step++) {
        fill(step);
        checkpoint_begin(&c, 0, &progress, &history, true);
        (void)usleep((useconds_t)(step - 1) * 4000);
        assert_true(checkpoint_before_update(&c, WAIT_MS));
        fill(step + 1);
        assert_true(checkpoint_before_update(&c, WAIT_MS)); /* and one more before it is complete */
        fill(step + 2);
        assert_true(checkpoint_wait(&c, WAIT_MS));
        assert_written(step);
    }
}

/* Another checkpoint of the same state, without memory for copies. */
static void begin_without_copy(void)
{
    const struct checkpoint_params params = c.p;

    checkpoint_deinit(&c);
    plan.saves_from_copy = false;
    assert_int_equal(checkpoint_init(&c, &params, NULL), ERR_OK);
}

static void checkpoint_without_a_copy_holds_up_the_update(void **state)
{
    (void)state;
    begin_without_copy();
    for (int64_t step = 1; step <= 3; step++) {
        fill(step);
        checkpoint_begin(&c, 0, &progress, &history, true);
        while (!checkpoint_before_update(&c, 1))
            ;
        fill(step + 1);
        assert_true(checkpoint_before_update(&c, 0)); /* it has all it needs */
        fill(step + 2);
        assert_true(checkpoint_wait(&c, WAIT_MS));
        assert_written(step);
    }
}

/* A thread that never takes anything stands for the disk. */
static void checkpoint_that_comes_no_further_is_given_up(void **state)
{
    (void)state;
    begin_without_copy();
    fill(1);
    c.is_writing = true;
    c.taken_ms = clock_now_ms();
    assert_false(checkpoint_before_update(&c, 1));
    c.taken_ms -= CHECKPOINT_STILL_MS;
    assert_true(checkpoint_before_update(&c, 1));
    c.is_writing = false;
    checkpoint_begin(&c, 0, &progress, &history, true); /* the next one is another try */
    assert_true(checkpoint_before_update(&c, WAIT_MS));
    assert_true(checkpoint_wait(&c, WAIT_MS));
    assert_false(checkpoint_has_failed(&c));
    assert_written(1);
}

static void checkpoint_begin_waits_for_the_one_before(void **state)
{
    (void)state;
    fill(8);
    checkpoint_begin(&c, 0, &progress, &history, true);
    assert_true(checkpoint_before_update(&c, WAIT_MS));
    fill(9);
    checkpoint_begin(&c, 9, &progress, &history, true);
    assert_true(checkpoint_wait(&c, WAIT_MS));
    assert_written(9);
}

static void checkpoint_that_cannot_be_written_leaves_the_one_before(void **state)
{
    struct store_point point;

    (void)state;
    fill(1);
    checkpoint_begin(&c, 0, &progress, &history, true);
    assert_true(checkpoint_wait(&c, WAIT_MS));
    scratch_text("2-2", "a file where the folder should be");
    fill(2);
    checkpoint_begin(&c, 0, &progress, &history, true);
    assert_true(checkpoint_wait(&c, WAIT_MS));
    assert_int_equal(store_list(&store, &point, 1), 1);
    assert_int_equal(point.at.end.step, 1);
}

static void checkpoint_reads_an_earlier_one_and_leaves_the_state(void **state)
{
    static const struct resume_origin first = {2, 1};
    static const struct resume_origin none = {2, 7};
    struct weights_unit *units = NULL;

    (void)state;
    for (int64_t step = 1; step <= 2; step++) {
        fill(step);
        checkpoint_begin(&c, 0, &progress, &history, true);
        assert_true(checkpoint_before_update(&c, WAIT_MS));
    }
    fill(3);
    assert_int_equal(checkpoint_read(&c, &none, &units, NULL), ERR_NOT_FOUND);
    assert_int_equal(checkpoint_read(&c, &first, &units, NULL), ERR_OK);
    for (int u = 0; u < TINY_UNITS; u++) {
        assert_int_equal(units[u].count, s.units[u].count);
        assert_all(units[u].params, units[u].count, 100 + u);
        assert_all(s.units[u].params, units[u].count, 300 + u);
        assert_all(s.units[u].moment, units[u].count, 300 + u + 10);
        assert_all(s.units[u].variance, units[u].count, 300 + u + 20);
    }
    checkpoint_begin(&c, 0, &progress, &history, true); /* the memory is free again */
    assert_true(checkpoint_before_update(&c, WAIT_MS));
    fill(4);
    assert_true(checkpoint_wait(&c, WAIT_MS));
    assert_written(3);
}

static void checkpoint_names_the_best_evaluation(void **state)
{
    const struct progress with_best = {.step = 8, .loss = 0.5, .best = {0.75, 1, 3, 2}};
    struct store_point point;

    (void)state;
    fill(8);
    checkpoint_begin(&c, 8, &with_best, &history, true);
    assert_true(checkpoint_wait(&c, WAIT_MS));
    assert_int_equal(store_list(&store, &point, 1), 1);
    assert_int_equal(point.best.lineage, 1);
    assert_int_equal(point.best.step, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(checkpoint_has_the_state_as_it_was_when_it_began),
        TEST(checkpoint_without_a_copy_holds_up_the_update),
        TEST(checkpoint_that_comes_no_further_is_given_up),
        TEST(checkpoint_begin_waits_for_the_one_before),
        TEST(checkpoint_that_cannot_be_written_leaves_the_one_before),
        TEST(checkpoint_reads_an_earlier_one_and_leaves_the_state),
        TEST(checkpoint_names_the_best_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
