#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows_at_its_end),
        cmocka_unit_test(text_that_does_not_fit_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
