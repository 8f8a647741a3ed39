/* serve.h - the fixture of the http tests: a loop, and a server that answers by script. */
#ifndef TESTS_HTTP_SERVE_H
#define TESTS_HTTP_SERVE_H

#include <stdio.h>

#include "http/http.h"
#include "loopback.h"

static struct http *loop;
static struct loopback *server;
static char url[64];
static struct err err;

static inline int make_loop(void **state)
{
    (void)state;
    return http_new(&loop, &err) == ERR_OK ? 0 : -1;
}

static inline int free_loop(void **state)
{
    (void)state;
    http_free(loop);
    if (server)
        loopback_stop(server);
    server = NULL;
    return 0;
}

#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    serve(replies, sizeof replies / sizeof *replies)

static inline void serve(const struct loopback_reply *replies, size_t n)
{
    server = loopback_start(replies, n);
    assert_non_null(server);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/a", loopback_port(server));
}

static inline enum err_code get(struct http_response *out)
{
    struct http_request request = {.url = url, .deadline_ms = 5000};

    return http_call(loop, &request, out, &err);
}

#endif
