#include "kube/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char object[] =
    "{\"data\":{\"a.b\":\"YQ==\",\"two\":\"YWI=\",\"three\":\"YWJj\",\"empty\":\"\","
    "\"bad\":\"a%%b\",\"nul\":\"YQBi\",\"long\":\"YWJjZGVmZ2hpYWJjZGVmZ2hpYWJjZGVmZ2hp\"}}";

static enum err_code read_text(const char *key, struct buf *out)
{
    struct json *json = NULL;
    enum err_code rc;

    assert_int_equal(json_parse(object, strlen(object), &json, NULL), ERR_OK);
    rc = kube_secret_text(json, key, out, NULL);
    assert_int_equal(kube_secret_has(json, key), rc != ERR_NOT_FOUND);
    json_free(json);
    return rc;
}

static void secret_values_are_decoded(void **state)
{
    static const char *const members[][2] = {
        {"a.b", "a"}, {"two", "ab"}, {"three", "abc"}, {"empty", ""}};

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        struct buf text = {.max = 10};

        assert_int_equal(read_text(members[i][0], &text), ERR_OK);
        assert_string_equal(buf_text(&text), members[i][1]);
        buf_deinit(&text);
    }
}

static void secret_values_that_are_no_text_are_refused(void **state)
{
    struct buf text = {.max = 10};

    (void)state;
    assert_int_equal(read_text("none", &text), ERR_NOT_FOUND);
    assert_int_equal(read_text("bad", &text), ERR_INVALID);
    assert_int_equal(read_text("nul", &text), ERR_INVALID);
    assert_int_equal(read_text("long", &text), ERR_LIMIT);
    assert_int_equal(text.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secret_values_are_decoded),
        cmocka_unit_test(secret_values_that_are_no_text_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
