/* Whose search for a plan is next. */
#include "run/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void a_namespace_rests_twice_as_long_as_it_has_searched(void **state)
{
    struct turns t = {0};

    (void)state;
    assert_int_equal(turns_wait_ms(&t, "a", 5000), 0);
    turns_add(&t, "a", 1000, 6000);
    assert_int_equal(turns_wait_ms(&t, "a", 6000), 2000);
    assert_int_equal(turns_wait_ms(&t, "a", 7999), 1);
    assert_int_equal(turns_wait_ms(&t, "a", 8000), 0);
    turns_deinit(&t);
}

static void another_one_that_has_not_searched_lately_is_next(void **state)
{
    struct turns t = {0};

    (void)state;
    turns_add(&t, "b", 1000, 1000);
    turns_add(&t, "a", 1000, 2000 + TURNS_FRESH_MS);
    assert_int_equal(turns_wait_ms(&t, "b", 2000 + TURNS_FRESH_MS), 2000); /* not for long enough */
    assert_int_equal(turns_wait_ms(&t, "b", 3000 + TURNS_FRESH_MS), 0);
    assert_int_equal(turns_wait_ms(&t, "c", 2000 + TURNS_FRESH_MS), 0);
    turns_add(&t, "c", 100, 2500 + TURNS_FRESH_MS);
    assert_int_equal(turns_wait_ms(&t, "c", 2500 + TURNS_FRESH_MS), 200);
    turns_deinit(&t);
}

static void short_searches_count_for_nothing(void **state)
{
    struct turns t = {0};

    (void)state;
    turns_add(&t, "a", TURNS_LONG_MS - 1, 1000);
    assert_int_equal(turns_wait_ms(&t, "a", 1000), 0);
    assert_int_equal(t.namespaces.n, 0);
    turns_deinit(&t);
}

static void the_number_of_namespaces_remembered_is_bounded(void **state)
{
    struct turns t = {0};
    char name[16];

    (void)state;
    for (int i = 0; i < 3 * TURNS_NAMESPACES_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        turns_add(&t, name, 1000, 1000);
        assert_int_equal(turns_wait_ms(&t, name, 1000), 2000);
        assert_true(t.namespaces.n <= TURNS_NAMESPACES_MAX);
    }
    turns_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_namespace_rests_twice_as_long_as_it_has_searched),
        cmocka_unit_test(another_one_that_has_not_searched_lately_is_next),
        cmocka_unit_test(short_searches_count_for_nothing),
        cmocka_unit_test(the_number_of_namespaces_remembered_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
