/* The operator's loop against an API server that does not answer. */
#include "run/loop.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "loopback.h"

#define PATIENCE_MS 20000

#define ITEMS(text) "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[" text "]}"
#define JOB                                                                                        \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\","                      \
    "\"resourceVersion\":\"5\",\"generation\":1},"                                                 \
    "\"spec\":{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}}"
#define HANGS(text)                                                                                \
    {                                                                                              \
        .expect = text, .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG                         \
    }

static struct http *http;
static struct kube_client *client;
static struct loopback *server;
static struct loop *loop;
static int port;

static void *run(void *arg)
{
    enum err_code *rc = arg;

    *rc = loop_run(loop, NULL);
    return NULL;
}

static void open_loop(void)
{
    struct kube_config config = {.namespace = strdup("default")};
    char address[32];
    struct loop_options options = {.settings = {.worker_image = "worker:1"},
                                   .health_address = address};
    enum err_code rc = ERR_IO;

    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&http, NULL), ERR_OK);
    assert_int_equal(kube_client_new(http, &config, NULL, &client, NULL), ERR_OK);
    for (port = 21000 + (int)(getpid() % 8000); rc != ERR_OK && port < 32000; port++) {
        (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
        rc = loop_new(client, &options, &loop, NULL);
    }
    port--;
    assert_int_equal(rc, ERR_OK);
}

/* The status of the answer of the health port. */
static int ask(const char *path)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[4096] = "";
    int status = 0;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_true(dprintf(fd, "GET %s HTTP/1.1\r\n\r\n", path) > 0);
    assert_true(recv(fd, text, sizeof text - 1, MSG_WAITALL) > 0);
    (void)close(fd);
    assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
    return status;
}

static void loop_serves_health_and_ends_while_a_call_hangs(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "skyjobs?limit=", .body = ITEMS(JOB)},
        {.expect = "/pods?limit=", .body = ITEMS("")},
        {.expect = "/nodes?limit=", .body = ITEMS("")},
        {.expect = "/configmaps?labelSelector=", .body = ITEMS("")},
        HANGS("/namespaces/team/")}; /* before any watch */
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    server = loopback_start(replies, sizeof replies / sizeof *replies);
    assert_non_null(server);
    open_loop();
    assert_int_equal(ask("/readyz"), 503);
    assert_int_equal(pthread_create(&thread, NULL, run, &rc), 0);
    while (loopback_unused(server) > 0 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    assert_int_equal(loopback_unused(server), 0); /* the last one is a call that is waited for */
    assert_int_equal(ask("/healthz"), 200);
    assert_int_equal(ask("/metrics"), 200);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    assert_true(clock_now_ms() < end_ms); /* a call alone may take KUBE_CALL_MS */
    loop_free(loop);
    kube_client_free(client);
    http_free(http);
    loopback_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_serves_health_and_ends_while_a_call_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
