#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void utf8_step_gives_the_length_of_every_form(void **state)
{
    (void)state;
    assert_int_equal(utf8_step("a", 1), 1);
    assert_int_equal(utf8_step("\xc2\x80", 2), 2);
    assert_int_equal(utf8_step("\xe0\xa0\x80", 3), 3);
    assert_int_equal(utf8_step("\xf4\x8f\xbf\xbf", 4), 4);
}

static void utf8_step_refuses_what_is_no_character(void **state)
{
    static const char *const wrong[] = {"\x80",
                                        "\xc1\xbf",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xf8\x88\x80\x80\x80",
                                        "\xc3 ",
                                        "\xff"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(utf8_step(wrong[i], strlen(wrong[i])), 0);
}

static void utf8_step_does_not_read_past_the_end(void **state)
{
    (void)state;
    assert_int_equal(utf8_step("\xe2\x82\xac", 2), 0);
    assert_int_equal(utf8_step("\xe2\x82\xac", 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_step_gives_the_length_of_every_form),
        cmocka_unit_test(utf8_step_refuses_what_is_no_character),
        cmocka_unit_test(utf8_step_does_not_read_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
