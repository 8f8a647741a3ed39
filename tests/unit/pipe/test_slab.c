#include "pipe/slab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void lay_out(struct slab *s, float *areas[3])
{
    areas[0] = slab_floats(s, 3);
    areas[1] = slab_take(s, 1);
    areas[2] = slab_floats(s, 100);
}

static void slab_hands_out_what_it_counted_aligned_and_zeroed(void **state)
{
    struct slab count = {0};
    struct slab slab;
    float *areas[3];

    (void)state;
    lay_out(&count, areas);
    assert_null(areas[2]);
    assert_int_equal(slab_init(&slab, count.used, NULL), ERR_OK);
    lay_out(&slab, areas);
    assert_int_equal(slab.used, count.used);
    for (int i = 0; i < 3; i++)
        assert_int_equal((uintptr_t)areas[i] % SLAB_ALIGN_BYTES, 0);
    for (int i = 0; i < 100; i++)
        assert_true(areas[2][i] == 0);
    slab_deinit(&slab);
}

static void slab_init_says_when_there_is_not_enough_memory(void **state)
{
    struct slab slab = {0};
    struct err err;

    (void)state;
    assert_int_equal(slab_init(&slab, (size_t)1 << 52, &err), ERR_NO_MEMORY);
    slab_deinit(&slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slab_hands_out_what_it_counted_aligned_and_zeroed),
        cmocka_unit_test(slab_init_says_when_there_is_not_enough_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
