#include "http/server.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

#define BACKLOG        256
#define READ_BYTES     4096
#define ACCEPTS_MAX    32  /* in a row, before open connections get their turn */
#define ACCEPT_WAIT_MS 100 /* when the process has run out of file descriptors */
#define DISCARDS_MAX   4   /* reads of what a client still sends to a connection that is closed */

struct connection {
    int fd;           /* -1: free */
    SSL *ssl;         /* NULL: plain */
    short events;     /* what it waits for */
    bool is_greeted;  /* with TLS: the handshake is done, and the client may ask */
    bool is_known;    /* the named client, by its certificate */
    bool is_admitted; /* with the body that its head announces */
    bool is_answered;
    bool is_kept; /* for one more request after this answer */
    int64_t since_ms;
    int64_t deadline_ms;
    struct buf request;
    struct buf answer; /* head and body */
    size_t n_sent;
};

struct server {
    struct server_handler handler;
    pthread_t thread;
    int listener;
    int stop; /* an eventfd */
    int64_t accepts_from_ms;
    bool is_tls;
    pthread_mutex_t lock; /* of the next */
    SSL_CTX *context;
    struct connection connections[SERVER_CONNECTIONS_MAX];
};

/* --- requests --- */

static bool is_header(const char *line, const char *name, const char **out_value)
{
    size_t n = strlen(name);

    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    *out_value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

/* The body's length by the head, whose lines still end with CR LF. */
static enum err_code find_length(const char *head, const char *end, size_t *out, struct err *err)
{
    bool was_found = false;

    *out = 0;
    for (const char *line = strstr(head, "\r\n"); line && line < end; line = strstr(line, "\r\n")) {
        const char *value;
        char *after;

        line += 2;
        if (is_header(line, "Transfer-Encoding", &value))
            return err_set(err, ERR_PROTOCOL, "chunked bodies are not supported");
        if (!is_header(line, "Content-Length", &value))
            continue;
        *out = strtoull(value, &after, 10); /* one that overflows is too large in any case */
        if (was_found || *value < '0' || *value > '9' || *after != '\r')
            return err_set(err, ERR_PROTOCOL, "invalid Content-Length");
        was_found = true;
    }
    if (*out > SERVER_BODY_ADMITTED_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "the body is too large");
    return ERR_OK;
}

/* Cut the lines of a complete head apart. The body begins behind it. */
static enum err_code cut_head(char *text, size_t n_head, struct server_request *out,
                              struct err *err)
{
    char *end = text + n_head - 4;
    char *line = strstr(text, "\r\n");
    char *path;
    char *version;

    *line = '\0';
    path = strchr(text, ' ');
    version = path ? strchr(path + 1, ' ') : NULL;
    if (!version || path == text || path[1] != '/' || strncmp(version, " HTTP/1.", 8) != 0)
        return err_set(err, ERR_PROTOCOL, "not HTTP");
    *path = '\0';
    *version = '\0';
    /* The lines of the head become strings two bytes apart; an empty one ends the list. */
    *out = (struct server_request){
        .method = text, .path = path + 1, .headers = line + 2, .body = end + 4};
    while (line < end) {
        line = strstr(line + 2, "\r\n");
        *line = '\0';
    }
    end[2] = '\0';
    return ERR_OK;
}

enum err_code server_parse(char *text, size_t n, struct server_request *out, struct err *err)
{
    char *end = strstr(text, "\r\n\r\n");
    size_t n_head = end ? (size_t)(end - text) + 4 : n;
    size_t n_body;
    enum err_code rc;

    if (n_head > SERVER_HEAD_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "the request's head is too large");
    if (memchr(text, '\0', n_head))
        return err_set(err, ERR_PROTOCOL, "not HTTP");
    if (!end)
        return err_set(err, ERR_AGAIN, "%zu bytes of a request", n);
    rc = find_length(text, end, &n_body, err);
    if (rc != ERR_OK)
        return rc;
    if (n - n_head < n_body)
        return err_set(err, ERR_AGAIN, "%zu of %zu bytes of a body", n - n_head, n_body);
    rc = cut_head(text, n_head, out, err);
    if (rc == ERR_OK)
        out->n_body = n_body;
    return rc;
}

const char *server_header(const struct server_request *request, const char *name)
{
    const char *value;

    for (const char *line = request->headers; *line; line += strlen(line) + 2)
        if (is_header(line, name, &value))
            return value;
    return "";
}

/* Ask the handler about a large body as soon as the head is complete. */
static enum err_code admit(const struct server *s, struct connection *c, struct err *err)
{
    const char *end = strstr(buf_text(&c->request), "\r\n\r\n");
    size_t n_head = end ? (size_t)(end - c->request.data) + 4 : 0;
    char head[SERVER_HEAD_MAX_BYTES + 1];
    struct server_request request;
    size_t n_body;
    enum err_code rc;

    if (!end || c->is_admitted || n_head > SERVER_HEAD_MAX_BYTES)
        return ERR_OK;
    memcpy(head, c->request.data, n_head);
    head[n_head] = '\0';
    rc = find_length(head, head + n_head - 4, &n_body, err);
    if (rc != ERR_OK || n_body <= SERVER_BODY_MAX_BYTES)
        return rc;
    rc = cut_head(head, n_head, &request, err);
    if (rc != ERR_OK)
        return rc;
    request.n_body = n_body;
    if (!s->handler.admits || !s->handler.admits(s->handler.ctx, &request))
        return err_set(err, ERR_LIMIT, "the body is too large");
    c->is_admitted = true;
    c->request.max = n_head + n_body + READ_BYTES;
    return ERR_OK;
}

/* --- answers --- */

/* Requests that are sent before the last one was answered are not supported. */
static bool may_keep(const struct connection *c, const struct server_request *request)
{
    const char *end = request->body + request->n_body;

    return c->is_known && end == c->request.data + c->request.len && SSL_pending(c->ssl) == 0 &&
           strcasecmp(server_header(request, "Connection"), "close") != 0;
}

/* Prepare the handler's answer or, without a request, what is wrong with it. */
static enum err_code answer(struct server *s, struct connection *c,
                            const struct server_request *request, const struct err *problem)
{
    struct server_answer a = {
        .status = 200, .type = "text/plain", .body = {.max = SERVER_ANSWER_BYTES}};
    enum err_code rc = ERR_OK;

    c->is_kept = request && may_keep(c, request);
    if (request) {
        s->handler.on_request(s->handler.ctx, request, &a);
    } else {
        a.status = problem->code == ERR_LIMIT ? 413 : 400;
        rc = buf_addf(&a.body, NULL, "%s\n", problem->text);
    }
    if (rc == ERR_OK) /* the reason phrase after the status may be empty */
        rc = buf_addf(&c->answer, NULL,
                      "HTTP/1.1 %d \r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                      "Connection: %s\r\n\r\n",
                      a.status, a.type, a.body.len, c->is_kept ? "keep-alive" : "close");
    if (rc == ERR_OK)
        rc = buf_add(&c->answer, a.body.data, a.body.len, NULL);
    buf_deinit(&a.body);
    c->is_answered = true;
    c->events = POLLOUT;
    c->deadline_ms = clock_now_ms() + SERVER_REQUEST_MS;
    return rc;
}

/* --- connections --- */

/* To close a socket with bytes that were not read resets the connection, and a client that is still
 * sending then sees that instead of the alert with the reason. */
static void discard_input(int fd)
{
    char bytes[4096];

    for (int i = 0; i < DISCARDS_MAX && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
        ;
}

static void drop(struct connection *c)
{
    if (c->is_greeted)
        (void)SSL_shutdown(c->ssl); /* tells the client that nothing was cut off */
    ERR_clear_error();
    SSL_free(c->ssl);
    if (c->fd >= 0) {
        discard_input(c->fd);
        (void)close(c->fd);
    }
    buf_deinit(&c->request);
    buf_deinit(&c->answer);
    *c = (struct connection){.fd = -1};
}

static void expect_request(struct connection *c, int64_t patience_ms)
{
    buf_deinit(&c->request);
    buf_deinit(&c->answer);
    c->request.max = SERVER_HEAD_MAX_BYTES + SERVER_BODY_MAX_BYTES;
    c->answer.max = 2 * SERVER_ANSWER_BYTES;
    c->n_sent = 0;
    c->is_admitted = false;
    c->is_answered = false;
    c->events = POLLIN;
    c->since_ms = clock_now_ms();
    c->deadline_ms = c->since_ms + patience_ms;
}

/* What a call of the TLS library has done, in the manner of recv() and send(). */
static ssize_t tls_outcome(struct connection *c, int n)
{
    if (n > 0)
        return n;
    switch (SSL_get_error(c->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        c->events = POLLIN;
        break;
    case SSL_ERROR_WANT_WRITE:
        c->events = POLLOUT;
        break;
    default:
        return 0;
    }
    errno = EAGAIN;
    return -1;
}

static ssize_t read_bytes(struct connection *c, char *bytes, size_t n)
{
    if (!c->ssl)
        return recv(c->fd, bytes, n, 0);
    ERR_clear_error();
    return tls_outcome(c, SSL_read(c->ssl, bytes, (int)n));
}

static ssize_t write_bytes(struct connection *c, const char *bytes, size_t n)
{
    if (!c->ssl)
        return send(c->fd, bytes, n, MSG_NOSIGNAL);
    ERR_clear_error();
    return tls_outcome(c, SSL_write(c->ssl, bytes, (int)n));
}

static bool must_wait(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Go on with a handshake; returns whether it is done, with the client that may ask. */
static bool greet(const struct server *s, struct connection *c)
{
    ssize_t n;

    ERR_clear_error();
    n = tls_outcome(c, SSL_accept(c->ssl));
    if (must_wait(n))
        return false;
    c->is_known = n > 0 && !s->handler.is_open && tls_peer_is(c->ssl, s->handler.client);
    c->is_greeted = n > 0 && (s->handler.is_open || c->is_known);
    if (!c->is_greeted)
        drop(c);
    return c->is_greeted;
}

static void send_answer(struct connection *c)
{
    ssize_t n = write_bytes(c, c->answer.data + c->n_sent, c->answer.len - c->n_sent);

    if (must_wait(n))
        return;
    c->n_sent += n > 0 ? (size_t)n : 0;
    if (n > 0 && c->n_sent == c->answer.len && c->is_kept)
        expect_request(c, SERVER_KEEP_MS);
    else if (n <= 0 || c->n_sent == c->answer.len)
        drop(c);
}

/* Read some more of a request, and answer it when it is complete; returns whether it is not. */
static bool read_request(struct server *s, struct connection *c)
{
    char bytes[READ_BYTES];
    struct server_request request;
    struct err err = {0};
    ssize_t n = read_bytes(c, bytes, sizeof bytes);
    enum err_code rc;

    if (must_wait(n))
        return false;
    if (n <= 0) {
        drop(c);
        return false;
    }
    if (c->request.len == 0 && c->is_kept) {
        c->is_kept = false;
        c->since_ms = clock_now_ms();
        c->deadline_ms = c->since_ms + SERVER_REQUEST_MS;
    }
    rc = buf_add(&c->request, bytes, (size_t)n, &err);
    if (rc == ERR_NO_MEMORY) {
        drop(c);
        return false;
    }
    if (rc == ERR_OK)
        rc = admit(s, c, &err);
    if (rc == ERR_OK)
        rc = server_parse(c->request.data, c->request.len, &request, &err);
    if (rc == ERR_AGAIN)
        return true;
    if (answer(s, c, rc == ERR_OK ? &request : NULL, &err) == ERR_OK)
        send_answer(c);
    else
        drop(c);
    return false;
}

/* Go on with a connection that is ready. What TLS has decrypted is not seen by poll(). */
static void serve(struct server *s, struct connection *c)
{
    if (c->ssl && !c->is_greeted && !greet(s, c))
        return;
    if (c->is_answered) {
        send_answer(c);
        return;
    }
    while (read_request(s, c) && c->ssl && SSL_pending(c->ssl) > 0)
        ;
}

/* Which of two that have no complete request is given up first? */
static bool goes_first(const struct connection *a, const struct connection *b)
{
    return a->is_known != b->is_known ? b->is_known : a->since_ms < b->since_ms;
}

/* A free place, or that of the connection that has waited longest for a complete request, if
 * possible one of a stranger. */
static struct connection *find_place(struct server *s)
{
    struct connection *oldest = NULL;

    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct connection *c = &s->connections[i];

        if (c->fd < 0)
            return c;
        if (!c->is_answered && (!oldest || goes_first(c, oldest)))
            oldest = c;
    }
    return oldest ? oldest : &s->connections[0];
}

/* False without the memory for it. */
static bool start_tls(struct server *s, struct connection *c)
{
    pthread_mutex_lock(&s->lock);
    c->ssl = SSL_new(s->context);
    pthread_mutex_unlock(&s->lock);
    if (!c->ssl || SSL_set_fd(c->ssl, c->fd) != 1)
        return false;
    (void)SSL_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
    return true;
}

/* Returns whether there may be more. */
static bool accept_one(struct server *s)
{
    int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c;

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            s->accepts_from_ms = clock_now_ms() + ACCEPT_WAIT_MS;
        return errno == ECONNABORTED || errno == EINTR;
    }
    c = find_place(s);
    drop(c);
    c->fd = fd;
    expect_request(c, SERVER_REQUEST_MS);
    if (s->is_tls && !start_tls(s, c))
        drop(c);
    else
        serve(s, c); /* most requests have arrived by now */
    return true;
}

/* --- the thread --- */

/* Drop connections past their deadline; returns the milliseconds until the next deadline. */
static int keep_deadlines(struct server *s)
{
    int64_t now_ms = clock_now_ms();
    int64_t next_ms = now_ms + SERVER_REQUEST_MS;

    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct connection *c = &s->connections[i];

        if (c->fd >= 0 && c->deadline_ms <= now_ms)
            drop(c);
        else if (c->fd >= 0 && c->deadline_ms < next_ms)
            next_ms = c->deadline_ms;
    }
    if (s->accepts_from_ms > now_ms && s->accepts_from_ms < next_ms)
        next_ms = s->accepts_from_ms;
    return (int)(next_ms - now_ms);
}

static void *run(void *arg)
{
    struct server *s = arg;
    struct pollfd fds[2 + SERVER_CONNECTIONS_MAX];

    for (;;) {
        int wait_ms = keep_deadlines(s);
        int turn_ms = s->handler.on_turn ? s->handler.on_turn(s->handler.ctx) : wait_ms;
        bool accepts = clock_now_ms() >= s->accepts_from_ms;

        fds[0] = (struct pollfd){.fd = s->stop, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = accepts ? s->listener : -1, .events = POLLIN};
        for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
            fds[2 + i] =
                (struct pollfd){.fd = s->connections[i].fd, .events = s->connections[i].events};
        if (poll(fds, sizeof fds / sizeof fds[0], turn_ms < wait_ms ? turn_ms : wait_ms) < 0 &&
            errno != EINTR)
            return NULL;
        if (fds[0].revents)
            return NULL;
        for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
            if (fds[2 + i].revents)
                serve(s, &s->connections[i]);
        for (int i = 0; fds[1].revents && i < ACCEPTS_MAX && accept_one(s); i++)
            ;
    }
}

static enum err_code listen_on(struct server *s, const char *address, int port, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[12];
    int one = 1;
    enum err_code rc = ERR_OK;

    (void)snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return err_set(err, ERR_INVALID, "\"%.60s\" is not a numeric address", address);
    s->listener = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->listener < 0 ||
        setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(s->listener, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(s->listener, BACKLOG) != 0)
        rc = err_set(err, ERR_IO, "cannot listen on %.60s port %d: %s", address, port,
                     strerror(errno));
    freeaddrinfo(found);
    return rc;
}

static enum err_code new_context(const struct server *s, const struct tls_identity *identity,
                                 SSL_CTX **out, struct err *err)
{
    return tls_context_new(identity, s->handler.is_open ? TLS_OPEN_SERVER : TLS_SERVER, out, err);
}

static void free_server(struct server *s)
{
    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
        drop(&s->connections[i]);
    if (s->listener >= 0)
        (void)close(s->listener);
    if (s->stop >= 0)
        (void)close(s->stop);
    SSL_CTX_free(s->context);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

enum err_code server_open(const char *address, int port, struct server_handler handler,
                          struct server **out, struct err *err)
{
    struct server *s = calloc(1, sizeof *s);
    enum err_code rc;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for a server");
    s->handler = handler;
    s->handler.identity = NULL;
    s->is_tls = handler.identity != NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->listener = -1;
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
        s->connections[i].fd = -1;
    rc = s->stop >= 0 ? listen_on(s, address, port, err)
                      : err_set(err, ERR_IO, "eventfd: %s", strerror(errno));
    if (rc == ERR_OK && s->is_tls) {
        (void)signal(SIGPIPE, SIG_IGN);
        rc = new_context(s, handler.identity, &s->context, err);
    }
    if (rc == ERR_OK)
        rc = thread_start(&s->thread, run, s, err);
    if (rc == ERR_OK)
        *out = s;
    else
        free_server(s);
    return rc;
}

enum err_code server_open_at(const char *address, struct server_handler handler,
                             struct server **out, struct err *err)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : -1;
    char host[64];

    if (!colon || end == colon + 1 || *end != '\0' || port < 0 || port > 65535 ||
        (size_t)(colon - address) >= sizeof host)
        return err_set(err, ERR_INVALID, "\"%.80s\" is not HOST:PORT", address);
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    return server_open(host, (int)port, handler, out, err);
}

enum err_code server_renew(struct server *s, const struct tls_identity *identity, struct err *err)
{
    SSL_CTX *old;
    SSL_CTX *context = NULL;
    enum err_code rc = new_context(s, identity, &context, err);

    if (rc != ERR_OK)
        return rc;
    pthread_mutex_lock(&s->lock);
    old = s->context;
    s->context = context;
    pthread_mutex_unlock(&s->lock);
    SSL_CTX_free(old); /* connections have shares of it */
    return ERR_OK;
}

void server_close(struct server *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    (void)!write(s->stop, &one, sizeof one);
    (void)pthread_join(s->thread, NULL);
    free_server(s);
}
