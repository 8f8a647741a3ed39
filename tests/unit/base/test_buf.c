#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void buf_text_is_closed_by_a_nul_after_every_call(void **state)
{
    struct buf b = {.max = 4096};

    (void)state;
    assert_string_equal(buf_text(&b), "");
    for (size_t n = 1; n <= 1000; n++) {
        assert_int_equal(buf_add(&b, "x", 1, NULL), ERR_OK);
        assert_int_equal(b.len, n);
        assert_int_equal(strlen(b.data), n);
    }
    assert_int_equal(buf_addf(&b, NULL, "%s-%d", "end", 7), ERR_OK);
    assert_string_equal(b.data + 1000, "end-7");
    buf_deinit(&b);
    assert_null(b.data);
}

static void buf_stops_at_its_ceiling_and_keeps_what_it_had(void **state)
{
    struct buf b = {.max = 5};
    struct err err;

    (void)state;
    assert_int_equal(buf_add(&b, "12345", 5, &err), ERR_OK);
    assert_int_equal(buf_add(&b, "6", 1, &err), ERR_LIMIT);
    assert_int_equal(buf_add(&b, "6", (size_t)-1, &err), ERR_LIMIT);
    assert_int_equal(buf_addf(&b, &err, "%d", 6), ERR_LIMIT);
    assert_string_equal(b.data, "12345");
    assert_int_equal(buf_add(&b, "", 0, &err), ERR_OK);
    buf_deinit(&b);
}

static void buf_take_hands_the_memory_over(void **state)
{
    struct buf b = {.max = 100};
    char *text;

    (void)state;
    assert_null(buf_take(&b));
    assert_int_equal(buf_add(&b, "abc", 3, NULL), ERR_OK);
    text = buf_take(&b);
    assert_string_equal(text, "abc");
    free(text);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_add(&b, "d", 1, NULL), ERR_OK);
    assert_string_equal(b.data, "d");
    buf_deinit(&b);
    buf_deinit(&b);
}

static void text_grows_at_its_end(void **state)
{
    char text[32] = "";

    (void)state;
    text_add(text, sizeof text, "%d nodes", 3);
    assert_string_equal(text, "3 nodes");
    text_add(text, sizeof text, "%s", "");
    assert_string_equal(text, "3 nodes");
    text_add(text, sizeof text, ", %s", "one of them slow");
    assert_string_equal(text, "3 nodes, one of them slow");
}

static void text_that_does_not_fit_is_cut_off(void **state)
{
    struct {
        char text[8];
        char behind;
    } at = {.text = "abc", .behind = '#'};

    (void)state;
    text_add(at.text, sizeof at.text, "%s", "defg"); /* just fits */
    assert_string_equal(at.text, "abcdefg");
    text_add(at.text, sizeof at.text, "%s", "h");
    assert_string_equal(at.text, "abcdefg");
    at.text[6] = '\0';
    text_add(at.text, sizeof at.text, "%d", 12345);
    assert_string_equal(at.text, "abcdef1");
    assert_int_equal(at.behind, '#');
}

/* --- arrays --- */

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
        cmocka_unit_test(buf_text_is_closed_by_a_nul_after_every_call),
        cmocka_unit_test(buf_stops_at_its_ceiling_and_keeps_what_it_had),
        cmocka_unit_test(buf_take_hands_the_memory_over),
        cmocka_unit_test(text_grows_at_its_end),
        cmocka_unit_test(text_that_does_not_fit_is_cut_off),
        cmocka_unit_test(array_keeps_its_items_when_it_grows),
        cmocka_unit_test(array_has_room_for_many_at_once),
        cmocka_unit_test(array_without_memory_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
