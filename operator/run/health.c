#include "run/health.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define BACKLOG 16
#define FDS_MAX (HEALTH_CONNECTIONS_MAX + 2)

struct connection {
    int fd; /* -1: free */
    uint64_t number;
    size_t n;
    char request[HEALTH_REQUEST_BYTES];
};

struct health {
    pthread_t thread;
    int listener;
    int stopper;            /* an eventfd; readable: end */
    uint64_t n_connections; /* ever */
    struct health_source source;
    struct connection connections[HEALTH_CONNECTIONS_MAX];
    pthread_mutex_t lock; /* of what follows */
    bool is_ready;
    struct buf metrics;
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

static void drop(struct connection *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
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

static void answer_metrics(struct health *h, const struct connection *c)
{
    pthread_mutex_lock(&h->lock);
    answer(c, "200 OK", "text/plain; version=0.0.4", &h->metrics);
    pthread_mutex_unlock(&h->lock);
}

static bool is_ready(struct health *h)
{
    bool yes;

    pthread_mutex_lock(&h->lock);
    yes = h->is_ready;
    pthread_mutex_unlock(&h->lock);
    return yes;
}

static bool is_stalled(const struct health *h)
{
    return clock_now_ms() - h->source.turned_ms(h->source.ctx) >= HEALTH_STALLED_MS;
}

static void handle(struct health *h, const struct connection *c)
{
    char path[64];

    if (sscanf(c->request, "GET %63[^ ?\r\n]", path) != 1)
        answer_text(c, "405 Method Not Allowed", "only GET is served here");
    else if (strcmp(path, "/healthz") == 0 && is_stalled(h))
        answer_text(c, "503 Service Unavailable", "the loop does not turn");
    else if (strcmp(path, "/healthz") == 0)
        answer_text(c, "200 OK", "ok");
    else if (strcmp(path, "/readyz") == 0 && is_ready(h))
        answer_text(c, "200 OK", "ok");
    else if (strcmp(path, "/readyz") == 0)
        answer_text(c, "503 Service Unavailable", "still listing what is in the cluster");
    else if (strcmp(path, "/metrics") == 0)
        answer_metrics(h, c);
    else
        answer_text(c, "404 Not Found", "there is /healthz, /readyz and /metrics");
}

static void read_request(struct health *h, struct connection *c)
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

static void serve_ready(struct health *h, const struct pollfd *fds, size_t n_fds)
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

static void *serve(void *arg)
{
    struct health *h = arg;

    for (;;) {
        struct pollfd fds[FDS_MAX] = {{.fd = h->stopper, .events = POLLIN},
                                      {.fd = h->listener, .events = POLLIN}};
        size_t n = 2;

        for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
            if (h->connections[i].fd >= 0)
                fds[n++] = (struct pollfd){.fd = h->connections[i].fd, .events = POLLIN};
        if (poll(fds, n, -1) < 0)
            continue; /* EINTR, or memory that will be there again */
        if (fds[0].revents)
            return NULL;
        serve_ready(h, fds + 1, n - 1);
    }
}

/* --- life --- */

/* Signals are for the main thread. */
static enum err_code start_thread(struct health *h, struct err *err)
{
    sigset_t all;
    sigset_t before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&h->thread, NULL, serve, h);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? ERR_OK : err_set(err, ERR_NO_MEMORY, "health port: %s", strerror(rc));
}

static void free_health(struct health *h)
{
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
        drop(&h->connections[i]);
    if (h->listener >= 0)
        (void)close(h->listener);
    if (h->stopper >= 0)
        (void)close(h->stopper);
    (void)pthread_mutex_destroy(&h->lock);
    buf_deinit(&h->metrics);
    free(h);
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
    if (!h) {
        freeaddrinfo(found);
        return err_set(err, ERR_NO_MEMORY, "no memory for the health port");
    }
    h->source = source;
    h->listener = -1;
    for (int i = 0; i < HEALTH_CONNECTIONS_MAX; i++)
        h->connections[i].fd = -1;
    (void)pthread_mutex_init(&h->lock, NULL);
    h->stopper = eventfd(0, EFD_CLOEXEC);
    rc = h->stopper >= 0 ? listen_on(found, address, &h->listener, err)
                         : err_set(err, ERR_IO, "health port: %s", strerror(errno));
    freeaddrinfo(found);
    if (rc == ERR_OK)
        rc = start_thread(h, err);
    if (rc != ERR_OK) {
        free_health(h);
        return rc;
    }
    *out = h;
    return ERR_OK;
}

void health_close(struct health *h)
{
    if (!h)
        return;
    (void)eventfd_write(h->stopper, 1);
    (void)pthread_join(h->thread, NULL);
    free_health(h);
}

void health_publish(struct health *h, bool is_ready_now, struct buf *metrics)
{
    struct buf old;

    pthread_mutex_lock(&h->lock);
    h->is_ready = is_ready_now;
    old = h->metrics;
    h->metrics = *metrics;
    pthread_mutex_unlock(&h->lock);
    *metrics = (struct buf){0};
    buf_deinit(&old);
}
