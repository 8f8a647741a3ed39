/* hollow - workers that only answer, for pods that kwok says are running.
 *
 *     hollow ADDRESS COUNT [FOLDER]
 *
 * Listens on the control port of COUNT loopback addresses from ADDRESS on. At each of them is a
 * worker that takes any revision, says that it trains, and has done a step per second since. It
 * checks no signature, and refuses all other orders. With FOLDER, which has the CA as tls.crt and
 * tls.key, it speaks TLS, and has the certificate of whatever worker the client means. Prints
 * "ready", and ends with a signal. */
#include <errno.h>
#include <math.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "api/names.h"
#include "api/revision.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "tcp.h"
#include "tls/authority.h"
#include "tls/tls.h"

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
    SSL *ssl; /* of a connection; NULL: plain */
    struct buf in;
};

/* The CA, and a context for each worker that was called. */
static struct authority *authority; /* NULL: plain */
static struct buf ca_text = {.max = AUTHORITY_PEM_MAX_BYTES};
static SSL_CTX *first_context;
static struct map contexts; /* name to SSL_CTX */

/* --- TLS --- */

static SSL_CTX *make_context(const char *name)
{
    struct authority_pair pair = AUTHORITY_PAIR;
    struct tls_identity *identity = NULL;
    SSL_CTX *context = NULL;
    struct tls_end end;
    struct err err;
    enum err_code rc = authority_issue(authority, name, time(NULL), 30 * 86400, &pair, &err);

    end = (struct tls_end){buf_text(&ca_text), buf_text(&pair.certificate), buf_text(&pair.key)};
    if (rc == ERR_OK)
        rc = tls_identity_new(&end, &identity, &err);
    if (rc == ERR_OK)
        rc = tls_context_new(identity, TLS_SERVER, &context, &err);
    if (rc != ERR_OK)
        (void)fprintf(stderr, "hollow: %s\n", err.text);
    tls_identity_free(identity);
    authority_pair_deinit(&pair);
    return context;
}

/* The client's first message has the name that it expects. */
static int on_name(SSL *ssl, int *alert, void *arg)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    SSL_CTX *context = name ? map_get(&contexts, name) : NULL;

    (void)alert;
    (void)arg;
    if (name && !context) {
        context = make_context(name);
        if (context && map_put(&contexts, name, context, NULL) != ERR_OK) {
            SSL_CTX_free(context);
            context = NULL;
        }
    }
    return context && SSL_set_SSL_CTX(ssl, context) ? SSL_TLSEXT_ERR_OK
                                                    : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool load_authority(const char *folder)
{
    struct buf key = {.max = AUTHORITY_PEM_MAX_BYTES};
    char path[PATH_MAX];
    struct err err;
    enum err_code rc = folder_path(folder, "tls.crt", path, &err);

    if (rc == ERR_OK)
        rc = file_read(path, &ca_text, &err);
    if (rc == ERR_OK)
        rc = folder_path(folder, "tls.key", path, &err);
    if (rc == ERR_OK)
        rc = file_read(path, &key, &err);
    if (rc == ERR_OK)
        rc = authority_parse(buf_text(&ca_text), buf_text(&key), &authority, &err);
    if (rc != ERR_OK)
        (void)fprintf(stderr, "hollow: %s\n", err.text);
    buf_deinit(&key);
    first_context = rc == ERR_OK ? make_context("hollow") : NULL;
    if (first_context)
        (void)SSL_CTX_set_tlsext_servername_callback(first_context, on_name);
    return first_context;
}

static bool start_tls(struct endpoint *c)
{
    c->ssl = SSL_new(first_context);
    if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1)
        return false;
    SSL_set_accept_state(c->ssl);
    return true;
}

/* --- answers --- */

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
    int64_t step = w->revision ? (clock_now_ms() - w->began_ms) / 1000 : 0;
    struct progress p = {.state = w->revision ? PROGRESS_TRAINING : PROGRESS_WAITING,
                         .slot = w->self.slot,
                         .revision = w->revision,
                         .has_peers = w->revision > 0,
                         .step = step,
                         .total_steps = TOTAL_STEPS,
                         .loss = 1,
                         .step_ms = 1000,
                         .eta_seconds = step ? (double)(TOTAL_STEPS - step) : -1};

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
    if (rc == ERR_OK && c->ssl) /* an answer fits into the socket's buffer */
        is_sent = SSL_write(c->ssl, out.data, (int)out.len) == (int)out.len;
    else
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
    char bytes[16384]; /* a record of TLS at most */
    struct err err;
    ssize_t n;

    ERR_clear_error();
    n = c->ssl ? SSL_read(c->ssl, bytes, sizeof bytes) : recv(c->fd, bytes, sizeof bytes, 0);
    if (c->ssl && n <= 0)
        return SSL_get_error(c->ssl, (int)n) == SSL_ERROR_WANT_READ;
    return n > 0 && buf_add(&c->in, bytes, (size_t)n, &err) == ERR_OK && serve(c);
}

static bool watch(int poll_fd, struct endpoint *p)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};

    return p->fd >= 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, p->fd, &event) == 0;
}

static void hang_up(struct endpoint *c)
{
    SSL_free(c->ssl);
    (void)close(c->fd);
    buf_deinit(&c->in);
    free(c);
}

static void take_connection(int poll_fd, struct endpoint *w)
{
    struct endpoint *c = calloc(1, sizeof *c);

    if (!c)
        return;
    *c = (struct endpoint){.fd = accept4(w->fd, NULL, NULL, authority ? SOCK_NONBLOCK : 0),
                           .of = w,
                           .in = {.max = REVISION_POST_MAX_BYTES + 4096}};
    if (!watch(poll_fd, c) || (authority && !start_tls(c)))
        hang_up(c);
}

int main(int argc, char **argv)
{
    int n = argc == 3 || argc == 4 ? atoi(argv[2]) : 0;
    struct in_addr first;
    struct endpoint *workers = n > 0 ? calloc((size_t)n, sizeof *workers) : NULL;
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS_MAX];

    if (!workers || inet_pton(AF_INET, argv[1], &first) != 1) {
        (void)fprintf(stderr, "usage: hollow ADDRESS COUNT [FOLDER]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && !load_authority(argv[3]))
        return 1;
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
