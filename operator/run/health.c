#include "run/health.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 16

struct connection {
    int fd; /* -1: free */
    uint64_t number;
    size_t n;
    char request[HEALTH_REQUEST_BYTES];
};

struct health {
    int listener;
    uint64_t n_connections; /* ever */
    struct health_source source;
    struct connection connections[HEALTH_CONNECTIONS_MAX];
};

static enum err_code listen_on(const struct addrinfo *a, const char *address, int *out,
                               struct err *err)
{
    int one = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);

    if (fd < 0)
        return err_set(err, ERR_IO, "health address %s: %s", address, strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        enum err_code rc = err_set(err, ERR_IO, "health address %s: %s", address, strerror(errno));

        (void)close(fd);
        return rc;
    }
    *out = fd;
    return ERR_OK;
}

enum err_code health_open(const char *address, struct health_source source, struct health **out,
                          struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    char host[64];
    struct health *h;
    enum err_code rc;

    if (!colon || (size_t)(colon - address) >= sizeof host)
        return err_set(err, ERR_INVALID, "health address \"%.80s\" is not HOST:PORT", address);
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return err_set(err, ERR_INVALID, "health address \"%.80s\" is not HOST:PORT", address);
    h = calloc(1, sizeof *h);
    rc = h ? listen_on(found, address, &h->listener, err)
           : err_set(err, ERR_NO_MEMORY, "no memory for the health port");
    freeaddrinfo(found);
    if (rc != ERR_OK) {
        free(h);
        return rc;
    }
    h->source = source;
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
        h->connections[i].fd = -1;
    *out = h;
    return ERR_OK;
}

static void drop(struct connection *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
}

void health_close(struct health *h)
{
    if (!h)
        return;
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
        drop(&h->connections[i]);
    (void)close(h->listener);
    free(h);
}

size_t health_fds(const struct health *h, struct pollfd fds[static HEALTH_FDS_MAX])
{
    size_t n = 0;

    if (!h)
        return 0;
    fds[n++] = (struct pollfd){.fd = h->listener, .events = POLLIN};
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
        if (h->connections[i].fd >= 0)
            fds[n++] = (struct pollfd){.fd = h->connections[i].fd, .events = POLLIN};
    return n;
}

static void answer(const struct connection *c, const char *status, const char *type,
                   const struct buf *body)
{
    char head[256];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n",
                     status, type, body->len);

    /* Small enough for the socket's buffer; a client that is gone is no concern of ours. */
    if (send(c->fd, head, (size_t)n, MSG_NOSIGNAL) == n && body->len > 0)
        (void)send(c->fd, body->data, body->len, MSG_NOSIGNAL);
}

static void answer_text(const struct connection *c, const char *status, const char *text)
{
    struct buf body = {.max = 256};

    if (buf_addf(&body, NULL, "%s\n", text) == ERR_OK)
        answer(c, status, "text/plain", &body);
    buf_deinit(&body);
}

static void answer_metrics(const struct health *h, const struct connection *c)
{
    struct buf body = {.max = HEALTH_METRICS_BYTES};
    struct err err;

    if (h->source.write_metrics(h->source.ctx, &body, &err) == ERR_OK)
        answer(c, "200 OK", "text/plain; version=0.0.4", &body);
    else
        answer_text(c, "500 Internal Server Error", err.text);
    buf_deinit(&body);
}

static void handle(const struct health *h, const struct connection *c)
{
    char path[64];

    if (sscanf(c->request, "GET %63[^ ?\r\n]", path) != 1)
        answer_text(c, "405 Method Not Allowed", "only GET is served here");
    else if (strcmp(path, "/healthz") == 0)
        answer_text(c, "200 OK", "ok");
    else if (strcmp(path, "/readyz") == 0 && h->source.is_ready(h->source.ctx))
        answer_text(c, "200 OK", "ok");
    else if (strcmp(path, "/readyz") == 0)
        answer_text(c, "503 Service Unavailable", "still listing what is in the cluster");
    else if (strcmp(path, "/metrics") == 0)
        answer_metrics(h, c);
    else
        answer_text(c, "404 Not Found", "there is /healthz, /readyz and /metrics");
}

static void read_request(const struct health *h, struct connection *c)
{
    ssize_t n = recv(c->fd, c->request + c->n, sizeof c->request - 1 - c->n, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(c);
        return;
    }
    c->n += (size_t)n;
    c->request[c->n] = '\0';
    if (strstr(c->request, "\r\n\r\n"))
        handle(h, c);
    else if (c->n < sizeof c->request - 1)
        return;
    drop(c);
}

static void accept_one(struct health *h)
{
    struct connection *c = &h->connections[0];
    int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX && c->fd >= 0; i++)
        if (h->connections[i].fd < 0 || h->connections[i].number < c->number)
            c = &h->connections[i];
    drop(c);
    c->fd = fd;
    c->n = 0;
    c->number = ++h->n_connections;
}

void health_serve(struct health *h, const struct pollfd *fds, size_t n_fds)
{
    for (size_t i = 0; i < n_fds; i++) {
        if (fds[i].revents == 0)
            continue;
        if (fds[i].fd == h->listener) {
            accept_one(h);
            continue;
        }
        for (int k = 0; k < HEALTH_CONNECTIONS_MAX; k++)
            if (h->connections[k].fd == fds[i].fd)
                read_request(h, &h->connections[k]);
    }
}
