#include "kube/response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char told[200];

static enum err_code on_object(void *ctx, const struct json *object, struct err *err)
{
    size_t n = strlen(told);
    const char *name = json_text(object, "metadata.name");

    (void)ctx;
    (void)snprintf(told + n, sizeof told - n, "+%s ", name);
    return strcmp(name, "end") == 0 ? err_set(err, ERR_GONE, "enough") : ERR_OK;
}

static void on_skipped(void *ctx, const struct json *identity, const struct err *err)
{
    size_t n = strlen(told);
    char *text = json_print(json_get(identity, "metadata"));

    (void)ctx;
    assert_true(err->code == ERR_INVALID || err->code == ERR_LIMIT);
    (void)snprintf(told + n, sizeof told - n, "?%s ", text);
    free(text);
}

static enum err_code read_page(const char *text, struct json **out_metadata)
{
    struct page_sink sink = {NULL, on_object, on_skipped};
    struct err err = {0};
    enum err_code rc;

    told[0] = '\0';
    rc = page_read(text, strlen(text), sink, out_metadata, &err);
    assert_true(rc == ERR_OK || err.text[0]);
    return rc;
}

static void page_read_gives_what_can_be_parsed_and_names_the_rest(void **state)
{
    struct json *metadata = NULL;

    (void)state;
    assert_int_equal(
        read_page("{\"kind\":\"List\",\"items\":[{\"metadata\":{\"name\":\"a\"}},"
                  "{\"metadata\":{\"uid\":\"u\",\"name\":\"b\\u0000\",\"x\":01},\"y\":1},"
                  "{\"metadata\":{\"uid\":\"u\",\"x\":01}},{\"metadata\":{\"name\":\"c\"}}],"
                  "\"metadata\":{\"continue\":\"more\"}}",
                  &metadata),
        ERR_OK);
    assert_string_equal(told, "+a ?{\"name\":\"b\xef\xbf\xbd\",\"uid\":\"u\"} ?null +c ");
    assert_string_equal(json_text(metadata, "continue"), "more");
    json_free(metadata);
}

static void page_read_ends_where_the_caller_says(void **state)
{
    struct json *metadata = NULL;

    (void)state;
    assert_int_equal(
        read_page("{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"end\"}},{}]}", &metadata),
        ERR_GONE);
    assert_string_equal(told, "+end ");
    assert_null(metadata);
}

static void page_read_refuses_what_is_no_list(void **state)
{
    static const char *const texts[] = {"",
                                        "404 page not found",
                                        "[]",
                                        "{}",
                                        "{\"items\":[]}",
                                        "{\"metadata\":{}}",
                                        "{\"metadata\":{},\"items\":7}",
                                        "{\"metadata\":{\"a\":01},\"items\":[]}",
                                        "{\"metadata\":{},\"items\":[{\"metadata\":"};
    struct json *metadata = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(read_page(texts[i], &metadata), ERR_PROTOCOL);
        assert_string_equal(told, "");
        assert_null(metadata);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_read_gives_what_can_be_parsed_and_names_the_rest),
        cmocka_unit_test(page_read_ends_where_the_caller_says),
        cmocka_unit_test(page_read_refuses_what_is_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
