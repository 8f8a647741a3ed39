#include "http/server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
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

struct connection {
    int fd;           /* -1: free */
    bool is_admitted; /* with the body that its head announces */
    bool is_answered;
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

/* Prepare the handler's answer or, without a request, what is wrong with it. */
static enum err_code answer(struct server *s, struct connection *c,
                            const struct server_request *request, const struct err *problem)
{
    struct server_answer a = {
        .status = 200, .type = "text/plain", .body = {.max = SERVER_ANSWER_BYTES}};
    enum err_code rc = ERR_OK;

    if (request) {
        s->handler.on_request(s->handler.ctx, request, &a);
    } else {
        a.status = problem->code == ERR_LIMIT ? 413 : 400;
        rc = buf_addf(&a.body, NULL, "%s\n", problem->text);
    }
    if (rc == ERR_OK) /* the reason phrase after the status may be empty */
        rc = buf_addf(&c->answer, NULL,
                      "HTTP/1.1 %d \r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                      "Connection: close\r\n\r\n",
                      a.status, a.type, a.body.len);
    if (rc == ERR_OK)
        rc = buf_add(&c->answer, a.body.data, a.body.len, NULL);
    buf_deinit(&a.body);
    c->is_answered = true;
    c->deadline_ms = clock_now_ms() + SERVER_REQUEST_MS;
    return rc;
}

/* --- connections --- */

static void drop(struct connection *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    buf_deinit(&c->request);
    buf_deinit(&c->answer);
    *c = (struct connection){.fd = -1};
}

static void send_answer(struct connection *c)
{
    ssize_t n = send(c->fd, c->answer.data + c->n_sent, c->answer.len - c->n_sent, MSG_NOSIGNAL);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->n_sent += n > 0 ? (size_t)n : 0;
    if (n <= 0 || c->n_sent == c->answer.len)
        drop(c);
}

/* Go on with a connection that is ready. */
static void serve(struct server *s, struct connection *c)
{
    char bytes[READ_BYTES];
    struct server_request request;
    struct err err = {0};
    ssize_t n;
    enum err_code rc;

    if (c->is_answered) {
        send_answer(c);
        return;
    }
    n = recv(c->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(c);
        return;
    }
    rc = buf_add(&c->request, bytes, (size_t)n, &err);
    if (rc == ERR_NO_MEMORY) {
        drop(c);
        return;
    }
    if (rc == ERR_OK)
        rc = admit(s, c, &err);
    if (rc == ERR_OK)
        rc = server_parse(c->request.data, c->request.len, &request, &err);
    if (rc == ERR_AGAIN)
        return;
    if (answer(s, c, rc == ERR_OK ? &request : NULL, &err) == ERR_OK)
        send_answer(c);
    else
        drop(c);
}

/* A free place, or that of the connection that has waited longest for a complete request. */
static struct connection *find_place(struct server *s)
{
    struct connection *oldest = NULL;

    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++) {
        struct connection *c = &s->connections[i];

        if (c->fd < 0)
            return c;
        if (!c->is_answered && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
    }
    return oldest ? oldest : &s->connections[0];
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
    c->since_ms = clock_now_ms();
    c->deadline_ms = c->since_ms + SERVER_REQUEST_MS;
    c->request.max = SERVER_HEAD_MAX_BYTES + SERVER_BODY_MAX_BYTES;
    c->answer.max = 2 * SERVER_ANSWER_BYTES;
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
                (struct pollfd){.fd = s->connections[i].fd,
                                .events = s->connections[i].is_answered ? POLLOUT : POLLIN};
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

static void free_server(struct server *s)
{
    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
        drop(&s->connections[i]);
    if (s->listener >= 0)
        (void)close(s->listener);
    if (s->stop >= 0)
        (void)close(s->stop);
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
    s->listener = -1;
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int i = 0; i < SERVER_CONNECTIONS_MAX; i++)
        s->connections[i].fd = -1;
    rc = s->stop >= 0 ? listen_on(s, address, port, err)
                      : err_set(err, ERR_IO, "eventfd: %s", strerror(errno));
    if (rc == ERR_OK)
        rc = thread_start(&s->thread, run, s, err);
    if (rc == ERR_OK)
        *out = s;
    else
        free_server(s);
    return rc;
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
