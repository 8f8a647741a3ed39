#include "wire/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "page_end.h"
#include "suite.h"

#define META_MAX   1000
#define TENSOR_MAX 5000000000ull

static const struct frame_limits limits = {
    .kinds = FRAME_KIND_BIT(FRAME_DATA) | FRAME_KIND_BIT(FRAME_HELLO) | FRAME_KIND_BIT(FRAME_BYE),
    .meta_max_bytes = META_MAX,
    .tensor_max_bytes = TENSOR_MAX};

static const struct frame_header sample = {
    .kind = FRAME_DATA,
    .type = 0xab,
    .flags = 0xcd,
    .plan_hash = 0xfedcba9876543210,
    .revision = 0x89abcdef,
    .step = 0x1122334455667788,
    .microbatch = 0xdeadbeef,
    .meta_bytes = 999,
    .tensor_bytes = 4999999999,
    .payload_crc = 0xcafef00d,
};

static void frame_comes_back_as_it_was_encoded(void **state)
{
    uint8_t *page = page_end_new(), bytes[FRAME_HEADER_BYTES];
    struct frame_header got;

    (void)state;
    assert_non_null(page);
    frame_encode(&sample, bytes);
    assert_int_equal(
        frame_decode(page_end_put(page, bytes, sizeof bytes), sizeof bytes, &limits, &got, NULL),
        ERR_OK);
    assert_int_equal(got.kind, sample.kind);
    assert_int_equal(got.type, sample.type);
    assert_int_equal(got.flags, sample.flags);
    assert_true(got.plan_hash == sample.plan_hash);
    assert_int_equal(got.revision, sample.revision);
    assert_true(got.step == sample.step);
    assert_int_equal(got.microbatch, sample.microbatch);
    assert_int_equal(got.meta_bytes, sample.meta_bytes);
    assert_true(got.tensor_bytes == sample.tensor_bytes);
    assert_int_equal(got.payload_crc, sample.payload_crc);
    munmap(page, PAGE_END_MAX + 4096);
}

static void frame_is_not_whole_at_every_shorter_length(void **state)
{
    uint8_t *page = page_end_new(), bytes[FRAME_HEADER_BYTES];
    struct frame_header got = {.step = 5};

    (void)state;
    assert_non_null(page);
    frame_encode(&sample, bytes);
    for (size_t n = 0; n < sizeof bytes; n++)
        assert_int_equal(frame_decode(page_end_put(page, bytes, n), n, &limits, &got, NULL),
                         ERR_AGAIN);
    assert_int_equal(got.step, 5);
    munmap(page, PAGE_END_MAX + 4096);
}

static void frame_refuses_every_flipped_bit(void **state)
{
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_header got;

    (void)state;
    frame_encode(&sample, bytes);
    for (int bit = 0; bit < FRAME_HEADER_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(frame_decode(bytes, sizeof bytes, &limits, &got, NULL), ERR_PROTOCOL);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void frame_refuses_other_bytes_with_the_first_of_them(void **state)
{
    struct frame_header got;

    (void)state;
    assert_int_equal(frame_decode((const uint8_t *)"G", 1, &limits, &got, NULL), ERR_PROTOCOL);
    assert_int_equal(frame_decode((const uint8_t *)"SKJ\1", 4, &limits, &got, NULL), ERR_PROTOCOL);
}

static void frame_kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(frame_kind_name(FRAME_CREDIT), "CREDIT");
    assert_string_equal(frame_kind_name((enum frame_kind)77), "unknown");
    assert_string_equal(frame_kind_name((enum frame_kind) - 1), "unknown");
}

/* --- headers whose checksum is right and whose content is not --- */

struct row {
    const char *name;
    int at; /* the field that is set ... */
    int n_bytes;
    uint64_t to;
    const char *says; /* part of the error's text */
};

static struct row rows[] = {
    {"frame_refuses_kind_0", 4, 1, 0, "unknown frame kind 0"},
    {"frame_refuses_the_kind_after_the_last", 4, 1, N_FRAME_KINDS, "unknown frame kind 6"},
    {"frame_refuses_kind_255", 4, 1, 255, "unknown frame kind 255"},
    {"frame_refuses_type_and_flags_of_the_link", 4, 1, FRAME_BYE, "BYE frame: type 171 and flags"},
    {"frame_refuses_reserved_bytes_after_the_type", 7, 1, 1, "reserved"},
    {"frame_refuses_reserved_bytes_at_the_end", 48, 8, 1, "reserved"},
    {"frame_refuses_the_last_reserved_byte", 59, 1, 1, "reserved"},
    {"frame_refuses_one_byte_of_meta_too_many", 40, 4, META_MAX + 1, "1001 bytes of meta"},
    {"frame_refuses_4_gib_of_meta", 40, 4, UINT32_MAX, "4294967295 bytes of meta"},
    {"frame_refuses_one_byte_of_tensor_too_many", 32, 8, TENSOR_MAX + 1, "5000000001 bytes of t"},
    {"frame_refuses_a_tensor_of_all_ones", 32, 8, UINT64_MAX, "18446744073709551615 bytes of t"},
    {"frame_refuses_a_negative_tensor", 32, 8, 1ull << 63, "9223372036854775808 bytes of t"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_header got;
    struct err err;

    frame_encode(&sample, bytes);
    bytes_put(bytes + row->at, row->to, row->n_bytes);
    bytes_put(bytes + 60, crc32c(0, bytes, 60), 4);
    assert_int_equal(frame_decode(bytes, sizeof bytes, &limits, &got, &err), ERR_PROTOCOL);
    if (!strstr(err.text, row->says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, row->says);
}

static void frame_refuses_a_kind_that_is_not_expected(void **state)
{
    struct frame_header head = {.kind = FRAME_CREDIT}, got;
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct err err;

    (void)state;
    frame_encode(&head, bytes);
    assert_int_equal(frame_decode(bytes, sizeof bytes, &limits, &got, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "CREDIT frame is not expected"));
}

static void frame_refuses_a_tensor_with_a_kind_that_has_none(void **state)
{
    struct frame_header head = {.kind = FRAME_HELLO}, got;
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct err err;

    (void)state;
    frame_encode(&head, bytes);
    bytes_put(bytes + 32, 1, 8);
    bytes_put(bytes + 60, crc32c(0, bytes, 60), 4);
    assert_int_equal(frame_decode(bytes, sizeof bytes, &limits, &got, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "HELLO frame: 1 bytes of tensor, at most 0"));
}

static void frame_refuses_a_checksum_without_a_payload(void **state)
{
    struct frame_header head = {.kind = FRAME_BYE, .payload_crc = 1}, got;
    uint8_t bytes[FRAME_HEADER_BYTES];

    (void)state;
    frame_encode(&head, bytes);
    assert_int_equal(frame_decode(bytes, sizeof bytes, &limits, &got, NULL), ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_comes_back_as_it_was_encoded),
        cmocka_unit_test(frame_is_not_whole_at_every_shorter_length),
        cmocka_unit_test(frame_refuses_every_flipped_bit),
        cmocka_unit_test(frame_refuses_other_bytes_with_the_first_of_them),
        cmocka_unit_test(frame_refuses_a_checksum_without_a_payload),
        cmocka_unit_test(frame_refuses_a_kind_that_is_not_expected),
        cmocka_unit_test(frame_refuses_a_tensor_with_a_kind_that_has_none),
        cmocka_unit_test(frame_kinds_have_names),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, tests);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "frame", NULL, NULL);
}
