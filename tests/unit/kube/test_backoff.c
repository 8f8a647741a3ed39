#include "kube/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void backoff_doubles_from_800_ms_to_30_s(void **state)
{
    static const int64_t want_ms[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};

    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(backoff_ms(i + 1, 0), want_ms[i]);
    assert_int_equal(backoff_ms(1000000000, 0), 30000);
}

static void backoff_adds_up_to_as_much_again_by_chance(void **state)
{
    (void)state;
    for (uint32_t random = 0; random < 100000; random += 7) {
        int64_t ms = backoff_ms(2, random * 2654435761u);

        assert_true(ms >= 1600 && ms < 3200);
        ms = backoff_ms(9, random * 2654435761u);
        assert_int_equal(ms, BACKOFF_MAX_MS);
    }
    assert_int_equal(backoff_ms(1, 512), 1200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backoff_doubles_from_800_ms_to_30_s),
        cmocka_unit_test(backoff_adds_up_to_as_much_again_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
