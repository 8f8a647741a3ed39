#include "wire/hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct hello sample = {.from_stage = 3,
                                    .to_stage = 4,
                                    .n_stages = 9,
                                    .is_backward = true,
                                    .plan_hash = 0x1122334455667788,
                                    .tensor_max_bytes = 1ull << 33,
                                    .meta_max_bytes = 12345};

static void hello_comes_back_as_it_was_encoded(void **state)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello got;

    (void)state;
    hello_encode(&sample, bytes);
    assert_int_equal(hello_decode(bytes, HELLO_BYTES, &got, NULL), ERR_OK);
    assert_int_equal(got.from_stage, 3);
    assert_int_equal(got.to_stage, 4);
    assert_int_equal(got.n_stages, 9);
    assert_true(got.is_backward);
    assert_true(got.plan_hash == sample.plan_hash);
    assert_true(got.tensor_max_bytes == sample.tensor_max_bytes);
    assert_int_equal(got.meta_max_bytes, 12345);
}

static void hello_refuses_another_length(void **state)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello got;

    (void)state;
    hello_encode(&sample, bytes);
    assert_int_equal(hello_decode(bytes, HELLO_BYTES - 1, &got, NULL), ERR_PROTOCOL);
    assert_int_equal(hello_decode(bytes, 0, &got, NULL), ERR_PROTOCOL);
}

static void hello_refuses_an_edge_that_is_neither_forward_nor_backward(void **state)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello got;

    (void)state;
    hello_encode(&sample, bytes);
    bytes[12] = 2;
    assert_int_equal(hello_decode(bytes, HELLO_BYTES, &got, NULL), ERR_PROTOCOL);
    bytes[12] = 1;
    bytes[HELLO_BYTES - 1] = 1;
    assert_int_equal(hello_decode(bytes, HELLO_BYTES, &got, NULL), ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_comes_back_as_it_was_encoded),
        cmocka_unit_test(hello_refuses_another_length),
        cmocka_unit_test(hello_refuses_an_edge_that_is_neither_forward_nor_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
