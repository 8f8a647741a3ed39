#include "kube/client.h"

#include "base/clock.h"
#include "loopback.h"
#include "scratch.h"
#include "suite.h"

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct err err;
static const struct kube_ref pod = {.resource = &kube_pods, .namespace = "ns", .name = "a"};
static const struct kube_ref all_pods = {.resource = &kube_pods, .namespace = "ns"};

#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    begin(replies, sizeof replies / sizeof *replies, NULL, NULL)

static void begin(const struct loopback_reply *replies, size_t n, const char *token_file,
                  const struct kube_options *options)
{
    struct kube_config config = {.namespace = strdup("default"), .token = strdup("old")};

    server = loopback_start(replies, n);
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    if (token_file)
        config.token_file = strdup(token_file);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, options, &client, &err), ERR_OK);
    assert_null(config.server); /* taken over */
}

static int end(void **state)
{
    (void)state;
    kube_client_free(client);
    http_free(loop);
    loopback_stop(server);
    return 0;
}

static void assert_sent(size_t i, const char *part)
{
    if (!strstr(loopback_request(server, i), part))
        fail_msg("request %zu lacks \"%s\":\n%s", i, part, loopback_request(server, i));
}

static void client_get_reads_an_object(void **state)
{
    struct json *object = NULL;

    (void)state;
    SERVE({.expect = "GET /api/v1/namespaces/ns/pods/a HTTP", .body = "{\"kind\":\"Pod\"}"});
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_OK);
    assert_string_equal(json_text(object, "kind"), "Pod");
    json_free(object);
    assert_sent(0, "\r\nAccept: application/json\r\n");
    assert_sent(0, "\r\nUser-Agent: kube-c\r\n");
    assert_sent(0, "\r\nAuthorization: Bearer old\r\n");
    assert_string_equal(kube_client_config(client)->namespace, "default");
}

static bool refuse(void *ctx)
{
    ++*(int *)ctx;
    return false;
}

static void client_that_may_not_write_still_reads(void **state)
{
    static const struct loopback_reply replies[] = {{.expect = "GET", .body = "{}"}};
    int n_asked = 0;
    const struct kube_options options = {.may_write = refuse, .ctx = &n_asked};
    struct json *object = NULL;

    (void)state;
    begin(replies, 1, NULL, &options);
    assert_int_equal(kube_create(client, &pod, "{}", NULL, &err), ERR_DENIED);
    assert_int_equal(kube_merge(client, &pod, "{}", NULL, &err), ERR_DENIED);
    assert_int_equal(kube_delete(client, &pod, NULL, &err), ERR_DENIED);
    assert_string_equal(err.text, "delete pods ns/a: this process may not write");
    assert_int_equal(n_asked, 3);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_OK);
    json_free(object);
    assert_int_equal(n_asked, 3);
    assert_int_equal(loopback_connections(server), 1);
}

static void client_errors_say_what_was_tried_and_what_the_server_said(void **state)
{
    struct json *object = NULL;

    (void)state;
    SERVE({.expect = "GET", .status = 404, .body = "{\"message\":\"pods \\\"a\\\" not found\"}"},
          {.expect = "POST", .status = 409, .body = "{\"message\":\"exists\"}"},
          {.expect = "GET", .body = "{\"kind\":"});
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "get pods ns/a: pods \"a\" not found (404)");
    assert_int_equal(kube_create(client, &pod, "{}", NULL, &err), ERR_CONFLICT);
    assert_string_equal(err.text, "create pods ns/a: exists (409)");
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_INVALID);
    assert_null(object);
}

static void client_create_posts_to_the_collection(void **state)
{
    struct json *object = NULL;

    (void)state;
    SERVE({.expect = "POST /api/v1/namespaces/ns/pods?fieldManager=kube-c HTTP",
           .status = 201,
           .body = "{\"metadata\":{\"uid\":\"7\"}}"});
    assert_int_equal(kube_create(client, &pod, "{\"a\":1}", &object, &err), ERR_OK);
    assert_string_equal(json_text(object, "metadata.uid"), "7");
    json_free(object);
    assert_sent(0, "\r\nContent-Type: application/json\r\n");
    assert_sent(0, "\r\n\r\n{\"a\":1}");
}

static void client_patches_with_the_right_type(void **state)
{
    struct kube_ref status = pod;

    (void)state;
    status.subresource = "status";
    SERVE({.expect = "PATCH /api/v1/namespaces/ns/pods/a/status?fieldManager=kube-c HTTP",
           .body = "{}"});
    assert_int_equal(kube_merge(client, &status, "{}", NULL, &err), ERR_OK);
    assert_sent(0, "\r\nContent-Type: application/merge-patch+json\r\n");
}

static void client_delete_says_how(void **state)
{
    (void)state;
    SERVE({.expect = "DELETE /api/v1/namespaces/ns/pods/a HTTP", .body = "{}"},
          {.expect = "DELETE /api/v1/namespaces/ns/pods/a HTTP", .body = "{}"});
    assert_int_equal(kube_delete(client, &pod, NULL, &err), ERR_OK);
    assert_sent(0, "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\","
                   "\"propagationPolicy\":\"Background\"}");
    assert_int_equal(kube_delete(client, &pod, &(struct kube_delete){"u-1", 0}, &err), ERR_OK);
    assert_sent(1, "\"gracePeriodSeconds\":0,\"preconditions\":{\"uid\":\"u-1\"}}");
}

static void client_never_writes_to_or_deletes_a_whole_collection(void **state)
{
    (void)state;
    SERVE({.expect = "nothing"});
    assert_int_equal(kube_delete(client, &all_pods, NULL, &err), ERR_INVALID);
    assert_int_equal(kube_merge(client, &all_pods, "{}", NULL, &err), ERR_INVALID);
    assert_int_equal(loopback_connections(server), 0);
}

struct names {
    char text[100];
    int fails_at;
    int n;
};

static enum err_code note_name(void *ctx, const struct json *object, struct err *e)
{
    struct names *names = ctx;

    if (++names->n == names->fails_at)
        return err_set(e, ERR_LIMIT, "enough");
    strcat(names->text, json_string(json_path(object, "metadata.name"), "?"));
    return ERR_OK;
}

static void client_list_reads_every_page(void **state)
{
    struct names names = {0};

    (void)state;
    SERVE({.expect = "GET /api/v1/namespaces/ns/pods?limit=100 HTTP",
           .body = "{\"metadata\":{\"continue\":\"c1\"},\"items\":[{\"metadata\":{\"name\":\"a\"}},"
                   "{\"metadata\":{\"name\":\"b\"}}]}"},
          {.expect = "GET /api/v1/namespaces/ns/pods?limit=100&continue=c1 HTTP",
           .body = "{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"c\"}}]}"});
    assert_int_equal(kube_list(client, &all_pods, (struct kube_lister){&names, note_name}, &err),
                     ERR_OK);
    assert_string_equal(names.text, "abc");
}

static void client_list_asks_for_fewer_objects_when_a_page_is_too_large(void **state)
{
    static char large[KUBE_PAGE_MAX_BYTES + 1000];
    struct names names = {0};

    (void)state;
    memset(large, ' ', sizeof large - 1);
    SERVE({.expect = "pods?limit=100 HTTP", .body = large},
          {.expect = "pods?limit=50 HTTP",
           .body =
               "{\"metadata\":{\"continue\":\"c1\"},\"items\":[{\"metadata\":{\"name\":\"a\"}}]}"},
          {.expect = "pods?limit=50&continue=c1 HTTP", .body = large},
          {.expect = "pods?limit=25&continue=c1 HTTP",
           .body = "{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"b\"}}]}"});
    assert_int_equal(kube_list(client, &all_pods, (struct kube_lister){&names, note_name}, &err),
                     ERR_OK);
    assert_string_equal(names.text, "ab");
}

static void client_list_names_a_single_object_that_is_too_large(void **state)
{
    static char large[KUBE_PAGE_MAX_BYTES + 1000];
    struct names names = {0};

    (void)state;
    memset(large, ' ', sizeof large - 1);
    SERVE({.expect = "limit=100 HTTP", .body = large}, {.expect = "limit=50 HTTP", .body = large},
          {.expect = "limit=25 HTTP", .body = large}, {.expect = "limit=12 HTTP", .body = large},
          {.expect = "limit=6 HTTP", .body = large}, {.expect = "limit=3 HTTP", .body = large},
          {.expect = "limit=1 HTTP", .body = large});
    assert_int_equal(kube_list(client, &all_pods, (struct kube_lister){&names, note_name}, &err),
                     ERR_LIMIT);
    assert_non_null(strstr(err.text, "list pods ns: a single object: "));
}

static void client_list_leaves_out_an_object_that_cannot_be_parsed(void **state)
{
    struct names names = {0};

    (void)state;
    SERVE({.expect = "GET",
           .body =
               "{\"metadata\":{},\"items\":[{\"metadata\":{\"name\":\"a\\u0000\"}},"
               "{\"metadata\":{\"name\":\"b\",\"name\":\"b\"}},{\"metadata\":{\"name\":\"c\"}}]}"});
    assert_int_equal(kube_list(client, &all_pods, (struct kube_lister){&names, note_name}, &err),
                     ERR_OK);
    assert_string_equal(names.text, "a\xef\xbf\xbd"
                                    "c");
}

static void client_list_ends_where_the_caller_says(void **state)
{
    struct names names = {.fails_at = 2};

    (void)state;
    SERVE({.expect = "GET",
           .body = "{\"metadata\":{\"continue\":\"c1\"},\"items\":[{\"metadata\":{\"name\":\"a\"}},"
                   "{\"metadata\":{\"name\":\"b\"}}]}"});
    assert_int_equal(kube_list(client, &all_pods, (struct kube_lister){&names, note_name}, &err),
                     ERR_LIMIT);
    assert_string_equal(names.text, "a");
}

static void client_reads_its_token_again_after_a_401(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "Authorization: Bearer old", .status = 401},
        {.expect = "Authorization: Bearer new", .body = "{}"}};
    struct json *object = NULL;

    (void)state;
    begin(replies, 2, scratch_text("token", "new\n"), NULL);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_OK);
    json_free(object);
}

static void client_gives_up_after_a_second_401(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "GET", .status = 401},
        {.expect = "GET", .status = 401, .body = "{\"message\":\"Unauthorized\"}"}};
    struct json *object = NULL;

    (void)state;
    begin(replies, 2, "/nowhere/token", NULL);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_DENIED);
    assert_int_equal(loopback_unused(server), 0);
}

static void client_sends_nothing_while_the_server_asked_for_quiet(void **state)
{
    struct json *object = NULL;
    int64_t began_ms = clock_now_ms();

    (void)state;
    SERVE({.expect = "GET", .status = 429, .headers = "Retry-After: 7\r\n"});
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_AGAIN);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_AGAIN);
    assert_true(clock_now_ms() - began_ms < 3000); /* said at once, not waited for */
    assert_int_equal(loopback_strays(server), 0);
    assert_in_range(kube_client_quiet_ms(client, clock_now_ms()), 3000, 7000);
    assert_int_equal(kube_client_quiet_ms(client, clock_now_ms() + 7001), 0);
}

static void client_counts_requests_by_what_came_of_them(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "GET", .raw = "HTTP/1.1 2", .end = LOOPBACK_CLOSE},
        {.expect = "GET", .status = 401},
        {.expect = "GET", .body = "{}"},
        {.expect = "GET", .status = 429, .headers = "Retry-After: 7\r\n"}};
    const uint64_t *n;
    uint64_t sum = 0;
    struct json *object = NULL;

    (void)state;
    begin(replies, 4, scratch_text("token", "new\n"), NULL);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_IO);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_OK);
    json_free(object);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_AGAIN);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_AGAIN); /* is not sent */
    n = kube_client_requests(client);
    for (int status = 0; status < KUBE_STATUSES; status++)
        sum += n[status];
    assert_int_equal(sum, 4);
    assert_int_equal(n[0], 1);
    assert_int_equal(n[200], 1);
    assert_int_equal(n[401], 1);
    assert_int_equal(n[429], 1);
}

static void client_keeps_to_its_rate(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "GET", .body = "{}"}, {.expect = "GET", .body = "{}"},
        {.expect = "GET", .body = "{}"}, {.expect = "GET", .body = "{}"},
        {.expect = "GET", .body = "{}"}, {.expect = "GET", .body = "{}"}};
    struct kube_options options = {.calls_per_second = 20, .calls_burst = 2};
    int64_t began_ms = clock_now_ms();

    (void)state;
    begin(replies, 6, NULL, &options);
    for (int i = 0; i < 6; i++) {
        struct json *object = NULL;

        assert_int_equal(kube_get(client, &pod, &object, &err), ERR_OK);
        json_free(object);
    }
    assert_true(clock_now_ms() - began_ms >= 190); /* two at once, four at 50 ms each */
}

static void client_has_a_rate_of_its_own_for_events(void **state)
{
    static const struct kube_ref event = {
        .resource = &kube_events, .namespace = "default", .name = "a"};
    static const struct loopback_reply reply = {.expect = "GET", .body = "{}"};
    struct loopback_reply replies[60];
    struct kube_options options = {.calls_per_second = 1, .calls_burst = 30};
    int64_t began_ms = clock_now_ms();

    (void)state;
    for (int i = 0; i < 60; i++)
        replies[i] = reply;
    begin(replies, 60, NULL, &options);
    for (int i = 0; i < 60; i++) {
        struct json *object = NULL;

        assert_int_equal(kube_get(client, i % 2 ? &event : &pod, &object, &err), ERR_OK);
        json_free(object);
    }
    assert_true(clock_now_ms() - began_ms < 30000); /* as half of them had to wait */
}

static void client_dials_the_server_under_the_name_of_its_certificate(void **state)
{
    static const struct loopback_reply replies[] = {{.expect = "nothing"}};
    struct kube_config config = {.namespace = strdup("default"),
                                 .tls_server_name = strdup("api.example")};
    struct json *object = NULL;

    (void)state;
    server = loopback_start(replies, 1);
    assert_true(asprintf(&config.server, "https://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, &err), ERR_OK);
    loopback_stop(server);
    assert_int_equal(kube_get(client, &pod, &object, &err), ERR_IO);
    assert_non_null(strstr(err.text, "api.example"));
    assert_non_null(strstr(err.text, "refused")); /* so it was not looked up by name */
    server = loopback_start(replies, 1);
}

#define TEST(f) cmocka_unit_test_teardown(f, end)

static int test_client(void)
{
    const struct CMUnitTest tests[] = {
        TEST(client_get_reads_an_object),
        TEST(client_that_may_not_write_still_reads),
        TEST(client_errors_say_what_was_tried_and_what_the_server_said),
        TEST(client_create_posts_to_the_collection),
        TEST(client_patches_with_the_right_type),
        TEST(client_delete_says_how),
        TEST(client_never_writes_to_or_deletes_a_whole_collection),
        TEST(client_list_reads_every_page),
        TEST(client_list_asks_for_fewer_objects_when_a_page_is_too_large),
        TEST(client_list_names_a_single_object_that_is_too_large),
        TEST(client_list_leaves_out_an_object_that_cannot_be_parsed),
        TEST(client_list_ends_where_the_caller_says),
        TEST(client_reads_its_token_again_after_a_401),
        TEST(client_gives_up_after_a_second_401),
        TEST(client_sends_nothing_while_the_server_asked_for_quiet),
        TEST(client_counts_requests_by_what_came_of_them),
        TEST(client_keeps_to_its_rate),
        TEST(client_has_a_rate_of_its_own_for_events),
        TEST(client_dials_the_server_under_the_name_of_its_certificate),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}

/* --- status --- */

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
    struct err error = {0};

    assert_int_equal(kube_status_error(row->status, row->body, strlen(row->body), &error),
                     row->want);
    assert_int_equal(error.code, row->want);
    assert_non_null(strstr(error.text, row->text));
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
    struct err error = {0};

    (void)state;
    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_OK);
    v = json_first(root);
    assert_int_equal(kube_status_object(v, &error), ERR_GONE);
    assert_string_equal(error.text, "expired (410)");
    for (v = json_next(v); v; v = json_next(v))
        assert_int_equal(kube_status_object(v, &error), ERR_IO);
    assert_int_equal(kube_status_object(NULL, &error), ERR_IO);
    json_free(root);
}

static int test_status(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(status_of_every_2xx_is_ok),
        cmocka_unit_test(status_object_reads_its_own_code),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "client", NULL, NULL);
}

int main(void)
{
    return test_client() + test_status();
}
