#include "train/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tally tally;

static int set_up(void **state)
{
    (void)state;
    memset(&tally, 0, sizeof tally);
    return 0;
}

static void tally_gives_each_part_the_time_until_the_next(void **state)
{
    (void)state;
    tally_begin(&tally, 1000);
    tally_turn(&tally, TALLY_FORWARD, 1001);
    tally_turn(&tally, TALLY_WAITING, 1010);
    tally_turn(&tally, TALLY_FORWARD, 1200);
    tally_turn(&tally, TALLY_OTHER, 1230);
    assert_int_equal(tally.ns[TALLY_OTHER], 1);
    assert_int_equal(tally.ns[TALLY_FORWARD], 39);
    assert_int_equal(tally.ns[TALLY_WAITING], 190);
    assert_int_equal(tally.ns[TALLY_BACKWARD], 0);
}

static void tally_leaves_out_the_time_between_sessions(void **state)
{
    (void)state;
    tally_begin(&tally, 1000);
    tally_turn(&tally, TALLY_FORWARD, 1001); /* and broken off */
    tally_begin(&tally, 5000);
    tally_turn(&tally, TALLY_WAITING, 5002);
    assert_int_equal(tally.ns[TALLY_OTHER], 3);
    assert_int_equal(tally.ns[TALLY_FORWARD], 0);
}

static void tally_keeps_the_bytes_of_a_peer_over_sessions(void **state)
{
    static struct edges first = {.n = 3, .list = {{.peer = 7}, {.peer = 7}, {.peer = 999}}};
    static struct edges second = {.n = 1, .list = {{.peer = 7}}};

    (void)state;
    tally_connect(&tally, &first);
    assert_ptr_equal(first.list[0].traffic, first.list[1].traffic);
    first.list[0].traffic->sent_bytes += 5;
    assert_true(tally.peers[7].is_there && tally.peers[999].is_there);
    assert_false(tally.peers[0].is_there);
    tally_connect(&tally, &second);
    assert_true(tally.peers[7].is_there);
    assert_false(tally.peers[999].is_there);
    assert_int_equal(second.list[0].traffic->sent_bytes, 5);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tally_gives_each_part_the_time_until_the_next),
        TEST(tally_leaves_out_the_time_between_sessions),
        TEST(tally_keeps_the_bytes_of_a_peer_over_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
