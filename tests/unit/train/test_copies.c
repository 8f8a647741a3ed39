#include "train/copies.h"

#include <sys/stat.h>

#include "base/log.h"
#include "checkpoints.h"
#include "scratch.h"

#define TIMEOUT_MS 5000

/* Three stages of the tiny model; the first two are on one node, so both are kept by the third. */
static struct plan plan = {.revision = 1,
                           .n_workers = 3,
                           .micro_batches = 1,
                           .spec = {.training = {.batch_size = 2, .max_length = 4}},
                           .workers = {{.slot = 5, .incarnation = 1, .node = "a"},
                                       {.slot = 6, .incarnation = 1, .node = "a"},
                                       {.slot = 7, .incarnation = 1, .node = "b"}}};
static struct exchange exchanges[3];
static struct store stores[3];
static struct copies copies[3];

static int set_up(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    plan.spec.model = tiny_model;
    for (int s = 0; s < 3; s++) {
        struct exchange *x = &exchanges[s];
        struct link_params p = {.listen_address = "127.0.0.1",
                                .worker = (uint32_t)plan.workers[s].slot,
                                .incarnation = 1,
                                .edges = x->edges.list,
                                .dial_timeout_ms = TIMEOUT_MS};
        char name[16];

        (void)snprintf(name, sizeof name, "points-%d", s);
        assert_int_equal(store_open_own(&stores[s], scratch_path(name), NULL), ERR_OK);
        x->edges = edges_of(&plan, s);
        edges_add_copies(&x->edges, &plan, s);
        p.n_edges = x->edges.n;
        assert_int_equal(link_open(&p, &x->link, NULL), ERR_OK);
    }
    for (int s = 0; s < 3; s++)
        for (int peer = 0; peer < 3; peer++)
            if (peer != s)
                assert_int_equal(link_set_peer(exchanges[s].link, (uint32_t)plan.workers[peer].slot,
                                               "127.0.0.1", link_port(exchanges[peer].link), NULL),
                                 ERR_OK);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(link_wait_ready(exchanges[s].link, TIMEOUT_MS, NULL), ERR_OK);
        assert_int_equal(copies_open(&copies[s], &stores[s], &exchanges[s], NULL), ERR_OK);
    }
    return 0;
}

static int tear_down(void **state)
{
    for (int s = 0; s < 3; s++)
        copies_stop(&copies[s]);
    for (int s = 0; s < 3; s++)
        link_abort(exchanges[s].link, "the test is over");
    return scratch_remove(state);
}

static enum err_code write_and_copy(int64_t step, int stage, struct err *err)
{
    struct store_point point = checkpoints_point(1, step);

    assert_int_equal(checkpoints_write_stage(&stores[stage], &point, &three, stage, true, err),
                     ERR_OK);
    return copies_send(&copies[stage], &(struct store_shard){1, step, stage, 3}, err);
}

static void assert_parts(int stage, int n, int first_unit, int n_units)
{
    struct store_point found;

    assert_int_equal(store_list(&stores[stage], &found, 1), 1);
    assert_int_equal(found.at.n_parts, n);
    assert_int_equal(found.at.parts[0].first_unit, first_unit);
    assert_int_equal(found.at.parts[0].n_units, n_units);
}

static void copies_are_in_the_keepers_store_when_they_are_sent(void **state)
{
    struct err err = {.text = ""};

    (void)state;
    for (int stage = 2; stage >= 0; stage--)
        if (write_and_copy(20, stage, &err) != ERR_OK)
            fail_msg("%s", err.text);
    assert_parts(0, 2, 0, 1); /* its own, and that of stage 2 */
    assert_parts(1, 1, 1, 2);
    assert_parts(2, 1, 0, TINY_UNITS);
    for (int stage = 0; stage < 3; stage++)
        assert_int_equal(write_and_copy(30, stage, &err), ERR_OK);
    assert_parts(2, 1, 0, TINY_UNITS);
}

static void copies_that_cannot_be_written_are_reported_and_the_next_ones_can(void **state)
{
    struct err err = {.text = ""};

    (void)state;
    scratch_text("points-2/1-20", "a file where the folder should be");
    assert_int_equal(write_and_copy(20, 0, &err), ERR_IO);
    assert_non_null(strstr(err.text, "the copy cannot be written"));
    assert_int_equal(write_and_copy(30, 0, &err), ERR_OK);
}

static void copies_of_files_that_are_gone_leave_nothing(void **state)
{
    struct store_point found;
    struct err err = {.text = ""};

    (void)state;
    assert_int_equal(copies_send(&copies[0], &(struct store_shard){1, 20, 0, 3}, &err),
                     ERR_NOT_FOUND);
    assert_int_equal(store_list(&stores[2], &found, 1), 0);
    assert_int_equal(write_and_copy(30, 0, &err), ERR_OK);
}

static void *finish(void *arg)
{
    int s = *(const int *)arg;

    assert_int_equal(copies_finish(&copies[s], &exchanges[s], NULL), ERR_OK);
    return NULL;
}

static void copies_finish_when_no_stage_has_more(void **state)
{
    static const int stages[] = {0, 1, 2};
    pthread_t threads[3];

    (void)state;
    for (int s = 0; s < 3; s++)
        assert_int_equal(pthread_create(&threads[s], NULL, finish, (void *)(uintptr_t)&stages[s]),
                         0);
    for (int s = 0; s < 3; s++)
        (void)pthread_join(threads[s], NULL);
}

static void copies_that_are_stopped_send_nothing(void **state)
{
    (void)state;
    copies_stop(&copies[0]);
    copies_stop(&copies[0]);
    assert_int_equal(write_and_copy(20, 0, NULL), ERR_GONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copies_are_in_the_keepers_store_when_they_are_sent),
        TEST(copies_that_cannot_be_written_are_reported_and_the_next_ones_can),
        TEST(copies_of_files_that_are_gone_leave_nothing),
        TEST(copies_finish_when_no_stage_has_more),
        TEST(copies_that_are_stopped_send_nothing),
    };

    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
