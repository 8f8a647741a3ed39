#include "loopback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tcp.h"

#define CONNECTIONS_MAX   64
#define REPLIES_MAX       64
#define REQUEST_MAX_BYTES ((size_t)12 << 20) /* a piece of an upload, and more */

struct connection {
    struct loopback *server;
    pthread_t thread;
    int fd;
};

struct loopback {
    const struct loopback_reply *replies; /* borrowed */
    size_t n_replies;
    int fd;
    int port;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    struct connection connections[CONNECTIONS_MAX];
    bool stops;
    char *requests[REPLIES_MAX]; /* NULL: the reply has not been taken */
    /* Read without it: */
    atomic_int n_connections;
    atomic_int n_strays;
};

static void pause_for(int ms)
{
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

    (void)nanosleep(&t, NULL);
}

/* One request with its body, NUL-terminated; what is left over stays for the next one. */
static bool read_request(int fd, char *text, size_t *len, size_t *out_bytes)
{
    for (;;) {
        const char *end = strstr(text, "\r\n\r\n");
        const char *length = end ? strcasestr(text, "\r\nContent-Length: ") : NULL;
        size_t body = length && length < end ? strtoul(length + 18, NULL, 10) : 0;
        ssize_t n;

        if (end && (size_t)(end - text) + 4 + body <= *len) {
            *out_bytes = (size_t)(end - text) + 4 + body;
            return true;
        }
        if (*len + 1 >= REQUEST_MAX_BYTES)
            return false;
        n = recv(fd, text + *len, REQUEST_MAX_BYTES - 1 - *len, 0);
        if (n <= 0)
            return false;
        *len += (size_t)n;
        text[*len] = '\0';
    }
}

static const struct loopback_reply *take_reply(struct loopback *l, const char *text, size_t n)
{
    const struct loopback_reply *found = NULL;
    char *copy = strndup(text, n);

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; copy && i < l->n_replies && !found; i++) {
        if (l->requests[i] || !strstr(copy, l->replies[i].expect))
            continue;
        l->requests[i] = copy;
        found = &l->replies[i];
    }
    if (!found) {
        l->n_strays++;
        free(copy);
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}

static bool send_pieces(int fd, const struct loopback_reply *r, const char *bytes)
{
    size_t left = strlen(bytes);
    char line[32];

    if (r->before)
        r->before();
    while (left > 0) {
        size_t n = r->piece_bytes && r->piece_bytes < left ? r->piece_bytes : left;
        bool sent = true;

        pause_for(r->pause_ms);
        if (r->is_stream) {
            (void)snprintf(line, sizeof line, "%zx\r\n", n);
            sent = tcp_send(fd, line, strlen(line));
        }
        sent = sent && tcp_send(fd, bytes, n);
        if (!sent || (r->is_stream && !tcp_send(fd, "\r\n", 2)))
            return false;
        bytes += n;
        left -= n;
    }
    return !r->is_stream || r->end != LOOPBACK_KEEP || tcp_send(fd, "0\r\n\r\n", 5);
}

static bool send_reply(int fd, const struct loopback_reply *r)
{
    const char *body = r->body ? r->body : "";
    char head[1024];
    int n;

    if (r->raw)
        return send_pieces(fd, r, r->raw);
    n = snprintf(head, sizeof head, "HTTP/1.1 %d Scripted\r\n%s", r->status ? r->status : 200,
                 r->headers ? r->headers : "");
    if (r->is_stream)
        (void)snprintf(head + n, sizeof head - (size_t)n, "Transfer-Encoding: chunked\r\n\r\n");
    else
        (void)snprintf(head + n, sizeof head - (size_t)n, "Content-Length: %zu\r\n\r\n",
                       strlen(body));
    return tcp_send(fd, head, strlen(head)) && send_pieces(fd, r, body);
}

static void *serve(void *arg)
{
    static const struct loopback_reply stray = {.status = 599, .body = "no such reply"};
    struct connection *c = arg;
    char *text = calloc(1, REQUEST_MAX_BYTES);
    struct linger at_once = {1, 0};
    size_t len = 0;
    size_t n = 0;
    enum loopback_end end = LOOPBACK_KEEP;

    while (text && end == LOOPBACK_KEEP && read_request(c->fd, text, &len, &n)) {
        const struct loopback_reply *r = take_reply(c->server, text, n);

        memmove(text, text + n, len - n + 1);
        len -= n;
        if (!r)
            r = &stray;
        end = send_reply(c->fd, r) ? r->end : LOOPBACK_CLOSE;
    }
    while (text && end == LOOPBACK_HANG && recv(c->fd, text, REQUEST_MAX_BYTES, 0) > 0)
        continue;
    if (end == LOOPBACK_RESET)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    free(text);
    pthread_mutex_lock(&c->server->lock);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&c->server->lock);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct loopback *l = arg;
    bool goes_on = true;

    while (goes_on) {
        int fd = accept(l->fd, NULL, NULL);
        struct connection *c;

        pthread_mutex_lock(&l->lock);
        c = &l->connections[l->n_connections];
        goes_on = fd >= 0 && !l->stops && l->n_connections < CONNECTIONS_MAX;
        if (goes_on) {
            *c = (struct connection){.server = l, .fd = fd};
            goes_on = pthread_create(&c->thread, NULL, serve, c) == 0;
        }
        if (goes_on)
            l->n_connections++;
        else if (fd >= 0)
            close(fd);
        pthread_mutex_unlock(&l->lock);
    }
    return NULL;
}

struct loopback *loopback_start(const struct loopback_reply *replies, size_t n_replies)
{
    struct loopback *l = calloc(1, sizeof *l);

    if (!l || n_replies > REPLIES_MAX) {
        free(l);
        return NULL;
    }
    l->replies = replies;
    l->n_replies = n_replies;
    (void)pthread_mutex_init(&l->lock, NULL);
    l->fd = tcp_listen(TCP_LOCAL, 0, &l->port);
    if (l->fd >= 0 && pthread_create(&l->thread, NULL, accept_all, l) == 0)
        return l;
    if (l->fd >= 0)
        close(l->fd);
    free(l);
    return NULL;
}

void loopback_stop(struct loopback *l)
{
    pthread_mutex_lock(&l->lock);
    l->stops = true;
    for (int i = 0; i < l->n_connections; i++)
        if (l->connections[i].fd >= 0)
            (void)shutdown(l->connections[i].fd, SHUT_RDWR);
    (void)shutdown(l->fd, SHUT_RDWR); /* ends accept() */
    pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
    for (int i = 0; i < l->n_connections; i++)
        (void)pthread_join(l->connections[i].thread, NULL);
    for (size_t i = 0; i < l->n_replies; i++)
        free(l->requests[i]);
    close(l->fd);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

int loopback_port(const struct loopback *l)
{
    return l->port;
}

int loopback_connections(const struct loopback *l)
{
    return l->n_connections;
}

int loopback_strays(const struct loopback *l)
{
    return l->n_strays;
}

int loopback_unused(struct loopback *l)
{
    int n = 0;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->n_replies; i++)
        n += l->requests[i] == NULL;
    pthread_mutex_unlock(&l->lock);
    return n;
}

const char *loopback_request(struct loopback *l, size_t i)
{
    const char *text;

    pthread_mutex_lock(&l->lock);
    text = l->requests[i] ? l->requests[i] : "";
    pthread_mutex_unlock(&l->lock);
    return text;
}
