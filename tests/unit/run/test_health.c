#include "run/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tcp.h"

#define CLIENTS 20

static struct health *health;
static int port;
static _Atomic int64_t stalled_ms;

static int64_t turned_ms(void *ctx)
{
    (void)ctx;
    return clock_now_ms() - stalled_ms;
}

static int open_health(void **state)
{
    (void)state;
    for (port = 21000 + (int)(getpid() % 8000); port < 32000; port++) {
        char address[32];

        (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
        if (health_open(address, turned_ms, NULL, &health, NULL) == ERR_OK)
            return 0;
    }
    return -1;
}

static int close_health(void **state)
{
    (void)state;
    health_close(health);
    return 0;
}

static int dial(void)
{
    struct timeval patience = {.tv_sec = 10};
    int fd = tcp_connect(TCP_LOCAL, port);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

/* Send in two pieces, as a network may, and read to the end. */
static void ask(const char *request, char *out, size_t bytes)
{
    int fd = dial();
    size_t half = strlen(request) / 2;
    size_t len = 0;
    ssize_t n;

    assert_int_equal(send(fd, request, half, 0), (ssize_t)half);
    assert_true(send(fd, request + half, strlen(request) - half, 0) > 0);
    while ((n = recv(fd, out + len, bytes - 1 - len, 0)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    (void)close(fd);
}

static void health_answers_while_nothing_else_does(void **state)
{
    char text[2048];

    (void)state;
    ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 200 ", 13);
}

static void health_tells_that_the_loop_does_not_turn(void **state)
{
    char text[2048];

    (void)state;
    stalled_ms = HEALTH_STALLED_MS / 2;
    ask("GET /healthz HTTP/1.1\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    stalled_ms = HEALTH_STALLED_MS;
    ask("GET /healthz HTTP/1.1\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 503", 12);
    stalled_ms = 0;
}

static void health_is_ready_when_that_was_published(void **state)
{
    char text[2048];

    (void)state;
    health_publish(health, false);
    ask("GET /readyz HTTP/1.0\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 503", 12);
    health_publish(health, true);
    ask("GET /readyz?verbose HTTP/1.0\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
}

static void health_refuses_what_it_does_not_serve(void **state)
{
    char text[2048];

    (void)state;
    ask("GET /../etc/passwd HTTP/1.1\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 404", 12);
    ask("GET /metrics HTTP/1.1\r\n\r\n", text, sizeof text); /* run/metrics_port.h */
    assert_memory_equal(text, "HTTP/1.1 404", 12);
    ask("POST /healthz HTTP/1.1\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 405", 12);
    ask("\x16\x03\x01 tls hello \r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 400", 12);
}

static void health_outlives_clients_that_only_connect(void **state)
{
    int fds[CLIENTS];
    char text[2048];

    (void)state;
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = dial();
    ask("GET /healthz HTTP/1.1\r\n\r\n", text, sizeof text);
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fds[i]);
}

static void health_refuses_an_address_that_is_none(void **state)
{
    struct health *h;

    (void)state;
    assert_int_equal(health_open("8081", turned_ms, NULL, &h, NULL), ERR_INVALID);
    assert_int_equal(health_open("nowhere:8081", turned_ms, NULL, &h, NULL), ERR_INVALID);
    assert_int_equal(health_open("127.0.0.1:http", turned_ms, NULL, &h, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_answers_while_nothing_else_does),
        cmocka_unit_test(health_tells_that_the_loop_does_not_turn),
        cmocka_unit_test(health_is_ready_when_that_was_published),
        cmocka_unit_test(health_refuses_what_it_does_not_serve),
        cmocka_unit_test(health_outlives_clients_that_only_connect),
        cmocka_unit_test(health_refuses_an_address_that_is_none),
    };
    return cmocka_run_group_tests(tests, open_health, close_health);
}
