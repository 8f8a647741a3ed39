#include "wire/wsframe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint32_t key_of(const uint8_t bytes[4])
{
    uint32_t key;

    memcpy(&key, bytes, sizeof key);
    return key;
}

/* The masked "Hello" of RFC 6455, section 5.7, but for the opcode. */
static void wsframe_masks_as_the_standard_shows(void **state)
{
    const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};
    const uint8_t want[] = {0x82, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58};
    uint8_t bytes[WSFRAME_HEAD_MAX + 5];

    (void)state;
    memcpy(bytes + WSFRAME_HEAD_MAX, "Hello", 5);
    assert_int_equal(wsframe_wrap(bytes + WSFRAME_HEAD_MAX, 5, true, true, key_of(key)), 6);
    assert_memory_equal(bytes + WSFRAME_HEAD_MAX - 6, want, sizeof want);
}

static void wsframe_says_which_part_of_the_message_it_is(void **state)
{
    uint8_t bytes[WSFRAME_HEAD_MAX + 1] = {0};
    const uint8_t *head = bytes + WSFRAME_HEAD_MAX - 6;

    (void)state;
    (void)wsframe_wrap(bytes + WSFRAME_HEAD_MAX, 1, true, false, 0);
    assert_int_equal(head[0], 0x02);
    (void)wsframe_wrap(bytes + WSFRAME_HEAD_MAX, 1, false, false, 0);
    assert_int_equal(head[0], 0x00);
    (void)wsframe_wrap(bytes + WSFRAME_HEAD_MAX, 1, false, true, 0);
    assert_int_equal(head[0], 0x80);
}

static void check_length(size_t n, const uint8_t *want, size_t n_want)
{
    static uint8_t bytes[WSFRAME_HEAD_MAX + 70000];

    memset(bytes, 0, sizeof bytes);
    assert_int_equal(wsframe_wrap(bytes + WSFRAME_HEAD_MAX, n, true, true, 0x01020304),
                     1 + n_want + 4);
    assert_memory_equal(bytes + WSFRAME_HEAD_MAX - 4 - n_want, want, n_want);
    for (size_t i = 0; i < n; i++) /* zeros show the mask itself */
        assert_int_equal(bytes[WSFRAME_HEAD_MAX + i], bytes[WSFRAME_HEAD_MAX - 4 + i % 4]);
}

static void wsframe_writes_each_length_in_its_shortest_form(void **state)
{
    (void)state;
    check_length(0, (const uint8_t[]){0x80}, 1);
    check_length(125, (const uint8_t[]){0x80 | 125}, 1);
    check_length(126, (const uint8_t[]){0xfe, 0, 126}, 3);
    check_length(65535, (const uint8_t[]){0xfe, 0xff, 0xff}, 3);
    check_length(65536, (const uint8_t[]){0xff, 0, 0, 0, 0, 0, 1, 0, 0}, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wsframe_masks_as_the_standard_shows),
        cmocka_unit_test(wsframe_says_which_part_of_the_message_it_is),
        cmocka_unit_test(wsframe_writes_each_length_in_its_shortest_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
