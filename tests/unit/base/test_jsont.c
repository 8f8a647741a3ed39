#include "base/jsonw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text;
    const char *want;
} rows[] = {
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
};

static enum err_code write_with_values(const char *text, struct buf *out, struct err *err)
{
    const struct jsont_value values[] = {
        JSONT_S("name", "a \"b\"\n"),
        JSONT_S("none", NULL),
        JSONT_S("empty", ""),
        JSONT_I("cpu", -7),
        JSONT_IF("yes", true),
        JSONT_IF("no", false),
        JSONT_I_IF("some", true, 5),
        JSONT_I_IF("few", false, 5),
        JSONT_PAIRS("labels", "a.b/c=d,e=,f"),
        JSONT_PAIRS("nothing", ""),
    };
    struct jsonw w;

    jsonw_init(&w, out);
    jsont_write(&w, NULL, text, values, sizeof values / sizeof *values);
    return jsonw_finish(&w, err);
}

static void jsont_writes_what_the_template_shows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out = {.max = 1000};
        struct err err = {0};

        if (write_with_values(rows[i].text, &out, &err) != ERR_OK)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_string_equal(buf_text(&out), rows[i].want);
        buf_deinit(&out);
    }
}

static void jsont_refuses_a_broken_template(void **state)
{
    static const char *const broken[] = {
        "",           "{",   "[1",      "['a",   "{'a'}",    "{'a': }",     "{1: 2}",
        "[1 2]",      "1 2", "$nobody", "'$x'",  "['${x}']", "[?nobody 1]", "{'$none': 1}",
        "{'a': ?no}", "nul", "[1]]",    "\"a\"", "?yes",     "[,]",         "{'a' 1}",
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jsont_writes_what_the_template_shows),
        cmocka_unit_test(jsont_refuses_a_broken_template),
        cmocka_unit_test(jsont_refuses_a_string_that_is_too_long),
        cmocka_unit_test(jsont_reports_a_document_above_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
