#include "pipe/control.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define ADDRESS "127.0.0.1"

struct fixture {
    struct board board;
    struct control *control;
    int port;
    char answer[32768];
};

static struct fixture f;

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static int set_up(void **state)
{
    struct progress p = {.attempt = 1, .step = 41, .eta_seconds = -1};

    (void)state;
    board_init(&f.board);
    board_set_progress(&f.board, &p);
    f.port = free_port();
    return control_open(ADDRESS, f.port, 2, &f.board, &f.control, NULL) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    control_close(f.control);
    board_deinit(&f.board);
    return 0;
}

/* Send `request`, read until the server closes or pauses; returns the status code, 0 for none. */
static int ask(const char *request, size_t n)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)f.port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_usec = 300000};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t len = 0;
    ssize_t got;
    int status = 0;

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)!send(fd, request, n, MSG_NOSIGNAL);
    while ((got = recv(fd, f.answer + len, sizeof f.answer - 1 - len, 0)) > 0)
        len += (size_t)got;
    close(fd);
    f.answer[len] = '\0';
    (void)sscanf(f.answer, "HTTP/1.1 %d", &status);
    return status;
}

static int get(const char *path)
{
    char request[256];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

    return ask(request, (size_t)n);
}

static int post(const char *path, const char *body)
{
    char request[4096];
    int n = snprintf(request, sizeof request,
                     "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", path,
                     strlen(body), body);

    return ask(request, (size_t)n);
}

static void control_serves_the_progress_document(void **state)
{
    struct progress p;
    const char *body;

    (void)state;
    assert_int_equal(get("/v1/status"), 200);
    body = strstr(f.answer, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(progress_parse(body + 4, strlen(body + 4), &p, NULL), ERR_OK);
    assert_int_equal(p.step, 41);
}

static void control_is_healthy_and_ready_only_when_connected(void **state)
{
    (void)state;
    assert_int_equal(get("/healthz"), 200);
    assert_int_equal(get("/readyz"), 503);
    board_set_ready(&f.board, true);
    assert_int_equal(get("/readyz"), 200);
}

static void control_takes_a_peer_table_and_refuses_a_foreign_one(void **state)
{
    struct peers got;

    (void)state;
    assert_int_equal(post("/v1/peers", "{\"attempt\":9,\"stages\":[]}"), 409);
    assert_int_equal(post("/v1/peers", "{\"attempt\":"), 400);
    assert_int_equal(post("/v1/peers", "{\"attempt\":1,\"stages\":[{\"host\":\"127.0.0.1\","
                                       "\"port\":1},{\"host\":\"127.0.0.1\",\"port\":2}]}"),
                     200);
    assert_int_equal(board_wait_peers(&f.board, 0, &got, NULL), ERR_OK);
    assert_int_equal(got.stages[1].port, 2);
}

static void control_knows_no_other_pages_or_methods(void **state)
{
    (void)state;
    assert_int_equal(get("/"), 404);
    assert_int_equal(get("/v1/status/../../etc/passwd"), 404);
    assert_int_equal(post("/v1/status", "x"), 405);
}

static void control_survives_garbage_and_oversize(void **state)
{
    static char huge[PEERS_TEXT_MAX_BYTES * 2];
    static const char bytes[] = "\x00\xff\x16\x03\x01PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    char head[128];
    int n =
        snprintf(head, sizeof head,
                 "POST /v1/peers HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", sizeof huge);

    (void)state;
    memset(huge, 'x', sizeof huge);
    memcpy(huge, head, (size_t)n);
    (void)ask(bytes, sizeof bytes);
    (void)ask(huge, sizeof huge);
    (void)ask("GET /v1/status HTTP/1.1\r\n", 25); /* never finished */
    assert_int_equal(get("/healthz"), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(control_serves_the_progress_document, set_up, tear_down),
        cmocka_unit_test_setup_teardown(control_is_healthy_and_ready_only_when_connected, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(control_takes_a_peer_table_and_refuses_a_foreign_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(control_knows_no_other_pages_or_methods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(control_survives_garbage_and_oversize, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
