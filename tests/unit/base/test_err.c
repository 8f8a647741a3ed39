#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void err_wrap_puts_the_context_in_front(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(err_set(&err, ERR_IO, "line %d", 3), ERR_IO);
    assert_int_equal(err_wrap(&err, ERR_INVALID, "read %s", "plan.json"), ERR_INVALID);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.text, "read plan.json: line 3");
}

static void err_text_is_cut_off_and_never_overflows(void **state)
{
    struct err err;

    (void)state;
    err_set(&err, ERR_IO, "start");
    for (int i = 0; i < 200; i++)
        err_wrap(&err, ERR_IO, "context number %d", i);
    assert_int_equal(err.text[sizeof err.text - 1], '\0');
    assert_memory_equal(err.text, "context number 199: context", 27);
}

static void err_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_GONE, "x"), ERR_GONE);
    assert_int_equal(err_wrap(NULL, ERR_GONE, "x"), ERR_GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_wrap_puts_the_context_in_front),
        cmocka_unit_test(err_text_is_cut_off_and_never_overflows),
        cmocka_unit_test(err_may_be_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
