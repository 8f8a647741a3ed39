#include "wire/hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct hello sample = {.from = 3,
                                    .to = 4,
                                    .from_incarnation = 6,
                                    .to_incarnation = 7,
                                    .edge = 5,
                                    .tensor_max_bytes = 1ull << 33,
                                    .meta_max_bytes = 12345,
                                    .nonce = {1, 2, 3},
                                    .mac = {4, 5, 6}};

static void hello_comes_back_as_it_was_encoded(void **state)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello got;

    (void)state;
    hello_encode(&sample, bytes);
    assert_int_equal(hello_decode(bytes, HELLO_BYTES, &got, NULL), ERR_OK);
    assert_int_equal(got.from, 3);
    assert_int_equal(got.to, 4);
    assert_int_equal(got.edge, 5);
    assert_int_equal(got.from_incarnation, 6);
    assert_int_equal(got.to_incarnation, 7);
    assert_true(got.tensor_max_bytes == sample.tensor_max_bytes);
    assert_int_equal(got.meta_max_bytes, 12345);
    assert_memory_equal(got.nonce, sample.nonce, sizeof got.nonce);
    assert_memory_equal(got.mac, sample.mac, sizeof got.mac);
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

static void hello_refuses_reserved_bytes(void **state)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello got;

    (void)state;
    hello_encode(&sample, bytes);
    for (int i = 32; i < 40; i++) {
        bytes[i] = 1;
        assert_int_equal(hello_decode(bytes, HELLO_BYTES, &got, NULL), ERR_PROTOCOL);
        bytes[i] = 0;
    }
}

static void hello_signature_covers_role_identity_fields_and_both_nonces(void **state)
{
    struct hello_context context = {
        .key = {{9}}, .is_dialer = true, .plan_hash = 7, .revision = 2, .peer_nonce = {8}};
    struct hello_context others[5];
    struct hello hello = sample;
    uint8_t bytes[HELLO_BYTES];

    (void)state;
    assert_int_equal(hello_sign(&hello, &context, NULL), ERR_OK);
    assert_true(hello_is_signed(&hello, &context));
    for (int i = 0; i < 5; i++)
        others[i] = context;
    others[0].key.bytes[1] = 1;
    others[1].is_dialer = false;
    others[2].plan_hash++;
    others[3].revision++;
    others[4].peer_nonce[31] = 1;
    for (int i = 0; i < 5; i++)
        assert_false(hello_is_signed(&hello, &others[i]));
    hello_encode(&hello, bytes);
    for (int i = 0; i < HELLO_BYTES; i++) { /* that decode at all */
        struct hello got;

        bytes[i] ^= 0x40;
        if (hello_decode(bytes, HELLO_BYTES, &got, NULL) == ERR_OK)
            assert_false(hello_is_signed(&got, &context));
        bytes[i] ^= 0x40;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_comes_back_as_it_was_encoded),
        cmocka_unit_test(hello_refuses_another_length),
        cmocka_unit_test(hello_signature_covers_role_identity_fields_and_both_nonces),
        cmocka_unit_test(hello_refuses_reserved_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
