#include "kube/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *name;
    int status;
    const char *body;
    enum err_code want;
    const char *text; /* a part of the error's text */
};

static struct row rows[] = {
    {"status_400_is_invalid", 400, "{\"message\":\"bad query\"}", ERR_INVALID, "bad query (400)"},
    {"status_401_is_denied", 401, "{\"message\":\"Unauthorized\"}", ERR_DENIED, "Unauthorized"},
    {"status_403_is_denied", 403, "{\"message\":\"pods is forbidden\"}", ERR_DENIED, "forbidden"},
    {"status_404_is_not_found", 404, "{\"message\":\"pods \\\"a\\\" not found\"}", ERR_NOT_FOUND,
     "pods \"a\" not found"},
    {"status_408_is_a_timeout", 408, "", ERR_TIMEOUT, "408"},
    {"status_409_is_a_conflict", 409, "{\"reason\":\"AlreadyExists\",\"message\":\"exists\"}",
     ERR_CONFLICT, "exists"},
    {"status_410_is_gone", 410, "{\"message\":\"too old resource version\"}", ERR_GONE, "too old"},
    {"status_413_is_a_limit", 413, "", ERR_LIMIT, "413"},
    {"status_415_is_invalid", 415, "", ERR_INVALID, "415"},
    {"status_422_is_invalid", 422, "{\"message\":\"spec.x: Required value\"}", ERR_INVALID,
     "spec.x: Required value"},
    {"status_429_is_try_again", 429, "{\"message\":\"slow down\"}", ERR_AGAIN, "slow down"},
    {"status_500_is_io", 500, "{\"message\":\"etcd\"}", ERR_IO, "etcd"},
    {"status_503_is_io", 503, "", ERR_IO, "status 503"},
    {"status_504_is_a_timeout", 504, "{\"message\":\"Too large resource version\"}", ERR_TIMEOUT,
     "Too large"},
    {"status_101_is_a_protocol_error", 101, "", ERR_PROTOCOL, "101"},
    {"status_302_is_a_protocol_error", 302, "", ERR_PROTOCOL, "302"},
    {"status_200_as_an_error_is_a_protocol_error", 200, "", ERR_PROTOCOL, "200"},
    {"status_reads_the_first_line_of_a_body_that_is_not_json", 502, "Bad\tGateway\x1b\nsecond line",
     ERR_IO, "BadGateway (502)"},
    {"status_reads_json_without_a_message", 404, "{\"kind\":\"Status\"}", ERR_NOT_FOUND, "404"},
    {"status_reads_json_of_another_kind", 404, "[1]", ERR_NOT_FOUND, "404"},
    {"status_reads_a_message_that_is_no_string", 404, "{\"message\":7}", ERR_NOT_FOUND, "404"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct err err = {0};

    assert_int_equal(kube_status_error(row->status, row->body, strlen(row->body), &err), row->want);
    assert_int_equal(err.code, row->want);
    assert_non_null(strstr(err.text, row->text));
    assert_int_equal(kube_status_error(row->status, row->body, strlen(row->body), NULL), row->want);
}

static void status_of_every_2xx_is_ok(void **state)
{
    (void)state;
    for (int status = 200; status < 300; status++)
        assert_int_equal(kube_status_code(status), ERR_OK);
}

static void status_object_reads_its_own_code(void **state)
{
    const char *text = "[{\"code\":410,\"message\":\"expired\"},{\"message\":\"no code\"},"
                       "{\"code\":\"410\"},{\"code\":99999},7]";
    struct json *root = NULL;
    const struct json *v;
    struct err err = {0};

    (void)state;
    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_OK);
    v = json_first(root);
    assert_int_equal(kube_status_object(v, &err), ERR_GONE);
    assert_string_equal(err.text, "expired (410)");
    for (v = json_next(v); v; v = json_next(v))
        assert_int_equal(kube_status_object(v, &err), ERR_IO);
    assert_int_equal(kube_status_object(NULL, &err), ERR_IO);
    json_free(root);
}

#define N_ROWS (sizeof rows / sizeof *rows)

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 2] = {
        cmocka_unit_test(status_of_every_2xx_is_ok),
        cmocka_unit_test(status_object_reads_its_own_code),
    };

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i + 2] = (struct CMUnitTest){rows[i].name, check_row, NULL, NULL, &rows[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
