#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

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
    assert_string_equal(json_text(root, "k\xef\xbf\xbd"), "\xef\xbf\xbd"
                                                          "a\\u0000b\xef\xbf\xbd");
    assert_string_equal(json_text(root, "x"), "\\\xef\xbf\xbd");
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
    assert_string_equal(json_text(root, "status.podIP"), "10.0.0.7");
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

static int test_json(void)
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
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, singles);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "json", NULL, NULL);
}

/* --- writer --- */

static void jsonw_writes_nested_objects_and_arrays(void **state)
{
    struct buf out = {.max = 1000};
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "s", "a");
    jsonw_open_array(&w, "list");
    jsonw_int(&w, NULL, -3);
    jsonw_open_object(&w, NULL);
    jsonw_close(&w);
    jsonw_bool(&w, NULL, true);
    jsonw_null(&w, NULL);
    jsonw_close(&w);
    jsonw_string(&w, "f", "1-x");
    jsonw_string(&w, "none", NULL);
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_string_equal(out.data,
                        "{\"s\":\"a\",\"list\":[-3,{},true,null],\"f\":\"1-x\",\"none\":\"\"}");
    buf_deinit(&out);
}

static void jsonw_escapes_what_json_does_not_take(void **state)
{
    const char *text = "quote \" backslash \\ line \n tab \t bell \a euro \xe2\x82\xac";
    struct buf out = {.max = 1000};
    struct json *root = NULL;
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "a\"b", text);
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_int_equal(json_parse(out.data, out.len, &root, NULL), ERR_OK);
    assert_string_equal(json_string(json_get(root, "a\"b"), ""), text);
    json_free(root);
    buf_deinit(&out);
}

static void jsonw_puts_a_replacement_for_bytes_that_are_not_utf8(void **state)
{
    struct buf out = {.max = 1000};
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_string(&w, NULL, "a\xff z\xc3\xb6 cut: \xe2\x82");
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_string_equal(out.data, "\"a\xef\xbf\xbd z\xc3\xb6 cut: \xef\xbf\xbd\xef\xbf\xbd\"");
    buf_deinit(&out);
}

static void jsonw_double_reads_back_as_the_same_double(void **state)
{
    static const double values[] = {0, -0.5, 0.1, 1.0 / 3, 2e-5, 1e300, 5e-324, 123456789.123};
    struct buf out = {.max = 1000};
    struct json *root = NULL;
    const struct json *v;
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_array(&w, NULL);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        jsonw_double(&w, NULL, values[i]);
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_int_equal(json_parse(out.data, out.len, &root, NULL), ERR_OK);
    v = json_first(root);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++, v = json_next(v))
        assert_true(json_double(v, -1) == values[i]);
    json_free(root);
    buf_deinit(&out);
}

static void jsonw_refuses_a_number_that_is_not_finite(void **state)
{
    struct buf out = {.max = 1000};
    struct err err;
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    jsonw_double(&w, "loss", (double)NAN);
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "loss"));
    buf_deinit(&out);
}

static void jsonw_reports_the_first_error_and_not_the_last(void **state)
{
    struct buf out = {.max = 8};
    struct err err;
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "too", "long for it"); /* the ceiling of `out` */
    jsonw_double(&w, "loss", (double)NAN);  /* a second error, of another kind */
    jsonw_close(&w);
    jsonw_close(&w); /* a third */
    assert_int_equal(jsonw_finish(&w, &err), ERR_LIMIT);
    buf_deinit(&out);
}

static void jsonw_finish_misses_levels_that_are_open(void **state)
{
    struct buf out = {.max = 100};
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_INVALID);
    buf_deinit(&out);
}

static void jsonw_stops_at_the_depth_that_json_parse_takes(void **state)
{
    struct buf out = {.max = 1000};
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    for (int i = 0; i < JSON_DEPTH_MAX + 1; i++)
        jsonw_open_array(&w, NULL);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_LIMIT);
    buf_deinit(&out);
}

static void jsonw_value_copies_a_parsed_value(void **state)
{
    struct buf out = {.max = 1000};
    struct json *root = NULL;
    struct jsonw w;

    (void)state;
    assert_int_equal(json_parse("{\"a\":[1,\"x\"]}", 13, &root, NULL), ERR_OK);
    jsonw_init(&w, &out);
    jsonw_open_object(&w, NULL);
    jsonw_value(&w, "copy", json_get(root, "a"));
    jsonw_value(&w, "none", json_get(root, "b"));
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_string_equal(out.data, "{\"copy\":[1,\"x\"],\"none\":null}");
    json_free(root);
    buf_deinit(&out);
}

static int test_writer(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jsonw_writes_nested_objects_and_arrays),
        cmocka_unit_test(jsonw_escapes_what_json_does_not_take),
        cmocka_unit_test(jsonw_puts_a_replacement_for_bytes_that_are_not_utf8),
        cmocka_unit_test(jsonw_double_reads_back_as_the_same_double),
        cmocka_unit_test(jsonw_refuses_a_number_that_is_not_finite),
        cmocka_unit_test(jsonw_reports_the_first_error_and_not_the_last),
        cmocka_unit_test(jsonw_finish_misses_levels_that_are_open),
        cmocka_unit_test(jsonw_stops_at_the_depth_that_json_parse_takes),
        cmocka_unit_test(jsonw_value_copies_a_parsed_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- templates --- */

static const struct {
    const char *text;
    const char *want;
} templates[] = {
    {"{}", "{}"},
    {"[ ]", "[]"},
    {"{'a': 1, 'b': [true, false, null, -2, 'c']}", "{\"a\":1,\"b\":[true,false,null,-2,\"c\"]}"},
    {"$name", "\"a \\\"b\\\"\\u000a\""},
    {"{'a': $cpu, 'b': '$cpu', 'c': 'x${cpu}m y'}", "{\"a\":-7,\"b\":\"-7\",\"c\":\"x-7m y\"}"},
    {"{'a': $none, 'b': 'x$none', 'c': 2}", "{\"c\":2}"},
    {"[$none, ?yes 1, ?no 2, ?none 'x', ?cpu 3, ?empty 4]", "[1,3,4]"},
    {"{'a': ?no {'b': [1, {'c': $name}]}, 'd': ?yes {'e': 'f'}}", "{\"d\":{\"e\":\"f\"}}"},
    {"[?yes ?no 1, ?yes ?yes 2]", "[2]"},
    {"{'$name': 1}", "{\"a \\\"b\\\"\\u000a\":1}"},
    {"{'a': $labels, 'b': $nothing}", "{\"a\":{\"a.b/c\":\"d\",\"e\":\"\"},\"b\":{}}"},
    {"[$empty, $some, $few]", "[\"\",5]"},
    {"{'a': $object, 'b': $list, 'c': $no_json}", "{\"a\":{\"x\":1,\"y\":\"z\"},\"b\":[1,{}]}"},
    {"{*object}", "{\"x\":1,\"y\":\"z\"}"},
    {"{'a': 1, *object, 'b': [*list, *list, 7], *no_json}",
     "{\"a\":1,\"x\":1,\"y\":\"z\",\"b\":[1,{},1,{},7]}"},
    {"[?no_json 1, ?list 2]", "[2]"},
};

static enum err_code write_with_values(const char *text, struct buf *out, struct err *err)
{
    struct json *object = NULL, *list = NULL;
    enum err_code rc = json_parse("{\"x\":1,\"y\":\"z\"}", 15, &object, NULL);

    assert_int_equal(rc, ERR_OK);
    assert_int_equal(json_parse("[1,{}]", 6, &list, NULL), ERR_OK);

    const struct jsont_value values[] = {
        JSONT_V("object", object),   JSONT_V("list", list),
        JSONT_V("no_json", NULL),    JSONT_S("name", "a \"b\"\n"),
        JSONT_S("none", NULL),       JSONT_S("empty", ""),
        JSONT_I("cpu", -7),          JSONT_IF("yes", true),
        JSONT_IF("no", false),       JSONT_I_IF("some", true, 5),
        JSONT_I_IF("few", false, 5), JSONT_PAIRS("labels", "a.b/c=d,e=,f"),
        JSONT_PAIRS("nothing", ""),
    };
    struct jsonw w;

    jsonw_init(&w, out);
    jsont_write(&w, NULL, text, values, sizeof values / sizeof *values);
    json_free(object);
    json_free(list);
    return jsonw_finish(&w, err);
}

static void jsont_writes_what_the_template_shows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct buf out = {.max = 1000};
        struct err err = {0};

        if (write_with_values(templates[i].text, &out, &err) != ERR_OK)
            fail_msg("%s: %s", templates[i].text, err.text);
        assert_string_equal(buf_text(&out), templates[i].want);
        buf_deinit(&out);
    }
}

static void jsont_refuses_a_broken_template(void **state)
{
    static const char *const broken[] = {
        "",        "{",         "[1",      "['a",     "{'a'}",    "{'a': }",     "{1: 2}",
        "[1 2]",   "1 2",       "$nobody", "'$x'",    "['${x}']", "[?nobody 1]", "{'$none': 1}",
        "{*list}", "[*object]", "[*cpu]",  "{*name}", "*list",    "{*nobody}",   "{'a': ?no}",
        "nul",     "[1]]",      "\"a\"",   "?yes",    "[,]",      "{'a' 1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct buf out = {.max = 1000};
        struct err err = {0};

        if (write_with_values(broken[i], &out, &err) != ERR_INVALID)
            fail_msg("%s was accepted", broken[i]);
        assert_non_null(strstr(err.text, "template: "));
        buf_deinit(&out);
    }
}

static void jsont_refuses_a_string_that_is_too_long(void **state)
{
    char text[600];
    struct buf out = {.max = 1000};

    (void)state;
    (void)snprintf(text, sizeof text, "'%0511d'", 0);
    assert_int_equal(write_with_values(text, &out, NULL), ERR_OK);
    buf_deinit(&out);
    (void)snprintf(text, sizeof text, "'%0512d'", 0);
    assert_int_equal(write_with_values(text, &out, NULL), ERR_INVALID);
    buf_deinit(&out);
    (void)snprintf(text, sizeof text, "'%0510d$cpu'", 0);
    assert_int_equal(write_with_values(text, &out, NULL), ERR_INVALID);
    buf_deinit(&out);
}

static void jsont_reports_a_document_above_its_limit(void **state)
{
    struct buf out = {.max = 10};

    (void)state;
    assert_int_equal(write_with_values("{'a': 'a long text', 'b': [1, 2, 3]}", &out, NULL),
                     ERR_LIMIT);
    buf_deinit(&out);
}

static int test_templates(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jsont_writes_what_the_template_shows),
        cmocka_unit_test(jsont_refuses_a_broken_template),
        cmocka_unit_test(jsont_refuses_a_string_that_is_too_long),
        cmocka_unit_test(jsont_reports_a_document_above_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- raw text --- */

struct raw_row {
    const char *name;
    const char *text;
    const char *want; /* the value of member "a", or all elements with '|' behind each */
};

static struct raw_row members[] = {
    {"jsonraw_finds_a_member_among_others", " { \"b\" : [1,2] , \"a\" : 7 , \"c\" : {} } ", "7"},
    {"jsonraw_finds_an_object_whole", "{\"a\":{\"a\":[{}]},\"b\":1}", "{\"a\":[{}]}"},
    {"jsonraw_does_not_look_into_values", "{\"b\":{\"a\":1},\"c\":[\"a\"]}", NULL},
    {"jsonraw_is_not_misled_by_brackets_in_strings", "{\"b\":\"}]\\\"{\",\"a\":\"x\\\\\"}",
     "\"x\\\\\""},
    {"jsonraw_takes_the_first_of_two_members", "{\"a\":1,\"a\":2}", "1"},
    {"jsonraw_finds_a_member_with_a_value_that_is_wrong_inside", "{\"a\":[\"\\u0000\",,nil]}",
     "[\"\\u0000\",,nil]"},
    {"jsonraw_finds_a_member_before_the_text_breaks", "{\"a\":1,\"b\":[", "1"},
    {"jsonraw_finds_no_member_that_is_cut_short", "{\"a\":[1,{\"x\":", NULL},
    {"jsonraw_finds_no_member_cut_in_its_string", "{\"a\":\"x\\", NULL},
    {"jsonraw_finds_no_member_without_a_value", "{\"a\":}", NULL},
    {"jsonraw_finds_no_member_of_an_array", "[\"a\",1]", NULL},
    {"jsonraw_finds_no_member_of_nothing", "", NULL},
    {"jsonraw_finds_no_member_of_an_empty_object", "{}", NULL},
};

static struct raw_row elements[] = {
    {"jsonraw_walks_an_array", " [ 1 , {\"a\":[2]} ,\"]\",[] , null ] ",
     "1|{\"a\":[2]}|\"]\"|[]|null|"},
    {"jsonraw_walks_an_empty_array", "[ ]", ""},
    {"jsonraw_walks_no_object", "{\"a\":1}", ""},
    {"jsonraw_ends_where_an_array_breaks", "[1,{\"a\":2},[3", "1|{\"a\":2}|"},
    {"jsonraw_ends_at_a_missing_element", "[1,,2]", "1|"},
};

static struct jsonraw exact_copy(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n + 1); /* so that a sanitizer sees a read past the end */

    assert_non_null(copy);
    memcpy(copy, text, n);
    return (struct jsonraw){copy, n};
}

static void free_copy(struct jsonraw v)
{
    union {
        const char *from;
        void *to;
    } unconst = {.from = v.text};

    free(unconst.to);
}

static void check_member(void **state)
{
    const struct raw_row *row = *state;
    struct jsonraw v = exact_copy(row->text);
    struct jsonraw found = {0};

    assert_true(jsonraw_member(v, "a", &found) == (row->want != NULL));
    if (row->want) {
        assert_int_equal(found.len, strlen(row->want));
        assert_memory_equal(found.text, row->want, found.len);
    }
    free_copy(v);
}

static void check_elements(void **state)
{
    const struct raw_row *row = *state;
    struct jsonraw v = exact_copy(row->text);
    struct jsonraw found;
    size_t place = 0;
    char all[100] = "";

    while (jsonraw_next(v, &place, &found)) {
        strncat(all, found.text, found.len);
        strcat(all, "|");
    }
    assert_string_equal(all, row->want);
    free_copy(v);
}

static int test_raw_text(void)
{
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, members, check_member);
    SUITE_ROWS(&suite, elements, check_elements);
    return suite_run(&suite, "json", NULL, NULL);
}

int main(void)
{
    return test_json() + test_writer() + test_templates() + test_raw_text();
}
