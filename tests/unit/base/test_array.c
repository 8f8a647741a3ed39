#include "base/array.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void array_keeps_its_items_when_it_grows(void **state)
{
    int *items = NULL;
    size_t cap = 0;
    int n_moves = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        size_t before = cap;

        assert_int_equal(array_reserve(&items, sizeof *items, &cap, (size_t)i + 1, NULL), ERR_OK);
        assert_true(cap > (size_t)i);
        n_moves += cap != before;
        items[i] = i;
    }
    for (int i = 0; i < 10000; i++)
        assert_int_equal(items[i], i);
    assert_in_range(n_moves, 2, 16);
    free(items);
}

static void array_has_room_for_many_at_once(void **state)
{
    char *items = NULL;
    size_t cap = 0;

    (void)state;
    assert_int_equal(array_reserve(&items, 1, &cap, 5000, NULL), ERR_OK);
    assert_true(cap >= 5000);
    items[4999] = 'x';
    free(items);
}

static void array_without_memory_stays_as_it_was(void **state)
{
    double *items = NULL;
    size_t cap = 0;
    struct err err;

    (void)state;
    assert_int_equal(array_reserve(&items, sizeof *items, &cap, 3, NULL), ERR_OK);
    items[2] = 3;
    assert_int_equal(array_reserve(&items, sizeof *items, &cap, SIZE_MAX / 4, &err), ERR_NO_MEMORY);
    assert_true(items[2] == 3);
    assert_in_range(cap, 3, 1000);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array_keeps_its_items_when_it_grows),
        cmocka_unit_test(array_has_room_for_many_at_once),
        cmocka_unit_test(array_without_memory_stays_as_it_was),
    };

    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
