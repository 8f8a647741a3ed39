#include "base/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

struct row {
    const char *name;
    const char *yaml;
    int index;
    enum err_code want_code;
    const char *want; /* the JSON, or a part of the error's text */
};

static struct row rows[] = {
    {"yaml_reads_mappings_and_lists", "a: [1, x]\nb: {c: d}\ne:\n- f\n- g: 1\n", 0, ERR_OK,
     "{\"a\":[1,\"x\"],\"b\":{\"c\":\"d\"},\"e\":[\"f\",{\"g\":1}]}"},
    {"yaml_gives_plain_scalars_their_types", "[true, False, null, ~, -1, 1.5, 1e3, text]", 0,
     ERR_OK, "[true,false,null,null,-1,1.5,1000,\"text\"]"},
    {"yaml_reads_an_empty_value_as_null", "a:\nb: x\n", 0, ERR_OK, "{\"a\":null,\"b\":\"x\"}"},
    {"yaml_keeps_quoted_scalars_strings", "['1', \"true\", 'null', \"2e-5\"]", 0, ERR_OK,
     "[\"1\",\"true\",\"null\",\"2e-5\"]"},
    {"yaml_keeps_the_old_booleans_strings", "[yes, no, on, off, y]", 0, ERR_OK,
     "[\"yes\",\"no\",\"on\",\"off\",\"y\"]"},
    {"yaml_keeps_what_only_resembles_a_number_a_string",
     "[1.2.3, 0x10, .inf, nan, 1-2, '', 2026-11-21]", 0, ERR_OK,
     "[\"1.2.3\",\"0x10\",\".inf\",\"nan\",\"1-2\",\"\",\"2026-11-21\"]"},
    {"yaml_reads_block_text", "a: |\n  one\n  two\nb: >-\n  x\n  y\n", 0, ERR_OK,
     "{\"a\":\"one\\u000atwo\\u000a\",\"b\":\"x y\"}"},
    {"yaml_reads_the_first_document", "a: 1\n---\nb: 2\n", 0, ERR_OK, "{\"a\":1}"},
    {"yaml_reads_the_second_document", "a: 1\n---\nb: 2\n", 1, ERR_OK, "{\"b\":2}"},
    {"yaml_has_no_third_document", "a: 1\n---\nb: 2\n", 2, ERR_NOT_FOUND, "2 documents"},
    {"yaml_has_no_document_in_an_empty_file", "# only a comment\n", 0, ERR_NOT_FOUND,
     "0 documents"},
    {"yaml_refuses_anchors", "a: &x 1\n", 0, ERR_INVALID, "anchors"},
    {"yaml_refuses_anchors_on_lists", "a: &x [1]\n", 0, ERR_INVALID, "anchors"},
    {"yaml_refuses_aliases", "a: *x\n", 0, ERR_INVALID, "aliases"},
    {"yaml_refuses_tags_on_scalars", "a: !!str 1\n", 0, ERR_INVALID, "tags"},
    {"yaml_refuses_tags_on_mappings", "a: !thing {b: 1}\n", 0, ERR_INVALID, "tags"},
    {"yaml_refuses_tags_on_lists", "a: !thing [b]\n", 0, ERR_INVALID, "tags"},
    {"yaml_refuses_keys_that_are_lists", "? [a, b]\n: 1\n", 0, ERR_INVALID, "key"},
    {"yaml_names_line_and_column_of_a_mistake", "a: 1\nb: [1, 2\nc: 3\n", 0, ERR_INVALID, "line 3"},
    {"yaml_refuses_tabs_as_indentation", "a:\n\tb: 1\n", 0, ERR_INVALID, "line 2"},
    {"yaml_refuses_bytes_that_are_not_utf8", "a: \xff\xfe\n", 0, ERR_INVALID, ""},
    {"yaml_refuses_a_nul_in_a_quoted_scalar", "a: \"x\\0y\"\n", 0, ERR_INVALID, "NUL"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct buf out = {.max = 1000};
    struct err err = {0};

    assert_int_equal(yaml_to_json(row->yaml, strlen(row->yaml), row->index, &out, &err),
                     row->want_code);
    if (row->want_code == ERR_OK)
        assert_string_equal(out.data, row->want);
    else
        assert_non_null(strstr(err.text, row->want));
    buf_deinit(&out);
}

static void yaml_refuses_more_levels_than_json_takes(void **state)
{
    char text[201];
    struct buf out = {.max = 1000};

    (void)state;
    memset(text, '[', 100);
    memset(text + 100, ']', 100);
    assert_int_equal(yaml_to_json(text, 200, 0, &out, NULL), ERR_INVALID);
    buf_deinit(&out);
}

static void yaml_stops_at_the_ceiling_of_its_output(void **state)
{
    struct buf out = {.max = 10};

    (void)state;
    assert_int_equal(yaml_to_json("a: a long text", 14, 0, &out, NULL), ERR_LIMIT);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(yaml_refuses_more_levels_than_json_takes),
        cmocka_unit_test(yaml_stops_at_the_ceiling_of_its_output),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "yaml", NULL, NULL);
}
