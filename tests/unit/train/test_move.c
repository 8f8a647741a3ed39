#include "train/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct revision r;
static struct move moves[MODEL_UNITS_MAX];

/* Three workers, slots 5, 6 and 7; the units come from 5 and from 8, which leaves. */
static int set_up(void **state)
{
    (void)state;
    r = (struct revision){
        .plan = {.revision = 2,
                 .n_workers = 3,
                 .workers = {{.slot = 5, .first_unit = 0, .n_units = 2},
                             {.slot = 6, .first_unit = 2, .n_units = 2},
                             {.slot = 7, .first_unit = 4, .n_units = 1}}},
        .resume = {.n_sources = 3,
                   .sources = {{.first_unit = 0, .n_units = 1, .kind = SOURCE_WORKER, .slot = 8},
                               {.first_unit = 1, .n_units = 3, .kind = SOURCE_WORKER, .slot = 5},
                               {.first_unit = 4, .n_units = 1, .kind = SOURCE_WORKER, .slot = 8}}},
        .n_leaving = 1,
        .leaving = {{.slot = 8, .incarnation = 1}}};
    return 0;
}

static void assert_moves(int self, const struct move *want, int n)
{
    assert_int_equal(move_list(&r, self, moves), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(moves[i].unit, want[i].unit);
        assert_int_equal(moves[i].from, want[i].from);
        assert_int_equal(moves[i].to, want[i].to);
    }
}

static void move_list_has_what_a_worker_gives_and_fetches_in_unit_order(void **state)
{
    (void)state;
    assert_moves(0, (const struct move[]){{0, 3, 0}, {2, 0, 1}, {3, 0, 1}}, 3);
    assert_moves(1, (const struct move[]){{2, 0, 1}, {3, 0, 1}}, 2);
    assert_moves(2, (const struct move[]){{4, 3, 2}}, 1);
    assert_moves(3, (const struct move[]){{0, 3, 0}, {4, 3, 2}}, 2);
}

/* A unit in a worker's own store travels like one in its memory. */
static void move_list_has_what_comes_from_others_disks(void **state)
{
    (void)state;
    r.resume.sources[1].kind = SOURCE_PEER;
    assert_moves(0, (const struct move[]){{0, 3, 0}, {2, 0, 1}, {3, 0, 1}}, 3);
    assert_moves(1, (const struct move[]){{2, 0, 1}, {3, 0, 1}}, 2);
}

static void move_list_is_empty_when_units_begin(void **state)
{
    (void)state;
    for (int i = 0; i < r.resume.n_sources; i++)
        r.resume.sources[i].kind = i % 2 ? SOURCE_RANDOM : SOURCE_PRETRAINED;
    for (int self = 0; self < 4; self++)
        assert_int_equal(move_list(&r, self, moves), 0);
}

static void move_opens_no_port_when_units_begin(void **state)
{
    struct move_params p = {.revision = &r, .self = 3};

    (void)state;
    r.resume.n_sources = 1;
    r.resume.sources[0] = (struct resume_source){.n_units = 5, .kind = SOURCE_RANDOM};
    assert_int_equal(move_run(&p, NULL), ERR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(move_list_has_what_a_worker_gives_and_fetches_in_unit_order),
        TEST(move_list_has_what_comes_from_others_disks),
        TEST(move_list_is_empty_when_units_begin),
        TEST(move_opens_no_port_when_units_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
