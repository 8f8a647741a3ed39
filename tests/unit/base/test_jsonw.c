#include "base/jsonw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    jsonw_stringf(&w, "f", "%d-%s", 1, "x");
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

static void jsonw_makes_a_line_of_what_has_control_characters(void **state)
{
    char text[600];
    struct buf out = {.max = 600};
    struct jsonw w;

    (void)state;
    memset(text, '\a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    jsonw_init(&w, &out);
    jsonw_open_array(&w, NULL);
    jsonw_line(&w, NULL, "two\nlines\t\"a\"");
    jsonw_line(&w, NULL, text); /* cut at 511 */
    jsonw_close(&w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_int_equal(strncmp(out.data, "[\"two lines \\\"a\\\"\",\"   ", 22), 0);
    assert_int_equal(out.len, 20 + 511 + 2);
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

static void jsonw_does_not_cut_formatted_text_in_silence(void **state)
{
    struct buf out = {.max = 100000};
    struct jsonw w;

    (void)state;
    jsonw_init(&w, &out);
    jsonw_stringf(&w, NULL, "%5000d", 1);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_LIMIT);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jsonw_writes_nested_objects_and_arrays),
        cmocka_unit_test(jsonw_escapes_what_json_does_not_take),
        cmocka_unit_test(jsonw_makes_a_line_of_what_has_control_characters),
        cmocka_unit_test(jsonw_puts_a_replacement_for_bytes_that_are_not_utf8),
        cmocka_unit_test(jsonw_double_reads_back_as_the_same_double),
        cmocka_unit_test(jsonw_refuses_a_number_that_is_not_finite),
        cmocka_unit_test(jsonw_reports_the_first_error_and_not_the_last),
        cmocka_unit_test(jsonw_does_not_cut_formatted_text_in_silence),
        cmocka_unit_test(jsonw_finish_misses_levels_that_are_open),
        cmocka_unit_test(jsonw_stops_at_the_depth_that_json_parse_takes),
        cmocka_unit_test(jsonw_value_copies_a_parsed_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
