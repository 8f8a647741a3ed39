#include "base/hmac.h"

#include "scratch.h"

#define KEY_TEXT "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static struct hmac_key key_of(const char *text)
{
    struct hmac_key key;

    assert_int_equal(hmac_key_parse(text, strlen(text), &key, NULL), ERR_OK);
    return key;
}

/* Python: hmac.new(bytes(range(32)), pack("<Q", 2) + b"ab" + pack("<Q", 0), "sha256") */
static void hmac_is_that_of_the_standard_over_lengths_and_parts(void **state)
{
    struct hmac_key key = key_of(KEY_TEXT);
    struct hmac_part parts[] = {{"ab", 2}, {NULL, 0}};
    uint8_t mac[HMAC_BYTES];
    char text[HMAC_TEXT_BYTES];

    (void)state;
    assert_int_equal(hmac_sign(&key, parts, 2, mac, NULL), ERR_OK);
    hmac_to_text(mac, text);
    assert_string_equal(text, "553b532f759c6d7223d7d849f24a76cea47bbac21633fb7faa1d77b2ce43f4e7");
    assert_true(hmac_check(&key, parts, 2, mac));
}

static void hmac_tells_every_bit_of_key_parts_and_signature_apart(void **state)
{
    struct hmac_key key = key_of(KEY_TEXT);
    struct hmac_key other = key;
    struct hmac_part parts[] = {{"ab", 2}, {"c", 1}};
    struct hmac_part moved[] = {{"a", 1}, {"bc", 2}};
    uint8_t mac[HMAC_BYTES];

    (void)state;
    assert_int_equal(hmac_sign(&key, parts, 2, mac, NULL), ERR_OK);
    assert_false(hmac_check(&key, moved, 2, mac));
    assert_false(hmac_check(&key, parts, 1, mac));
    for (int i = 0; i < 8 * HMAC_BYTES; i++) {
        mac[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(hmac_check(&key, parts, 2, mac));
        mac[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    other.bytes[31] ^= 1;
    assert_false(hmac_check(&other, parts, 2, mac));
    assert_true(hmac_check(&key, parts, 2, mac));
}

static void hmac_key_is_read_from_a_file_and_never_quoted(void **state)
{
    const char *path = scratch_text("key", KEY_TEXT "\n");
    struct hmac_key want = key_of(KEY_TEXT);
    struct hmac_key got;
    struct err err;

    (void)state;
    assert_int_equal(hmac_key_load(path, &got, NULL), ERR_OK);
    assert_memory_equal(&got, &want, sizeof got);
    scratch_text("key", KEY_TEXT "\n00");
    assert_int_equal(hmac_key_load(path, &got, &err), ERR_INVALID);
    assert_null(strstr(err.text, "0001"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(hmac_key_load(path, &got, &err), ERR_NOT_FOUND);
}

static void hmac_refuses_text_that_is_no_key(void **state)
{
    static const char *const bad[] = {"", "00", "g0" KEY_TEXT, KEY_TEXT "0", " " KEY_TEXT};
    char upper[] = KEY_TEXT;
    struct hmac_key key;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(hmac_key_parse(bad[i], strlen(bad[i]), &key, NULL), ERR_INVALID);
    upper[63] = 'F'; /* one form only */
    assert_int_equal(hmac_key_parse(upper, 64, &key, NULL), ERR_INVALID);
}

static void hmac_makes_different_keys(void **state)
{
    struct hmac_key a;
    struct hmac_key b;

    (void)state;
    assert_int_equal(hmac_key_make(&a, NULL), ERR_OK);
    assert_int_equal(hmac_key_make(&b, NULL), ERR_OK);
    assert_memory_not_equal(&a, &b, sizeof a);
}

static void hmac_digest_is_sha_256(void **state)
{
    char text[HMAC_TEXT_BYTES];
    uint8_t digest[HMAC_BYTES];

    (void)state;
    assert_int_equal(hmac_digest("abc", 3, digest, NULL), ERR_OK);
    hmac_to_text(digest, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_that_of_the_standard_over_lengths_and_parts),
        cmocka_unit_test(hmac_tells_every_bit_of_key_parts_and_signature_apart),
        cmocka_unit_test(hmac_key_is_read_from_a_file_and_never_quoted),
        cmocka_unit_test(hmac_refuses_text_that_is_no_key),
        cmocka_unit_test(hmac_makes_different_keys),
        cmocka_unit_test(hmac_digest_is_sha_256),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
