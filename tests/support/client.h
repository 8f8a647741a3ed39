/* A raw HTTP client on loopback for tests of the worker's ports. */
#ifndef TEST_CLIENT_H
#define TEST_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/signature.h"
#include "tcp.h"

#define CLIENT_PATIENCE_S 10

static char client_answer[32768];

static inline int client_free_port(void)
{
    int port = tcp_quiet_port();

    assert_true(port > 0);
    return port;
}

static inline int client_dial(int port)
{
    struct timeval patience = {.tv_sec = CLIENT_PATIENCE_S};
    int fd = tcp_connect(TCP_LOCAL, port);

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

/* Read until the server closes; returns the status code, 0 for none. */
static inline int client_hear(int fd)
{
    size_t len = 0;
    ssize_t got;
    int status = 0;

    while ((got = recv(fd, client_answer + len, sizeof client_answer - 1 - len, 0)) > 0)
        len += (size_t)got;
    close(fd);
    client_answer[len] = '\0';
    (void)sscanf(client_answer, "HTTP/1.1 %d", &status);
    return status;
}

static inline int client_ask(int port, const void *request, size_t n)
{
    int fd = client_dial(port);

    (void)!send(fd, request, n, MSG_NOSIGNAL);
    return client_hear(fd);
}

/* With a signature when there is a key. */
static inline size_t client_request(const char *method, const char *path, const char *body,
                                    const struct hmac_key *key, char out[static 4096])
{
    struct signature_request signs = {method, path, body, strlen(body)};
    char text[HMAC_TEXT_BYTES];
    char line[128] = "";

    if (key) {
        assert_int_equal(signature_make(key, &signs, text, NULL), ERR_OK);
        (void)snprintf(line, sizeof line, "%s: %s\r\n", SIGNATURE_HEADER, text);
    }
    return (size_t)snprintf(out, 4096,
                            "%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", method,
                            path, line, strlen(body), body);
}

static inline int client_call(int port, const char *method, const char *path, const char *body,
                              const struct hmac_key *key)
{
    char request[4096];

    return client_ask(port, request, client_request(method, path, body, key, request));
}

#endif
