#include "api/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct hmac_key key = {{1, 2, 3}};

static void signature_covers_method_path_and_body(void **state)
{
    struct signature_request r = {"POST", "/v1/peers", "{}", 2};
    struct signature_request others[] = {{"GET", "/v1/peers", "{}", 2},
                                         {"POST", "/v1/peer", "s{}", 3},
                                         {"POST", "/v1/peers", "{}", 1},
                                         {"POST", "/v1/peers", "[]", 2}};
    struct hmac_key other = {{1, 2, 4}};
    char text[HMAC_TEXT_BYTES];

    (void)state;
    assert_int_equal(signature_make(&key, &r, text, NULL), ERR_OK);
    assert_true(signature_check(&key, &r, text));
    assert_false(signature_check(&other, &r, text));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(signature_check(&key, &others[i], text));
}

static void signature_of_a_head_covers_method_path_and_length(void **state)
{
    struct signature_request r = {"POST", "/v1/revision", NULL, 70000};
    struct signature_request others[] = {{"PUT", "/v1/revision", NULL, 70000},
                                         {"POST", "/v1/halt", NULL, 70000},
                                         {"POST", "/v1/revision", NULL, 70001}};
    struct signature_request whole = {"POST", "/v1/revision", "{}", 2};
    char text[HMAC_TEXT_BYTES];

    (void)state;
    assert_int_equal(signature_make_head(&key, &r, text, NULL), ERR_OK);
    assert_true(signature_check_head(&key, &r, text));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(signature_check_head(&key, &others[i], text));
    assert_int_equal(signature_make_head(&key, &whole, text, NULL), ERR_OK);
    assert_false(signature_check(&key, &whole, text)); /* one is not good for the other */
}

static void signature_is_refused_when_it_is_none(void **state)
{
    struct signature_request r = {"GET", "/v1/status", NULL, 0};
    char text[HMAC_TEXT_BYTES];

    (void)state;
    assert_int_equal(signature_make(&key, &r, text, NULL), ERR_OK);
    assert_false(signature_check(&key, &r, ""));
    assert_false(signature_check(&key, &r, "deadbeef"));
    text[63] = '\0';
    assert_false(signature_check(&key, &r, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signature_covers_method_path_and_body),
        cmocka_unit_test(signature_of_a_head_covers_method_path_and_length),
        cmocka_unit_test(signature_is_refused_when_it_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
