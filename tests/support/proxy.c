#include "proxy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "tcp.h"
#include "wire/frame.h"

#define CONNECTIONS_MAX   256
#define MESSAGE_MAX_BYTES (64u << 20)
#define WS_FIN            0x80
#define WS_IS_CONTROL     0x08
#define WS_MASKED         0x80

struct connection {
    struct proxy *proxy;
    pthread_t out, back;
    int dialer, target; /* sockets, open until proxy_stop() */
    bool holds;
};

struct proxy {
    struct proxy_fault fault;
    char to_host[INET_ADDRSTRLEN];
    int to_port;
    int fd;
    int port;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    struct connection connections[CONNECTIONS_MAX];
    int n_connections;
    int n_matching;
    bool stops;
    /* Read without it: */
    _Atomic int64_t n_messages;
    atomic_bool is_done;
};

/* Append exactly `n` bytes. */
static bool recv_into(int fd, struct buf *out, size_t n)
{
    char piece[65536];

    while (n > 0) {
        ssize_t got = recv(fd, piece, n < sizeof piece ? n : sizeof piece, 0);

        if (got <= 0 || buf_add(out, piece, (size_t)got, NULL) != ERR_OK)
            return false;
        n -= (size_t)got;
    }
    return true;
}

/* --- what the dialing side sends --- */

static bool recv_request(int fd, struct buf *out)
{
    while (out->len < 4 || memcmp(out->data + out->len - 4, "\r\n\r\n", 4) != 0)
        if (!recv_into(fd, out, 1))
            return false;
    return true;
}

/* Append one websocket frame; the front of its payload goes to `head` without its mask. */
static bool recv_frame(int fd, struct buf *out, uint8_t *head, size_t *n_head, uint8_t *opcode)
{
    const size_t start = out->len;
    const uint8_t *p;
    size_t n_length, at;
    uint64_t n;

    if (!recv_into(fd, out, 2))
        return false;
    p = (const uint8_t *)out->data + start;
    *opcode = p[0];
    n = p[1] & ~WS_MASKED & 0xff;
    n_length = n == 127 ? 8 : n == 126 ? 2 : 0;
    if (!(p[1] & WS_MASKED) || !recv_into(fd, out, n_length + 4))
        return false;
    p = (const uint8_t *)out->data + start + 2;
    for (size_t i = 0; i < n_length; i++)
        n = (i == 0 ? 0 : n << 8) | p[i];
    at = out->len;
    if (n > MESSAGE_MAX_BYTES || !recv_into(fd, out, (size_t)n))
        return false;
    p = (const uint8_t *)out->data + at;
    for (size_t i = 0; i < n && *n_head < FRAME_HEADER_BYTES && !(*opcode & WS_IS_CONTROL); i++)
        head[(*n_head)++] = (uint8_t)(p[i] ^ p[(ptrdiff_t)(i % 4) - 4]);
    return true;
}

/* A control frame, or all frames of a message. False: the connection has ended. */
static bool recv_message(int fd, struct buf *out, struct frame_header *head)
{
    const struct frame_limits any = {
        .kinds = UINT32_MAX, .meta_max_bytes = UINT32_MAX, .tensor_max_bytes = UINT64_MAX};
    uint8_t bytes[FRAME_HEADER_BYTES];
    size_t n_bytes = 0;
    uint8_t opcode;

    do {
        if (!recv_frame(fd, out, bytes, &n_bytes, &opcode))
            return false;
    } while (!(opcode & WS_FIN));
    if (frame_decode(bytes, n_bytes, &any, head, NULL) != ERR_OK)
        *head = (struct frame_header){.kind = FRAME_NONE};
    return true;
}

/* --- the fault --- */

/* Count the message, and find what happens to it. */
static enum proxy_fault_kind judge(struct proxy *p, const struct frame_header *head)
{
    const struct proxy_fault *f = &p->fault;
    enum proxy_fault_kind kind = PROXY_NONE;

    if (head->kind != FRAME_DATA)
        return PROXY_NONE;
    pthread_mutex_lock(&p->lock);
    p->n_messages++;
    if (f->kind != PROXY_NONE && !p->is_done && (f->type < 0 || (uint32_t)f->type == head->type) &&
        (f->step < 0 || (uint64_t)f->step == head->step) &&
        (f->microbatch < 0 || (uint64_t)f->microbatch == head->microbatch) &&
        p->n_matching++ == f->skip) {
        p->is_done = true;
        kind = f->kind;
    }
    pthread_mutex_unlock(&p->lock);
    return kind;
}

/* What has been sent still arrives. */
static void cut_all(struct proxy *p)
{
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n_connections; i++) {
        (void)shutdown(p->connections[i].dialer, SHUT_RDWR);
        (void)shutdown(p->connections[i].target, SHUT_RDWR);
    }
    pthread_mutex_unlock(&p->lock);
}

static bool pass_on(struct connection *c, const struct buf *message, enum proxy_fault_kind kind)
{
    const struct timespec delay = {c->proxy->fault.delay_ms / 1000,
                                   (c->proxy->fault.delay_ms % 1000) * 1000000L};
    bool is_sent;

    if (kind == PROXY_DELAY)
        (void)nanosleep(&delay, NULL);
    c->holds = c->holds || kind == PROXY_HOLD;
    if (c->holds)
        return true;
    is_sent =
        tcp_send(c->target, message->data, kind == PROXY_HALF ? message->len / 2 : message->len);
    if (is_sent && kind == PROXY_REPEAT)
        is_sent = tcp_send(c->target, message->data, message->len);
    if (kind == PROXY_CUT || kind == PROXY_HALF)
        cut_all(c->proxy);
    return is_sent;
}

/* --- connections --- */

static void *run_out(void *ctx)
{
    struct connection *c = ctx;
    struct buf message = {.max = MESSAGE_MAX_BYTES};
    struct frame_header head;
    bool goes_on = recv_request(c->dialer, &message) && pass_on(c, &message, PROXY_NONE);

    while (goes_on) {
        buf_reset(&message);
        goes_on = recv_message(c->dialer, &message, &head) &&
                  pass_on(c, &message, judge(c->proxy, &head));
    }
    buf_deinit(&message);
    (void)shutdown(c->target, SHUT_WR);
    return NULL;
}

static void *run_back(void *ctx)
{
    struct connection *c = ctx;
    char piece[65536];
    ssize_t n;

    while ((n = recv(c->target, piece, sizeof piece, 0)) > 0)
        if (!tcp_send(c->dialer, piece, (size_t)n))
            break;
    (void)shutdown(c->dialer, SHUT_WR);
    return NULL;
}

static void serve(struct proxy *p, int dialer)
{
    int target = tcp_connect(p->to_host, p->to_port);
    struct connection *c;

    pthread_mutex_lock(&p->lock);
    c = &p->connections[p->n_connections];
    *c = (struct connection){.proxy = p, .dialer = dialer, .target = target};
    if (!p->stops && p->n_connections < CONNECTIONS_MAX && target >= 0 &&
        pthread_create(&c->out, NULL, run_out, c) == 0) {
        if (pthread_create(&c->back, NULL, run_back, c) != 0)
            abort();
        p->n_connections++;
    } else { /* the peer is not up yet, or not any more: so it seems to the dialer, too */
        (void)close(dialer);
        if (target >= 0)
            (void)close(target);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *run_listener(void *ctx)
{
    struct proxy *p = ctx;
    int fd;

    while ((fd = accept(p->fd, NULL, NULL)) >= 0)
        serve(p, fd);
    return NULL;
}

struct proxy *proxy_start(const char *host, int port, const char *to_host, int to_port,
                          const struct proxy_fault *fault)
{
    struct proxy *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->fault = *fault;
    (void)snprintf(p->to_host, sizeof p->to_host, "%s", to_host);
    p->to_port = to_port;
    (void)pthread_mutex_init(&p->lock, NULL);
    p->fd = tcp_listen(host, port, &p->port);
    if (p->fd >= 0 && pthread_create(&p->thread, NULL, run_listener, p) == 0)
        return p;
    if (p->fd >= 0)
        (void)close(p->fd);
    free(p);
    return NULL;
}

void proxy_stop(struct proxy *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stops = true;
    pthread_mutex_unlock(&p->lock);
    (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_join(p->thread, NULL);
    cut_all(p);
    for (int i = 0; i < p->n_connections; i++) {
        (void)pthread_join(p->connections[i].out, NULL);
        (void)pthread_join(p->connections[i].back, NULL);
        (void)close(p->connections[i].dialer);
        (void)close(p->connections[i].target);
    }
    (void)close(p->fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

int proxy_port(const struct proxy *p)
{
    return p->port;
}

bool proxy_is_done(const struct proxy *p)
{
    return p->is_done;
}

int64_t proxy_messages(const struct proxy *p)
{
    return p->n_messages;
}
