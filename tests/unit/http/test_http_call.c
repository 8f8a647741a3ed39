/* One request: what is sent, what comes back, and every way in which it can fail. */
#include "http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve.h"

static void http_call_returns_status_and_body(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET /a HTTP/1.1\r\n", .status = 404, .body = "not here"});
    assert_int_equal(get(&r), ERR_OK);
    assert_int_equal(r.status, 404);
    assert_string_equal(buf_text(&r.body), "not here");
    assert_true(r.retry_after_ms == -1);
    http_response_deinit(&r);
}

static void http_call_sends_method_headers_and_body(void **state)
{
    const char *const headers[] = {"X-One: 1", "Accept: application/json", NULL};
    struct http_response r = {0};
    struct http_request request;
    const char *seen;

    (void)state;
    SERVE({.expect = "PATCH /a HTTP/1.1\r\n"}, {.expect = "DELETE /a HTTP/1.1\r\n"});
    request = (struct http_request){.method = "PATCH",
                                    .url = url,
                                    .headers = headers,
                                    .content_type = "application/merge-patch+json",
                                    .body = "{}",
                                    .body_bytes = 2,
                                    .bearer_token = "secret"};
    assert_int_equal(http_call(loop, &request, &r, &err), ERR_OK);
    http_response_deinit(&r);
    seen = loopback_request(server, 0);
    assert_non_null(strstr(seen, "\r\nX-One: 1\r\n"));
    assert_non_null(strstr(seen, "\r\nAccept: application/json\r\n"));
    assert_non_null(strstr(seen, "\r\nContent-Type: application/merge-patch+json\r\n"));
    assert_non_null(strstr(seen, "\r\nAuthorization: Bearer secret\r\n"));
    assert_non_null(strstr(seen, "\r\n\r\n{}"));
    assert_null(strcasestr(seen, "expect:"));
    assert_null(strcasestr(seen, "accept-encoding:"));

    request = (struct http_request){.method = "DELETE", .url = url};
    assert_int_equal(http_call(loop, &request, &r, &err), ERR_OK);
    http_response_deinit(&r);
    assert_null(strstr(loopback_request(server, 1), "Authorization"));
}

static void http_call_uses_a_connection_again(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET"}, {.expect = "GET"}, {.expect = "GET"});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(&r), ERR_OK);
        http_response_deinit(&r);
    }
    assert_int_equal(loopback_connections(server), 1);
}

static void http_call_survives_a_kept_connection_that_was_closed(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .end = LOOPBACK_CLOSE}, {.expect = "GET", .body = "again"});
    assert_int_equal(get(&r), ERR_OK);
    http_response_deinit(&r);
    assert_int_equal(get(&r), ERR_OK);
    assert_string_equal(buf_text(&r.body), "again");
    http_response_deinit(&r);
}

static void http_call_does_not_follow_a_redirect(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET /a", .status = 302, .headers = "Location: /b\r\n"},
          {.expect = "GET /b", .body = "no"});
    assert_int_equal(get(&r), ERR_OK);
    assert_int_equal(r.status, 302);
    assert_int_equal(loopback_unused(server), 1);
    http_response_deinit(&r);
}

static void http_call_does_not_unpack_what_it_did_not_ask_for(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .headers = "Content-Encoding: gzip\r\n", .body = "\x1f\x8b bomb"});
    assert_int_equal(get(&r), ERR_OK);
    assert_int_equal(r.body.len, 7);
    http_response_deinit(&r);
}

static void http_call_reads_retry_after(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .status = 429, .headers = "Retry-After: 7\r\n"});
    assert_int_equal(get(&r), ERR_OK);
    assert_true(r.retry_after_ms == 7000);
    http_response_deinit(&r);
}

static void assert_failed_fast(enum err_code got, enum err_code want, int64_t began_ms)
{
    assert_int_equal(got, want);
    assert_non_null(strstr(err.text, "127.0.0.1:"));
    assert_true(clock_now_ms() - began_ms < 3000);
}

static void http_call_to_a_silent_server_ends_at_the_deadline(void **state)
{
    struct http_response r = {0};
    struct http_request request = {.url = url, .deadline_ms = 200};
    int64_t began_ms = clock_now_ms();

    (void)state;
    SERVE({.expect = "GET", .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG});
    assert_failed_fast(http_call(loop, &request, &r, &err), ERR_TIMEOUT, began_ms);
    assert_true(clock_now_ms() - began_ms >= 195);
}

static void http_call_to_a_dripping_server_ends_at_the_deadline(void **state)
{
    struct http_response r = {0};
    struct http_request request = {.url = url, .deadline_ms = 300};
    int64_t began_ms = clock_now_ms();

    (void)state;
    SERVE({.expect = "GET",
           .body = "a byte at a time, never long enough apart for any limit on silence",
           .piece_bytes = 1,
           .pause_ms = 20});
    assert_failed_fast(http_call(loop, &request, &r, &err), ERR_TIMEOUT, began_ms);
}

static void http_call_names_the_host_that_refuses(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET"});
    loopback_stop(server);
    server = NULL;
    assert_failed_fast(get(&r), ERR_IO, clock_now_ms());
    assert_non_null(strstr(err.text, "refused"));
}

static void http_call_names_the_host_that_nobody_knows(void **state)
{
    struct http_response r = {0};
    struct http_request request = {.url = "http://no-such-host.invalid/", .deadline_ms = 20000};

    (void)state;
    assert_int_equal(http_call(loop, &request, &r, &err), ERR_IO);
    assert_non_null(strstr(err.text, "no-such-host.invalid"));
}

struct failure {
    const char *name;
    struct loopback_reply reply;
    enum err_code want;
};

static struct failure failures[] = {
    {"http_call_fails_when_the_body_is_cut",
     {.expect = "GET",
      .raw = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
      .end = LOOPBACK_CLOSE},
     ERR_IO},
    {"http_call_fails_when_a_chunked_body_is_cut",
     {.expect = "GET", .body = "12345", .is_stream = true, .end = LOOPBACK_CLOSE},
     ERR_IO},
    {"http_call_fails_when_the_connection_is_reset",
     {.expect = "GET",
      .raw = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
      .end = LOOPBACK_RESET},
     ERR_IO},
    {"http_call_fails_when_the_head_is_cut",
     {.expect = "GET", .raw = "HTTP/1.1 200 OK\r\nConte", .end = LOOPBACK_CLOSE},
     ERR_IO},
    {"http_call_fails_when_nothing_comes",
     {.expect = "GET", .raw = "", .end = LOOPBACK_CLOSE},
     ERR_IO},
    {"http_call_refuses_what_is_not_http",
     {.expect = "GET", .raw = "220 mail ready\r\n\r\n", .end = LOOPBACK_CLOSE},
     ERR_PROTOCOL},
    {"http_call_refuses_a_body_above_the_ceiling",
     {.expect = "GET", .body = "123456789012345678901"},
     ERR_LIMIT},
    {"http_call_refuses_a_chunked_body_above_the_ceiling",
     {.expect = "GET", .body = "123456789012345678901", .piece_bytes = 5, .is_stream = true},
     ERR_LIMIT},
};

static void check_failure(void **state)
{
    const struct failure *f = *state;
    struct http_response r = {0};
    struct http_request request = {.url = url, .deadline_ms = 5000, .response_max_bytes = 20};

    serve(&f->reply, 1);
    assert_failed_fast(http_call(loop, &request, &r, &err), f->want, clock_now_ms());
}

static void http_start_refuses_what_cannot_be_sent(void **state)
{
    const char *const bad_headers[] = {"A: b\r\nC: d", NULL};
    const struct http_request bad[] = {
        {.url = NULL},
        {.url = ""},
        {.url = "not a url"},
        {.url = "ftp://127.0.0.1/"},
        {.url = "file:///etc/passwd"},
        {.url = "http://127.0.0.1/a\r\nX: y"},
        {.url = "http://127.0.0.1/", .headers = bad_headers},
        {.url = "http://127.0.0.1/", .bearer_token = "a\nb"},
        {.url = "http://127.0.0.1/", .body = "", .content_type = "a\r\nb: c"},
        {.url = "http://127.0.0.1/", .method = "GET / HTTP/1.1\r\nX: y\r\n"},
        {.url = "http://127.0.0.1/", .deadline_ms = -1},
    };
    struct http_response r = {0};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(http_call(loop, &bad[i], &r, &err), ERR_INVALID);
}

static void http_host_of_leaves_secrets_out(void **state)
{
    char host[HTTP_HOST_BYTES];

    (void)state;
    assert_int_equal(http_host_of("https://user:secret@example.org/a?token=x", host, &err), ERR_OK);
    assert_string_equal(host, "example.org:443");
    assert_int_equal(http_host_of("http://[::1]:8080/", host, &err), ERR_OK);
    assert_string_equal(host, "[::1]:8080");
    assert_int_equal(http_host_of("nonsense://", host, &err), ERR_INVALID);
    assert_int_equal(http_host_of(NULL, host, &err), ERR_INVALID);
}

#define TEST(f)    cmocka_unit_test_setup_teardown(f, make_loop, free_loop)
#define N_FAILURES (sizeof failures / sizeof *failures)

int main(void)
{
    const struct CMUnitTest singles[] = {
        TEST(http_call_returns_status_and_body),
        TEST(http_call_sends_method_headers_and_body),
        TEST(http_call_uses_a_connection_again),
        TEST(http_call_survives_a_kept_connection_that_was_closed),
        TEST(http_call_does_not_follow_a_redirect),
        TEST(http_call_does_not_unpack_what_it_did_not_ask_for),
        TEST(http_call_reads_retry_after),
        TEST(http_call_to_a_silent_server_ends_at_the_deadline),
        TEST(http_call_to_a_dripping_server_ends_at_the_deadline),
        TEST(http_call_names_the_host_that_refuses),
        TEST(http_call_names_the_host_that_nobody_knows),
        TEST(http_start_refuses_what_cannot_be_sent),
        TEST(http_host_of_leaves_secrets_out),
    };
    struct CMUnitTest tests[N_FAILURES + sizeof singles / sizeof *singles];

    for (size_t i = 0; i < N_FAILURES; i++)
        tests[i] = (struct CMUnitTest){failures[i].name, check_failure, make_loop, free_loop,
                                       &failures[i]};
    memcpy(tests + N_FAILURES, singles, sizeof singles);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
