#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define KEYS 3000

static void map_that_is_empty_has_nothing(void **state)
{
    struct map m = {0};
    size_t place = 0;

    (void)state;
    assert_null(map_find(&m, "a", 1));
    assert_null(map_get(&m, "a"));
    assert_null(map_take(&m, "a"));
    assert_null(map_next(&m, &place, NULL));
    map_deinit(&m);
}

static void map_replaces_and_takes(void **state)
{
    struct map m = {0};
    int one = 1;
    int two = 2;

    (void)state;
    assert_int_equal(map_put(&m, "a", &one, NULL), ERR_OK);
    assert_int_equal(map_put(&m, "a", &two, NULL), ERR_OK);
    assert_int_equal(m.n, 1);
    assert_ptr_equal(map_take(&m, "a"), &two);
    assert_null(map_get(&m, "a"));
    assert_int_equal(m.n, 0);
    map_deinit(&m);
    map_deinit(&m);
}

static void map_compares_all_bytes_of_a_key(void **state)
{
    struct map m = {0};
    struct map_entry *entry;

    (void)state;
    assert_int_equal(map_add(&m, "ab", 2, &entry, NULL), ERR_OK);
    assert_null(map_find(&m, "a", 1));
    assert_null(map_find(&m, "abc", 3));
    assert_null(map_find(&m, "ab\0", 3));
    assert_non_null(map_find(&m, "abc", 2));
    assert_int_equal(map_add(&m, "", 0, &entry, NULL), ERR_OK);
    assert_ptr_equal(map_find(&m, "abc", 0), entry);
    assert_string_equal(entry->key, "");
    map_deinit(&m);
}

/* Vocabularies number their words by it. */
static void map_keeps_the_order_in_which_keys_were_added(void **state)
{
    struct map m = {0};
    char key[16];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < KEYS; i++) {
            struct map_entry *entry;
            int len = snprintf(key, sizeof key, "key-%d", i);

            assert_int_equal(map_add(&m, key, (size_t)len, &entry, NULL), ERR_OK);
            assert_ptr_equal(entry, &m.entries[i]);
            assert_string_equal(entry->key, key);
            assert_int_equal(entry->value.number, round * i);
            entry->value.number = (uint64_t)i;
        }
    }
    assert_int_equal(m.n, KEYS);
    assert_int_equal(m.n_entries, KEYS);
    map_deinit(&m);
}

static void map_can_be_emptied_while_it_is_walked(void **state)
{
    static int values[KEYS];
    struct map m = {0};
    const char *key;
    size_t place = 0;
    char text[16];
    int n = 0;

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(text, sizeof text, "key-%d", i);
        assert_int_equal(map_put(&m, text, &values[i], NULL), ERR_OK);
    }
    for (const int *value; (value = map_next(&m, &place, &key)) != NULL; n++) {
        assert_ptr_equal(value, &values[n]);
        if (n % 3 > 0)
            assert_ptr_equal(map_take(&m, key), value);
    }
    assert_int_equal(n, KEYS);
    assert_int_equal(m.n, KEYS / 3);
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(text, sizeof text, "key-%d", i);
        assert_ptr_equal(map_get(&m, text), i % 3 > 0 ? NULL : &values[i]);
    }
    map_deinit(&m);
}

static void map_agrees_with_an_array_over_many_changes(void **state)
{
    static int values[KEYS];
    static bool is_in[KEYS];
    struct map m = {0};
    uint64_t seed = 7;
    size_t n = 0;
    size_t place = 0;
    char key[16];

    (void)state;
    for (int i = 0; i < 200000; i++) {
        int k;

        seed = seed * UINT64_C(6364136223846793005) + 1;
        k = (int)((seed >> 33) % KEYS);
        (void)snprintf(key, sizeof key, "key-%d", k);
        if ((seed >> 62) != 0) {
            assert_ptr_equal(map_take(&m, key), is_in[k] ? &values[k] : NULL);
            n -= is_in[k];
            is_in[k] = false;
        } else {
            assert_int_equal(map_put(&m, key, &values[k], NULL), ERR_OK);
            n += !is_in[k];
            is_in[k] = true;
        }
        assert_int_equal(m.n, n);
    }
    for (int k = 0; k < KEYS; k++) {
        (void)snprintf(key, sizeof key, "key-%d", k);
        assert_ptr_equal(map_get(&m, key), is_in[k] ? &values[k] : NULL);
    }
    while (map_next(&m, &place, NULL))
        n--;
    assert_int_equal(n, 0);
    assert_true(m.n_slots <= 8192); /* keys that were taken out do not make it grow */
    map_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_that_is_empty_has_nothing),
        cmocka_unit_test(map_replaces_and_takes),
        cmocka_unit_test(map_compares_all_bytes_of_a_key),
        cmocka_unit_test(map_keeps_the_order_in_which_keys_were_added),
        cmocka_unit_test(map_can_be_emptied_while_it_is_walked),
        cmocka_unit_test(map_agrees_with_an_array_over_many_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
