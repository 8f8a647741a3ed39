#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void lay_out(struct arena *s, float *areas[3])
{
    areas[0] = arena_floats(s, 3);
    areas[1] = arena_take(s, 1);
    areas[2] = arena_floats(s, 100);
}

static void arena_hands_out_what_it_counted_aligned_and_zeroed(void **state)
{
    struct arena count = {0};
    struct arena arena;
    float *areas[3];

    (void)state;
    lay_out(&count, areas);
    assert_null(areas[2]);
    assert_int_equal(arena_init(&arena, count.used, NULL), ERR_OK);
    lay_out(&arena, areas);
    assert_int_equal(arena.used, count.used);
    for (int i = 0; i < 3; i++)
        assert_int_equal((uintptr_t)areas[i] % ARENA_ALIGN_BYTES, 0);
    for (int i = 0; i < 100; i++)
        assert_true(areas[2][i] == 0);
    arena_deinit(&arena);
}

static void arena_init_says_when_there_is_not_enough_memory(void **state)
{
    struct arena arena = {0};
    struct err err;

    (void)state;
    assert_int_equal(arena_init(&arena, (size_t)1 << 52, &err), ERR_NO_MEMORY);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_hands_out_what_it_counted_aligned_and_zeroed),
        cmocka_unit_test(arena_init_says_when_there_is_not_enough_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
