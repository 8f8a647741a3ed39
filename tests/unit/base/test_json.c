#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *name;
    const char *text;
    size_t len; /* 0: all of text */
    enum err_code want;
};

/* What must be refused, or just not be; each row is a test. */
static struct row rows[] = {
    {"json_parse_refuses_nothing_at_all", "", 0, ERR_INVALID},
    {"json_parse_refuses_white_space_only", "  \n", 0, ERR_INVALID},
    {"json_parse_refuses_a_second_document", "{} {}", 0, ERR_INVALID},
    {"json_parse_refuses_garbage_after_the_end", "{}x", 0, ERR_INVALID},
    {"json_parse_takes_white_space_around", " \t\r\n{} \t\r\n", 0, ERR_OK},
    {"json_parse_refuses_a_document_cut_short", "{\"a\":[1,2", 0, ERR_INVALID},
    {"json_parse_refuses_a_string_cut_after_its_backslash", "\"a\\", 0, ERR_INVALID},
    {"json_parse_refuses_a_duplicate_key", "{\"a\":1,\"b\":2,\"a\":3}", 0, ERR_INVALID},
    {"json_parse_refuses_a_duplicate_key_deep_down", "[{\"x\":{\"a\":1,\"a\":1}}]", 0, ERR_INVALID},
    {"json_parse_refuses_a_duplicate_key_written_differently", "{\"a\":1,\"\\u0061\":2}", 0,
     ERR_INVALID},
    {"json_parse_takes_the_same_key_at_two_levels", "{\"a\":{\"a\":1}}", 0, ERR_OK},
    {"json_parse_takes_keys_that_differ_in_case", "{\"a\":1,\"A\":2}", 0, ERR_OK},
    {"json_parse_refuses_a_raw_control_character", "\"a\nb\"", 0, ERR_INVALID},
    {"json_parse_refuses_an_escaped_nul", "\"a\\u0000b\"", 0, ERR_INVALID},
    {"json_parse_takes_a_backslash_before_u0000", "\"a\\\\u0000b\"", 0, ERR_OK},
    {"json_parse_refuses_a_raw_nul", "\"a\0b\"", 5, ERR_INVALID},
    {"json_parse_refuses_a_nul_after_the_document", "{}\0", 3, ERR_INVALID},
    {"json_parse_refuses_a_stray_continuation_byte", "\"\x80\"", 0, ERR_INVALID},
    {"json_parse_refuses_utf8_cut_short", "\"\xe2\x82\"", 0, ERR_INVALID},
    {"json_parse_refuses_overlong_utf8", "\"\xc0\xaf\"", 0, ERR_INVALID},
    {"json_parse_refuses_an_overlong_three_byte_form", "\"\xe0\x80\xaf\"", 0, ERR_INVALID},
    {"json_parse_refuses_a_surrogate_in_utf8", "\"\xed\xa0\x80\"", 0, ERR_INVALID},
    {"json_parse_refuses_a_code_point_above_10ffff", "\"\xf4\x90\x80\x80\"", 0, ERR_INVALID},
    {"json_parse_refuses_a_lone_escaped_surrogate", "\"\\ud800\"", 0, ERR_INVALID},
    {"json_parse_refuses_bad_utf8_after_a_backslash", "\"\\\xff\"", 0, ERR_INVALID},
    {"json_parse_takes_four_byte_utf8", "\"\xf0\x9f\x98\x80\"", 0, ERR_OK},
    {"json_parse_refuses_single_quotes", "{'a':1}", 0, ERR_INVALID},
    {"json_parse_refuses_a_trailing_comma", "[1,]", 0, ERR_INVALID},
    {"json_parse_refuses_a_control_character_between_values", "[1,\x01 2]", 0, ERR_INVALID},
    {"json_parse_takes_a_number_with_all_its_parts", "[-0,0.5,-12.25e+3,1E-2]", 0, ERR_OK},
    {"json_parse_refuses_a_number_with_a_leading_zero", "[01]", 0, ERR_INVALID},
    {"json_parse_refuses_a_minus_without_a_number", "[-]", 0, ERR_INVALID},
    {"json_parse_refuses_a_number_that_begins_with_its_point", "-.5", 0, ERR_INVALID},
    {"json_parse_refuses_a_number_that_ends_with_its_point", "[1.]", 0, ERR_INVALID},
    {"json_parse_refuses_a_number_with_an_empty_exponent", "1e", 0, ERR_INVALID},
    {"json_parse_refuses_two_numbers_in_one", "1.2.3", 0, ERR_INVALID},
    {"json_parse_refuses_a_number_that_no_double_holds", "[1e999]", 0, ERR_INVALID},
    {"json_parse_takes_63_characters_of_a_number",
     "100000000000000000000000000000000000000000000000000000000000000", 0, ERR_OK},
    {"json_parse_refuses_64_characters_of_a_number",
     "1000000000000000000000000000000000000000000000000000000000000000", 0, ERR_LIMIT},
    {"json_parse_skips_one_byte_order_mark",
     "\xef\xbb\xbf"
     "0",
     0, ERR_OK},
    {"json_parse_refuses_a_second_byte_order_mark", "\xef\xbb\xbf\xef\xbb\xbf{}", 0, ERR_INVALID},
    {"json_parse_refuses_an_escape_without_four_digits", "\"\\u-3d8\"", 0, ERR_INVALID},
    {"json_parse_refuses_an_escape_cut_short", "\"\\u12", 0, ERR_INVALID},
    {"json_parse_refuses_an_escape_it_does_not_know", "\"\\x41\"", 0, ERR_INVALID},
    {"json_parse_refuses_a_word_it_does_not_know", "[nil]", 0, ERR_INVALID},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct json *root = NULL;
    struct err err;
    size_t n = row->len ? row->len : strlen(row->text);
    char *exact = malloc(n + 1); /* so that a sanitizer sees a read past the end */

    assert_non_null(exact);
    memcpy(exact, row->text, n);
    assert_int_equal(json_parse(exact, n, &root, &err), row->want);
    assert_true((root != NULL) == (row->want == ERR_OK));
    json_free(root);
    free(exact);
}

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct err err = {0};

    if (json_parse(text, strlen(text), &root, &err) != ERR_OK)
        fail_msg("%s", err.text);
    return root;
}

static void json_parse_refuses_more_levels_than_the_limit(void **state)
{
    char text[2 * (JSON_DEPTH_MAX + 1) + 1];
    struct json *root = NULL;

    (void)state;
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    assert_int_equal(json_parse(text, sizeof text - 1, &root, NULL), ERR_LIMIT);
    assert_int_equal(json_parse(text + 1, sizeof text - 3, &root, NULL), ERR_OK);
    json_free(root);
}

static void json_parse_finds_a_duplicate_among_many_keys(void **state)
{
    char text[4096] = "{";
    struct json *root = NULL;

    (void)state;
    for (int i = 0; i < 200; i++)
        (void)snprintf(text + strlen(text), 32, "%s\"k%d\":%d", i ? "," : "", i, i);
    strcat(text, "}");
    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_OK);
    json_free(root);
    strcpy(strchr(text, '}'), ",\"k77\":0}");
    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_INVALID);
}

static void json_parse_tolerant_reads_an_escaped_nul_as_the_replacement_character(void **state)
{
    static const char text[] = "{\"k\\u0000\":\"\\u0000a\\\\u0000b\\u0000\",\"x\":\"\\\\\\u0000\"}";
    struct json *root = NULL;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, &root, NULL), ERR_INVALID);
    assert_int_equal(json_parse_tolerant(text, sizeof text - 1, &root, NULL), ERR_OK);
    assert_string_equal(json_string(json_get(root, "k\xef\xbf\xbd"), ""), "\xef\xbf\xbd"
                                                                          "a\\u0000b\xef\xbf\xbd");
    assert_string_equal(json_string(json_get(root, "x"), ""), "\\\xef\xbf\xbd");
    json_free(root);
}

static void json_parse_tolerant_is_strict_in_everything_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct json *root = NULL;
        enum err_code want = strstr(row->name, "escaped_nul") ? ERR_OK : row->want;

        assert_int_equal(
            json_parse_tolerant(row->text, row->len ? row->len : strlen(row->text), &root, NULL),
            want);
        json_free(root);
    }
}

static void json_readers_answer_absence_with_the_default(void **state)
{
    (void)state;
    assert_null(json_get(NULL, "a"));
    assert_null(json_path(NULL, "a.b"));
    assert_null(json_first(NULL));
    assert_null(json_next(NULL));
    assert_string_equal(json_string(NULL, "none"), "none");
    assert_int_equal(json_i64(NULL, -7), -7);
    assert_true(json_bool(NULL, true));
    assert_int_equal(json_count(NULL), 0);
    assert_int_equal(json_kind_of(NULL), JSON_ABSENT);
    assert_string_equal(json_key(NULL), "");
}

static void json_readers_do_not_convert_between_kinds(void **state)
{
    struct json *root = parse("{\"s\":\"12\",\"n\":12,\"b\":true,\"z\":null,\"f\":1.5}");

    (void)state;
    assert_int_equal(json_i64(json_get(root, "s"), -1), -1);
    assert_string_equal(json_string(json_get(root, "n"), "no"), "no");
    assert_false(json_bool(json_get(root, "n"), false));
    assert_int_equal(json_i64(json_get(root, "f"), -1), -1);
    assert_int_equal(json_kind_of(json_get(root, "z")), JSON_NULL);
    assert_null(json_get(json_get(root, "n"), "x"));
    assert_null(json_get(root, "S"));
    json_free(root);
}

static void json_i64_holds_exactly_up_to_2_to_the_53(void **state)
{
    struct json *root = parse("[9007199254740992, -9007199254740992, 9007199254740994, 1e300]");
    const struct json *v = json_first(root);

    (void)state;
    assert_true(json_i64(v, 0) == 9007199254740992);
    v = json_next(v);
    assert_true(json_i64(v, 0) == -9007199254740992);
    v = json_next(v);
    assert_false(json_is_i64(v));
    v = json_next(v);
    assert_int_equal(json_i64(v, -1), -1);
    assert_null(json_next(v));
    json_free(root);
}

static void json_int_does_not_wrap_around(void **state)
{
    struct json *root = parse("[2147483647, -2147483648, 2147483648, 4294967296]");
    const struct json *v = json_first(root);

    (void)state;
    assert_int_equal(json_int(v, -1), INT32_MAX);
    v = json_next(v);
    assert_int_equal(json_int(v, -1), INT32_MIN);
    v = json_next(v);
    assert_int_equal(json_int(v, -1), -1);
    v = json_next(v);
    assert_int_equal(json_int(v, -1), -1);
    json_free(root);
}

static void json_path_follows_dots_and_stops_at_gaps(void **state)
{
    struct json *root = parse("{\"status\":{\"podIP\":\"10.0.0.7\",\"pod\":1},\"list\":[1,2,3]}");

    (void)state;
    assert_string_equal(json_string(json_path(root, "status.podIP"), ""), "10.0.0.7");
    assert_int_equal(json_i64(json_path(root, "status.pod"), 0), 1);
    assert_null(json_path(root, "status.po"));
    assert_null(json_path(root, "status.podIP.x"));
    assert_null(json_path(root, "spec.podIP"));
    assert_null(json_path(root, "list.x"));
    assert_int_equal(json_count(json_path(root, "list")), 3);
    json_free(root);
}

static void json_equal_ignores_the_order_of_members_only(void **state)
{
    struct json *a = parse("{\"x\":1,\"y\":[1,2]}");
    struct json *b = parse("{\"y\":[1,2],\"x\":1}");
    struct json *c = parse("{\"y\":[2,1],\"x\":1}");

    (void)state;
    assert_true(json_equal(a, b));
    assert_false(json_equal(a, c));
    assert_false(json_equal(a, NULL));
    assert_true(json_equal(NULL, NULL));
    json_free(a);
    json_free(b);
    json_free(c);
}

static void json_print_gives_text_that_reads_back_equal(void **state)
{
    struct json *a = parse("{\"k\\\"\":[true,null,-1.5,\"\\u20ac\\n\"]}");
    char *text = json_print(a);
    struct json *b = parse(text);

    (void)state;
    assert_true(json_equal(a, b));
    free(text);
    json_free(a);
    json_free(b);
}

#define N_ROWS (sizeof rows / sizeof *rows)

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
    const struct CMUnitTest singles[] = {
        cmocka_unit_test(json_parse_refuses_more_levels_than_the_limit),
        cmocka_unit_test(json_parse_finds_a_duplicate_among_many_keys),
        cmocka_unit_test(json_parse_tolerant_reads_an_escaped_nul_as_the_replacement_character),
        cmocka_unit_test(json_parse_tolerant_is_strict_in_everything_else),
        cmocka_unit_test(json_readers_answer_absence_with_the_default),
        cmocka_unit_test(json_readers_do_not_convert_between_kinds),
        cmocka_unit_test(json_i64_holds_exactly_up_to_2_to_the_53),
        cmocka_unit_test(json_int_does_not_wrap_around),
        cmocka_unit_test(json_path_follows_dots_and_stops_at_gaps),
        cmocka_unit_test(json_equal_ignores_the_order_of_members_only),
        cmocka_unit_test(json_print_gives_text_that_reads_back_equal),
        cmocka_unit_test(utf8_step_gives_the_length_of_every_form),
        cmocka_unit_test(utf8_step_refuses_what_is_no_character),
        cmocka_unit_test(utf8_step_does_not_read_past_the_end),
    };
    struct CMUnitTest tests[N_ROWS + sizeof singles / sizeof *singles];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    memcpy(tests + N_ROWS, singles, sizeof singles);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
