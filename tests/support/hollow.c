/* hollow - workers that only answer, for pods that kwok says are running.
 *
 *     hollow ADDRESS COUNT
 *
 * Listens on the control port of COUNT loopback addresses from ADDRESS on. At each of them is a
 * worker that takes any revision, says that it trains, and has done a step per second since. It
 * checks no signature, and refuses all other orders. Prints "ready", and ends with a signal. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "api/names.h"
#include "api/revision.h"
#include "base/clock.h"
#include "tcp.h"

#define EVENTS_MAX  64
#define TOTAL_STEPS 100000

/* One address, or (with `of`) a connection to it. */
struct endpoint {
    int fd;
    char host[INET_ADDRSTRLEN];
    struct revision_worker self;
    int revision;
    int64_t began_ms;
    struct endpoint *of;
    struct buf in;
};

static void take_revision(struct endpoint *w, const char *body, size_t n, int *status)
{
    static struct revision posted;
    static struct peers peers;
    struct err err;

    if (revision_post_parse(body, n, &posted, &peers, &err) != ERR_OK) {
        (void)fprintf(stderr, "hollow: %s\n", err.text);
        *status = 400;
        return;
    }
    for (int i = 0; i < peers.n; i++)
        if (strcmp(peers.list[i].host, w->host) == 0)
            w->self = revision_worker(&posted, i);
    w->revision = posted.plan.revision;
    w->began_ms = clock_now_ms();
}

static enum err_code write_status(const struct endpoint *w, struct buf *out, struct err *err)
{
    struct progress p = {.state = w->revision ? PROGRESS_TRAINING : PROGRESS_WAITING,
                         .slot = w->self.slot,
                         .revision = w->revision,
                         .has_peers = w->revision > 0,
                         .step = w->revision ? (clock_now_ms() - w->began_ms) / 1000 : 0,
                         .total_steps = TOTAL_STEPS,
                         .loss = 1,
                         .eta_seconds = -1};

    return progress_write(&p, out, err);
}

static enum err_code write_report(const struct endpoint *w, struct buf *out, struct err *err)
{
    static struct report r;

    r = (struct report){.slot = w->self.slot,
                        .incarnation = w->self.incarnation,
                        .revision = w->revision,
                        .session = w->revision ? REPORT_RUNNING : REPORT_NONE};
    return report_write(&r, out, err);
}

/* Answer the request whose head is text[0 .. n_head - 1]. Returns whether that worked. */
static bool answer(const struct endpoint *c, const char *text, const char *body, size_t n_body)
{
    struct buf document = {.max = REPORT_TEXT_MAX_BYTES};
    struct buf out = {.max = REPORT_TEXT_MAX_BYTES + 256};
    struct err err;
    int status = 200;
    enum err_code rc = ERR_OK;
    bool is_sent;

    if (strncmp(text, "POST /v1/revision ", 18) == 0)
        take_revision(c->of, body, n_body, &status);
    else if (strncmp(text, "GET /v1/status ", 15) == 0)
        rc = write_status(c->of, &document, &err);
    else if (strncmp(text, "GET /v1/report ", 15) == 0)
        rc = write_report(c->of, &document, &err);
    else
        status = 404;
    if (rc == ERR_OK)
        rc = buf_addf(&out, &err, "HTTP/1.1 %d -\r\nContent-Length: %zu\r\n\r\n%s", status,
                      document.len, buf_text(&document));
    is_sent = rc == ERR_OK && tcp_send(c->fd, out.data, out.len);
    buf_deinit(&document);
    buf_deinit(&out);
    return is_sent;
}

/* Answer what has arrived whole; the client waits for each answer. */
static bool serve(struct endpoint *c)
{
    const char *text = buf_text(&c->in);
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = end ? strcasestr(text, "\r\nContent-Length:") : NULL;
    size_t n_body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    bool is_ok;

    if (!end || c->in.len < (size_t)(end + 4 - text) + n_body)
        return true;
    is_ok = answer(c, text, end + 4, n_body);
    buf_reset(&c->in);
    return is_ok;
}

static bool receive(struct endpoint *c)
{
    char bytes[16384];
    struct err err;
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    return n > 0 && buf_add(&c->in, bytes, (size_t)n, &err) == ERR_OK && serve(c);
}

static bool watch(int poll_fd, struct endpoint *p)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};

    return p->fd >= 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, p->fd, &event) == 0;
}

static void hang_up(struct endpoint *c)
{
    (void)close(c->fd);
    buf_deinit(&c->in);
    free(c);
}

static void take_connection(int poll_fd, struct endpoint *w)
{
    struct endpoint *c = calloc(1, sizeof *c);

    if (!c)
        return;
    *c = (struct endpoint){
        .fd = accept(w->fd, NULL, NULL), .of = w, .in = {.max = REVISION_POST_MAX_BYTES + 4096}};
    if (!watch(poll_fd, c))
        hang_up(c);
}

int main(int argc, char **argv)
{
    int n = argc == 3 ? atoi(argv[2]) : 0;
    struct in_addr first;
    struct endpoint *workers = n > 0 ? calloc((size_t)n, sizeof *workers) : NULL;
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS_MAX];

    if (!workers || inet_pton(AF_INET, argv[1], &first) != 1) {
        (void)fprintf(stderr, "usage: hollow ADDRESS COUNT\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        struct in_addr at = {htonl(ntohl(first.s_addr) + (uint32_t)i)};
        int port;

        (void)inet_ntop(AF_INET, &at, workers[i].host, sizeof workers[i].host);
        workers[i].fd = tcp_listen(workers[i].host, PORT_CONTROL, &port);
        if (!watch(poll_fd, &workers[i])) {
            (void)fprintf(stderr, "hollow: %s: %s\n", workers[i].host, strerror(errno));
            return 1;
        }
    }
    (void)puts("ready");
    (void)fflush(stdout);
    for (;;) {
        int n_events = epoll_wait(poll_fd, events, EVENTS_MAX, -1);

        for (int i = 0; i < n_events; i++) {
            struct endpoint *p = events[i].data.ptr;

            if (!p->of)
                take_connection(poll_fd, p);
            else if (!receive(p))
                hang_up(p);
        }
    }
}
