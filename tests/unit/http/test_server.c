#include "http/server.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "client.h"

struct fixture {
    struct server *server;
    int port;
};

static struct fixture f;

/* Says back what it was asked, of a large body only its length. */
static void echo(void *ctx, const struct server_request *r, struct server_answer *out)
{
    (void)ctx;
    if (r->n_body > SERVER_ANSWER_BYTES / 2) {
        assert_int_equal(buf_addf(&out->body, NULL, "%zu bytes", r->n_body), ERR_OK);
        return;
    }
    assert_int_equal(buf_addf(&out->body, NULL, "%s %s [%s] %.*s", r->method, r->path,
                              server_header(r, "X-Token"), (int)r->n_body, r->body),
                     ERR_OK);
}

static bool admits(void *ctx, const struct server_request *head)
{
    (void)ctx;
    return head->n_body < 100000 && strcmp(server_header(head, "X-Token"), "abc") == 0 &&
           strcmp(head->path, "/a") == 0;
}

static int set_up(void **state)
{
    struct server_handler handler = {.on_request = echo, .admits = admits};

    (void)state;
    f.port = client_free_port();
    return server_open("127.0.0.1", f.port, handler, &f.server, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    server_close(f.server);
    return 0;
}

static const char *body_of_answer(void)
{
    const char *body = strstr(client_answer, "\r\n\r\n");

    return body ? body + 4 : "";
}

static int ask(const char *request)
{
    return client_ask(f.port, request, strlen(request));
}

static void server_hands_over_every_part_of_a_request(void **state)
{
    (void)state;
    assert_int_equal(ask("POST /a?b HTTP/1.1\r\nhost: x\r\ncontent-length:  3\r\n"
                         "x-token: abc\r\nX: y\r\n\r\nxyz and more"),
                     200);
    assert_string_equal(body_of_answer(), "POST /a?b [abc] xyz");
    assert_int_equal(ask("GET / HTTP/1.0\r\n\r\n"), 200);
    assert_string_equal(body_of_answer(), "GET / [] ");
}

static void server_reads_a_request_however_it_is_cut(void **state)
{
    static const char request[] = "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyz";

    (void)state;
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        int fd = client_dial(f.port);

        assert_int_equal(send(fd, request, cut, 0), cut);
        usleep(500);
        assert_int_equal(send(fd, request + cut, sizeof request - 1 - cut, 0),
                         sizeof request - 1 - cut);
        assert_int_equal(client_hear(fd), 200);
        assert_string_equal(body_of_answer(), "POST /a [] xyz");
    }
}

static void server_refuses_what_is_no_request(void **state)
{
    static const char *const bad[] = {"\r\n\r\n",
                                      "GET\r\n\r\n",
                                      "GET /\r\n\r\n",
                                      "GET / HTTP/2.0\r\n\r\n",
                                      "GET x HTTP/1.1\r\n\r\n",
                                      " / HTTP/1.1\r\n\r\n",
                                      "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                      "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                      "GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
                                      "GET / HTTP/1.1\r\nContent-Length: 1 1\r\n\r\n",
                                      ("GET / HTTP/1.1\r\nContent-Length: 1\r\n"
                                       "Content-Length: 1\r\n\r\nx")};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(ask(bad[i]), 400);
    assert_int_equal(client_ask(f.port, "GET /\0 HTTP/1.1\r\n\r\n", 19), 400);
}

static void server_refuses_what_is_too_large_before_it_is_read(void **state)
{
    static char head[SERVER_HEAD_MAX_BYTES + 2];

    (void)state;
    assert_int_equal(ask("POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n"), 413);
    assert_int_equal(ask("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), 413);
    memset(head, 'x', sizeof head - 1);
    assert_int_equal(ask(head), 413);
}

/* A request with a body of `n` bytes, all of which are sent. */
static int ask_large(const char *head, size_t n)
{
    char *request = calloc(1, 256 + n);
    int fd = client_dial(f.port);
    int n_head, status;

    assert_non_null(request);
    n_head = snprintf(request, 256, "%s\r\nContent-Length: %zu\r\n\r\n", head, n);
    memset(request + n_head, 'x', n);
    for (size_t at = 0; at < (size_t)n_head + n;) {
        ssize_t sent = send(fd, request + at, (size_t)n_head + n - at, MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        at += (size_t)sent;
    }
    status = client_hear(fd);
    free(request);
    return status;
}

static void server_reads_a_large_body_only_from_who_is_admitted(void **state)
{
    (void)state;
    assert_int_equal(ask_large("POST /a HTTP/1.1\r\nX-Token: abc", 99999), 200);
    assert_string_equal(body_of_answer(), "99999 bytes");
    assert_int_equal(ask_large("POST /a HTTP/1.1\r\nX-Token: abc", 100000), 413);
    assert_int_equal(ask("POST /a HTTP/1.1\r\nX-Token: abd\r\nContent-Length: 65537\r\n\r\n"), 413);
    assert_int_equal(ask("POST /b HTTP/1.1\r\nX-Token: abc\r\nContent-Length: 65537\r\n\r\n"), 413);
    assert_int_equal(ask("POST /b HTTP/1.1\r\nContent-Length: 70000\r\n\r\n"), 413);
}

static void server_takes_the_place_of_the_one_that_waits_longest(void **state)
{
    int fds[SERVER_CONNECTIONS_MAX];
    int fd;

    (void)state;
    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        fds[i] = client_dial(f.port);
        assert_int_equal(send(fds[i], "GET /", 5, 0), 5);
        usleep(2000); /* so that they have waited differently long */
    }
    fd = client_dial(f.port);
    assert_int_equal(client_hear(fds[0]), 0);
    for (int i = 1; i < SERVER_CONNECTIONS_MAX; i++) {
        assert_int_equal(send(fds[i], " HTTP/1.1\r\n\r\n", 13, MSG_NOSIGNAL), 13);
        assert_int_equal(client_hear(fds[i]), 200);
    }
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    assert_int_equal(client_hear(fd), 200);
}

static void server_gives_up_on_a_request_that_does_not_end(void **state)
{
    int64_t start_ms = clock_now_ms();
    int fd = client_dial(f.port);

    (void)state;
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
    assert_int_equal(client_hear(fd), 0);
    assert_in_range(clock_now_ms() - start_ms, SERVER_REQUEST_MS - 100, 1000 * CLIENT_PATIENCE_S);
}

static void server_says_why_it_cannot_listen(void **state)
{
    struct server_handler handler = {.on_request = echo};
    struct server *second = NULL;
    struct err err;

    (void)state;
    assert_int_equal(server_open("127.0.0.1", f.port, handler, &second, &err), ERR_IO);
    assert_non_null(strstr(err.text, "in use"));
    assert_int_equal(server_open("localhost", f.port, handler, &second, &err), ERR_INVALID);
}

static atomic_int n_turns;
static atomic_int n_answered; /* before the last turn */
static atomic_int n_asked;

static int count_turn(void *ctx)
{
    (void)ctx;
    n_turns++;
    n_answered = n_asked;
    return 20;
}

static void count_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    (void)ctx;
    (void)r;
    (void)out;
    n_asked++;
}

static void wait_above(atomic_int *n, int limit)
{
    for (int i = 0; i < 10000 && *n <= limit; i++)
        (void)usleep(1000);
    assert_true(*n > limit);
}

static void server_has_a_turn_in_time_and_after_every_request(void **state)
{
    struct server_handler handler = {.on_request = count_request, .on_turn = count_turn};
    struct server *server = NULL;
    int port = client_free_port();

    (void)state;
    assert_int_equal(server_open("127.0.0.1", port, handler, &server, NULL), ERR_OK);
    wait_above(&n_turns, 2);
    assert_int_equal(n_answered, 0);
    assert_int_equal(client_ask(port, "GET / HTTP/1.1\r\n\r\n", 18), 200);
    wait_above(&n_answered, 0);
    server_close(server);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(server_hands_over_every_part_of_a_request),
        TEST(server_reads_a_request_however_it_is_cut),
        TEST(server_refuses_what_is_no_request),
        TEST(server_refuses_what_is_too_large_before_it_is_read),
        TEST(server_reads_a_large_body_only_from_who_is_admitted),
        TEST(server_takes_the_place_of_the_one_that_waits_longest),
        TEST(server_gives_up_on_a_request_that_does_not_end),
        TEST(server_says_why_it_cannot_listen),
        TEST(server_has_a_turn_in_time_and_after_every_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
