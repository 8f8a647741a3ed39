#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void crc32c_gives_the_published_check_value(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_by_table(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void crc32c_is_the_same_by_table_for_every_length_and_alignment(void **state)
{
    uint8_t bytes[200];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t at = 0; at < 16; at++)
        for (size_t n = 0; at + n <= sizeof bytes; n++)
            assert_int_equal(crc32c(0, bytes + at, n), crc32c_by_table(0, bytes + at, n));
}

static void crc32c_continues_where_it_stopped(void **state)
{
    const char text[] = "The quick brown fox jumps over the lazy dog";
    size_t n = sizeof text - 1;

    (void)state;
    for (size_t cut = 0; cut <= n; cut++)
        assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, n - cut), crc32c(0, text, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_check_value),
        cmocka_unit_test(crc32c_is_the_same_by_table_for_every_length_and_alignment),
        cmocka_unit_test(crc32c_continues_where_it_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
