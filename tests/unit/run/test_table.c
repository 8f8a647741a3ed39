#include "run/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define KEYS 3000

static void table_that_is_empty_has_nothing(void **state)
{
    struct table t = {0};
    size_t place = 0;

    (void)state;
    assert_null(table_find(&t, "a"));
    assert_null(table_take(&t, "a"));
    assert_null(table_next(&t, &place, NULL));
    table_deinit(&t);
}

static void table_replaces_and_takes(void **state)
{
    struct table t = {0};
    int one = 1;
    int two = 2;

    (void)state;
    assert_int_equal(table_put(&t, "a", &one, NULL), ERR_OK);
    assert_int_equal(table_put(&t, "a", &two, NULL), ERR_OK);
    assert_int_equal(t.n, 1);
    assert_ptr_equal(table_take(&t, "a"), &two);
    assert_null(table_find(&t, "a"));
    assert_int_equal(t.n, 0);
    table_deinit(&t);
}

static void table_agrees_with_an_array_over_many_changes(void **state)
{
    static int values[KEYS];
    static bool is_in[KEYS];
    struct table t = {0};
    uint64_t seed = 7;
    size_t n = 0;
    size_t place = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char key[16];
        int k;

        seed = seed * UINT64_C(6364136223846793005) + 1;
        k = (int)((seed >> 33) % KEYS);
        (void)snprintf(key, sizeof key, "key-%d", k);
        if ((seed >> 62) != 0) {
            assert_ptr_equal(table_take(&t, key), is_in[k] ? &values[k] : NULL);
            n -= is_in[k];
            is_in[k] = false;
        } else {
            assert_int_equal(table_put(&t, key, &values[k], NULL), ERR_OK);
            n += !is_in[k];
            is_in[k] = true;
        }
        assert_int_equal(t.n, n);
    }
    for (int k = 0; k < KEYS; k++) {
        char key[16];

        (void)snprintf(key, sizeof key, "key-%d", k);
        assert_ptr_equal(table_find(&t, key), is_in[k] ? &values[k] : NULL);
    }
    while (table_next(&t, &place, NULL))
        n--;
    assert_int_equal(n, 0);
    assert_true(t.n_slots <= 8192); /* graves do not make it grow */
    table_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_that_is_empty_has_nothing),
        cmocka_unit_test(table_replaces_and_takes),
        cmocka_unit_test(table_agrees_with_an_array_over_many_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
