/* The loop: streams, callbacks, cancelling, waiting. */
#include "http/http.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve.h"

/* What the callbacks of one transfer have seen, and what they are to do. */
struct seen {
    char text[4096];
    int n_chunks;
    int n_done;
    int status;
    struct err err;
    enum err_code answer; /* of on_chunk */
    uint64_t cancels;     /* a transfer to cancel in every callback */
    bool calls;           /* try a http_call() in every callback */
    enum err_code called; /* what it returned */
    struct seen *starts;  /* start one more in on_done */
};

static void act(struct seen *s)
{
    struct http_response r = {0};

    if (s->cancels)
        http_cancel(loop, s->cancels);
    if (s->calls)
        s->called = get(&r);
}

static enum err_code on_chunk(void *ctx, const char *bytes, size_t n, struct err *e)
{
    struct seen *s = ctx;

    strncat(s->text, bytes, n);
    s->n_chunks++;
    act(s);
    return s->answer == ERR_OK ? ERR_OK : err_set(e, s->answer, "enough");
}

static uint64_t start(struct seen *s);

static void on_done(void *ctx, struct http_response *response, const struct err *e)
{
    struct seen *s = ctx;

    s->n_done++;
    s->status = response->status;
    s->err = *e;
    strncat(s->text, buf_text(&response->body), response->body.len);
    act(s);
    if (s->starts)
        start(s->starts);
}

static uint64_t start(struct seen *s)
{
    struct http_request request = {.url = url, .deadline_ms = 10000};
    struct http_handler handler = {s, on_done, on_chunk};
    uint64_t id = 0;

    assert_int_equal(http_start(loop, &request, handler, &id, &err), ERR_OK);
    assert_true(id != 0);
    return id;
}

static void poll_until(const int *counter, int value)
{
    int64_t end_ms = clock_now_ms() + 5000;

    while (*counter < value && clock_now_ms() < end_ms)
        assert_int_equal(http_poll(loop, 100, &err), ERR_OK);
    assert_true(*counter >= value);
}

static void poll_for_a_while(void)
{
    int64_t end_ms = clock_now_ms() + 100;

    while (clock_now_ms() < end_ms)
        assert_int_equal(http_poll(loop, 10, &err), ERR_OK);
}

static void http_stream_hands_chunks_over_as_they_come(void **state)
{
    struct seen s = {0};

    (void)state;
    SERVE({.expect = "GET",
           .body = "abcdefghij",
           .piece_bytes = 2,
           .pause_ms = 20,
           .is_stream = true});
    start(&s);
    poll_until(&s.n_done, 1);
    assert_int_equal(s.err.code, ERR_OK);
    assert_string_equal(s.text, "abcdefghij");
    assert_true(s.n_chunks >= 3);
}

static void http_stream_collects_the_body_of_a_refusal(void **state)
{
    struct seen s = {0};

    (void)state;
    SERVE({.expect = "GET", .status = 410, .body = "too old"});
    start(&s);
    poll_until(&s.n_done, 1);
    assert_int_equal(s.status, 410);
    assert_int_equal(s.n_chunks, 0);
    assert_string_equal(s.text, "too old");
}

static void http_stream_ends_with_the_error_of_its_callback(void **state)
{
    struct seen s = {.answer = ERR_GONE};

    (void)state;
    SERVE({.expect = "GET", .body = "abc", .is_stream = true, .end = LOOPBACK_HANG});
    start(&s);
    poll_until(&s.n_done, 1);
    assert_int_equal(s.err.code, ERR_GONE);
    assert_non_null(strstr(s.err.text, "enough"));
    assert_int_equal(s.n_chunks, 1);
}

static void http_call_lets_a_stream_go_on(void **state)
{
    struct http_response r = {0};
    struct seen s = {0};

    (void)state;
    SERVE({.expect = "GET", .body = "abcdef", .piece_bytes = 1, .pause_ms = 10, .is_stream = true},
          {.expect = "GET", .body = "slow", .pause_ms = 400});
    start(&s);
    poll_until(&s.n_chunks, 1);
    assert_int_equal(get(&r), ERR_OK);
    assert_string_equal(buf_text(&r.body), "slow");
    assert_int_equal(s.n_done, 1); /* all of it came while the call waited */
    assert_string_equal(s.text, "abcdef");
    buf_deinit(&r.body);
}

static void http_callbacks_cannot_wait_but_can_start(void **state)
{
    struct seen second = {0};
    struct seen first = {.calls = true, .starts = &second};

    (void)state;
    SERVE({.expect = "GET", .body = "one"}, {.expect = "GET", .body = "two"});
    start(&first);
    poll_until(&second.n_done, 1);
    assert_int_equal(first.called, ERR_INVALID);
    assert_string_equal(second.text, "two");
}

static void http_cancel_keeps_a_handler_from_being_called(void **state)
{
    struct seen before = {0};
    struct seen during = {0};
    uint64_t id;

    (void)state;
    SERVE({.expect = "GET", .body = "abc", .is_stream = true, .end = LOOPBACK_HANG});
    http_cancel(loop, start(&before));
    id = start(&during);
    poll_until(&during.n_chunks, 1);
    http_cancel(loop, id);
    http_cancel(loop, id);
    http_cancel(loop, 0);
    poll_for_a_while();
    assert_int_equal(before.n_done + during.n_done, 0);
}

static void http_cancel_of_itself_inside_a_chunk_is_fine(void **state)
{
    struct seen s = {0};

    (void)state;
    SERVE({.expect = "GET", .body = "abcdef", .piece_bytes = 1, .pause_ms = 5, .is_stream = true});
    s.cancels = start(&s);
    poll_until(&s.n_chunks, 1);
    poll_for_a_while();
    assert_int_equal(s.n_chunks, 1);
    assert_int_equal(s.n_done, 0);
}

static void http_cancel_of_another_inside_a_callback_is_fine(void **state)
{
    struct seen a = {0};
    struct seen b = {0};

    (void)state;
    SERVE({.expect = "GET", .body = "x"}, {.expect = "GET", .body = "x"});
    b.cancels = start(&a);
    a.cancels = start(&b);
    for (int64_t end_ms = clock_now_ms() + 5000; a.n_done + b.n_done == 0;) {
        assert_true(clock_now_ms() < end_ms);
        assert_int_equal(http_poll(loop, 10, &err), ERR_OK);
    }
    poll_for_a_while();
    assert_int_equal(a.n_done + b.n_done, 1);
}

static void http_free_ends_what_is_under_way(void **state)
{
    struct seen running = {0};
    struct seen queued = {0};

    (void)state;
    SERVE({.expect = "GET", .end = LOOPBACK_HANG, .is_stream = true, .body = "x"});
    start(&running);
    poll_until(&running.n_chunks, 1);
    start(&queued);
    http_free(loop);
    assert_int_equal(running.n_done + queued.n_done, 0);
    assert_int_equal(make_loop(NULL), 0);
}

static void http_start_has_a_limit(void **state)
{
    struct http_request request = {.url = "http://127.0.0.1:1/"};
    struct http_handler handler = {NULL, on_done, NULL};
    uint64_t id = 0;

    (void)state;
    for (int i = 0; i < HTTP_TRANSFERS_MAX; i++)
        assert_int_equal(http_start(loop, &request, handler, &id, &err), ERR_OK);
    assert_int_equal(http_start(loop, &request, handler, &id, &err), ERR_LIMIT);
}

static void *wake_soon(void *arg)
{
    (void)arg;
    (void)usleep(50000);
    http_stop(loop);
    return NULL;
}

static void http_stop_from_another_thread_ends_a_poll(void **state)
{
    int64_t began_ms = clock_now_ms();
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wake_soon, NULL), 0);
    assert_int_equal(http_poll(loop, 5000, &err), ERR_OK);
    assert_true(clock_now_ms() - began_ms < 2000);
    pthread_join(thread, NULL);
}

static void http_poll_waits_as_long_as_it_was_told(void **state)
{
    int64_t began_ms = clock_now_ms();

    (void)state;
    assert_int_equal(http_poll(loop, 100, &err), ERR_OK);
    assert_true(clock_now_ms() - began_ms >= 95);
    began_ms = clock_now_ms();
    assert_int_equal(http_poll(loop, 0, &err), ERR_OK);
    assert_true(clock_now_ms() - began_ms < 90);
}

static void http_stop_leaves_a_call_that_hangs(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET /", .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG},
          {.expect = "GET /", .body = "late"});
    http_stop(loop);
    assert_int_equal(get(&r), ERR_AGAIN);
    assert_string_equal(err.text, "stopped");
    assert_int_equal(get(&r), ERR_AGAIN); /* and nothing is sent any more */
    assert_int_equal(loopback_unused(server), 1);
}

static void http_stop_lets_a_call_come_to_its_end(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET /", .body = "in time"});
    http_stop(loop);
    assert_int_equal(get(&r), ERR_OK);
    assert_string_equal(buf_text(&r.body), "in time");
    buf_deinit(&r.body);
}

static void http_turns_while_a_call_waits(void **state)
{
    struct http_response r = {0};
    int64_t began_ms = clock_now_ms();

    (void)state;
    SERVE({.expect = "GET /", .body = "x", .pause_ms = 30});
    assert_int_equal(get(&r), ERR_OK);
    assert_true(http_turned_ms(loop) >= began_ms + 30);
    buf_deinit(&r.body);
}

/* A thread that calls, in a loop that the test's thread polls. */
struct guest {
    pthread_t thread;
    const char *path;
    enum err_code rc;
    char text[64];
    atomic_bool is_done;
};

static void *call_as_guest(void *arg)
{
    struct guest *g = arg;
    char to[128];
    struct http_request request = {.url = to, .deadline_ms = 10000};
    struct http_response r = {0};

    (void)snprintf(to, sizeof to, "%s%s", url, g->path);
    http_enter(loop);
    g->rc = http_call(loop, &request, &r, NULL);
    if (g->rc == ERR_OK)
        (void)snprintf(g->text, sizeof g->text, "%s", buf_text(&r.body));
    buf_deinit(&r.body);
    http_leave(loop);
    g->is_done = true;
    http_wake(loop);
    return NULL;
}

static void poll_until_done(const struct guest *g)
{
    int64_t end_ms = clock_now_ms() + 5000;

    while (!g->is_done && clock_now_ms() < end_ms)
        assert_int_equal(http_poll(loop, 100, &err), ERR_OK);
    assert_true(g->is_done);
}

static void http_share_lets_a_call_go_on_while_that_of_another_thread_hangs(void **state)
{
    struct guest hangs = {.path = "/hangs"}, answers = {.path = "/answers"};

    (void)state;
    SERVE({.expect = "GET /a/hangs", .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG},
          {.expect = "GET /a/answers", .body = "x"});
    http_share(loop);
    assert_int_equal(pthread_create(&hangs.thread, NULL, call_as_guest, &hangs), 0);
    while (loopback_unused(server) > 1)
        assert_int_equal(http_poll(loop, 10, &err), ERR_OK);
    assert_int_equal(pthread_create(&answers.thread, NULL, call_as_guest, &answers), 0);
    poll_until_done(&answers);
    assert_int_equal(answers.rc, ERR_OK);
    assert_string_equal(answers.text, "x");
    assert_false(hangs.is_done);
    http_stop(loop);
    poll_until_done(&hangs);
    assert_int_equal(hangs.rc, ERR_AGAIN);
    http_unshare(loop);
    assert_int_equal(pthread_join(hangs.thread, NULL), 0);
    assert_int_equal(pthread_join(answers.thread, NULL), 0);
}

static void *pause_as_guest(void *arg)
{
    struct guest *g = arg;

    http_enter(loop);
    g->rc = http_pause(loop, 1, NULL);
    (void)snprintf(g->text, sizeof g->text, "has waited"); /* with the lock */
    http_leave(loop);
    g->is_done = true;
    return NULL;
}

static void http_share_keeps_other_threads_out_but_for_waits(void **state)
{
    struct guest g = {.rc = ERR_IO};

    (void)state;
    SERVE({.expect = "GET /", .body = "x"});
    http_share(loop);
    assert_int_equal(pthread_create(&g.thread, NULL, pause_as_guest, &g), 0);
    (void)usleep(20000); /* in which it would have done it */
    assert_string_equal(g.text, "");
    poll_until_done(&g);
    assert_int_equal(g.rc, ERR_OK);
    assert_string_equal(g.text, "has waited");
    http_unshare(loop);
    assert_int_equal(pthread_join(g.thread, NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_loop, free_loop)

static int test_http(void)
{
    const struct CMUnitTest tests[] = {
        TEST(http_stream_hands_chunks_over_as_they_come),
        TEST(http_stream_collects_the_body_of_a_refusal),
        TEST(http_stream_ends_with_the_error_of_its_callback),
        TEST(http_call_lets_a_stream_go_on),
        TEST(http_callbacks_cannot_wait_but_can_start),
        TEST(http_cancel_keeps_a_handler_from_being_called),
        TEST(http_cancel_of_itself_inside_a_chunk_is_fine),
        TEST(http_cancel_of_another_inside_a_callback_is_fine),
        TEST(http_free_ends_what_is_under_way),
        TEST(http_start_has_a_limit),
        TEST(http_stop_from_another_thread_ends_a_poll),
        TEST(http_poll_waits_as_long_as_it_was_told),
        TEST(http_stop_leaves_a_call_that_hangs),
        TEST(http_stop_lets_a_call_come_to_its_end),
        TEST(http_turns_while_a_call_waits),
        TEST(http_share_lets_a_call_go_on_while_that_of_another_thread_hangs),
        TEST(http_share_keeps_other_threads_out_but_for_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- call --- */

/* One request: what is sent, what comes back, and every way in which it can fail. */

static void http_call_returns_status_and_body(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET /a HTTP/1.1\r\n", .status = 404, .body = "not here"});
    assert_int_equal(get(&r), ERR_OK);
    assert_int_equal(r.status, 404);
    assert_string_equal(buf_text(&r.body), "not here");
    assert_true(r.retry_after_ms == -1);
    buf_deinit(&r.body);
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
    buf_deinit(&r.body);
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
    buf_deinit(&r.body);
    assert_null(strstr(loopback_request(server, 1), "Authorization"));
}

static void http_call_uses_a_connection_again(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET"}, {.expect = "GET"}, {.expect = "GET"});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get(&r), ERR_OK);
        buf_deinit(&r.body);
    }
    assert_int_equal(loopback_connections(server), 1);
}

static void http_call_closes_a_connection_on_request(void **state)
{
    struct http_response r = {0};
    struct http_request request = {.url = url, .closes = true};

    (void)state;
    SERVE({.expect = "GET"}, {.expect = "GET"}, {.expect = "GET"});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(http_call(loop, &request, &r, &err), ERR_OK);
        buf_deinit(&r.body);
    }
    assert_int_equal(loopback_connections(server), 3);
}

static void http_call_survives_a_kept_connection_that_was_closed(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .end = LOOPBACK_CLOSE}, {.expect = "GET", .body = "again"});
    assert_int_equal(get(&r), ERR_OK);
    buf_deinit(&r.body);
    assert_int_equal(get(&r), ERR_OK);
    assert_string_equal(buf_text(&r.body), "again");
    buf_deinit(&r.body);
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
    buf_deinit(&r.body);
}

static void http_call_does_not_unpack_what_it_did_not_ask_for(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .headers = "Content-Encoding: gzip\r\n", .body = "\x1f\x8b bomb"});
    assert_int_equal(get(&r), ERR_OK);
    assert_int_equal(r.body.len, 7);
    buf_deinit(&r.body);
}

static void http_call_reads_retry_after(void **state)
{
    struct http_response r = {0};

    (void)state;
    SERVE({.expect = "GET", .status = 429, .headers = "Retry-After: 7\r\n"});
    assert_int_equal(get(&r), ERR_OK);
    assert_true(r.retry_after_ms == 7000);
    buf_deinit(&r.body);
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

static int test_call(void)
{
    const struct CMUnitTest singles[] = {
        TEST(http_call_returns_status_and_body),
        TEST(http_call_sends_method_headers_and_body),
        TEST(http_call_uses_a_connection_again),
        TEST(http_call_closes_a_connection_on_request),
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

int main(void)
{
    return test_http() + test_call();
}
