#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void backoff_doubles_up_to_its_limit(void **state)
{
    static const int64_t want_ms[] = {0, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};

    (void)state;
    for (int i = 0; i < 9; i++)
        assert_int_equal(backoff_ms(i, 800, 30000), want_ms[i]);
    assert_int_equal(backoff_ms(1000000000, 800, 30000), 30000);
}

static void backoff_never_exceeds_a_limit_below_the_first_pause(void **state)
{
    (void)state;
    assert_int_equal(backoff_ms(1, 800, 500), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backoff_doubles_up_to_its_limit),
        cmocka_unit_test(backoff_never_exceeds_a_limit_below_the_first_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
