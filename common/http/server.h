/* http/server.h - a small HTTP/1.1 or HTTPS server for one port, in a thread of its own.
 *
 * One request per connection: read, answered, closed. With an identity the server speaks only TLS
 * and only with the client that is named: any other gets no answer. That client may keep its
 * connection for more requests, one after another, with at most SERVER_KEEP_MS between them. A
 * server that is open speaks TLS with any client, and asks none for a certificate: who they are is
 * the handler's to find out, from the request.
 *
 * A connection has SERVER_REQUEST_MS to send a complete request, and as long to read the answer.
 * When SERVER_CONNECTIONS_MAX are open, a new connection replaces the one that has waited longest
 * without a complete request, one of the named client last, so that idle or slow clients cannot
 * block others. A body of more than
 * SERVER_BODY_MAX_BYTES is read only from a client that the handler admits by the request's head:
 * what strangers can make it hold is bounded. Layer: http (may use tls base). Threads: the
 * handler's functions run in the server's thread. Process: with an identity SIGPIPE is ignored,
 * since a TLS write to a closed peer raises it.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/buf.h"
#include "tls/tls.h"

#define SERVER_CONNECTIONS_MAX         64
#define SERVER_REQUEST_MS              5000 /* with the handshake */
#define SERVER_KEEP_MS                 75000
#define SERVER_HEAD_MAX_BYTES          4096
#define SERVER_BODY_MAX_BYTES          65536
#define SERVER_BODY_ADMITTED_MAX_BYTES ((size_t)512 * 1024)
#define SERVER_ANSWER_BYTES            ((size_t)24 * 1024)

/* Borrowed for the time of the call. */
struct server_request {
    const char *method;
    const char *path;    /* as it was sent, with its query */
    const char *headers; /* see server_header() */
    const char *body;
    size_t n_body;
};

struct server_answer {
    int status;       /* 200 before the call */
    const char *type; /* "text/plain" before the call */
    struct buf body;  /* empty, with room for SERVER_ANSWER_BYTES; freed by the server */
};

struct server_handler {
    void *ctx;
    void (*on_request)(void *ctx, const struct server_request *request, struct server_answer *out);
    /* May the client send a body of `head->n_body` bytes, more than SERVER_BODY_MAX_BYTES? The body
     * itself is not there yet. NULL: no client may. */
    bool (*admits)(void *ctx, const struct server_request *head);
    /* Called before every wait, so also after every request, whose answer has been sent unless the
     * client reads slowly; returns the ms until the next call at most. NULL: not wanted. */
    int (*on_turn)(void *ctx);
    const struct tls_identity *identity; /* borrowed for server_open(); NULL: plain HTTP */
    char client[TLS_NAME_BYTES];         /* with one: the DNS name of the only client ... */
    bool is_open;                        /* ... unless any client may ask */
};

struct server; /* private */

/* The value of a header; "" for none. Case does not count in `name`. */
const char *server_header(const struct server_request *request, const char *name);

/* Listen on a numeric address and serve. ERR_INVALID for an address that is not numeric; ERR_IO
 * when it cannot be listened on, or TLS cannot be set up; ERR_NO_MEMORY. */
MUST_CHECK enum err_code server_open(const char *address, int port, struct server_handler handler,
                                     struct server **out, struct err *err);
/* The same for "host:port". */
MUST_CHECK enum err_code server_open_at(const char *address, struct server_handler handler,
                                        struct server **out, struct err *err);
/* From now on new connections get this identity; open ones go on with theirs. For
 * a server that has one. ERR_NO_MEMORY or ERR_IO: the old one is kept. Any thread. */
MUST_CHECK enum err_code server_renew(struct server *server, const struct tls_identity *identity,
                                      struct err *err);
/* Stop serving and free. NULL is allowed. */
void server_close(struct server *server);

/* Find the first request in `text` and cut its lines apart in place.
 *
 * Returns ERR_OK with *out pointing into `text`; ERR_AGAIN when it is not complete (then nothing
 * was changed); ERR_LIMIT when head or body are too large; ERR_PROTOCOL when it can never become
 * one. `text` has a NUL after its `n` bytes. */
MUST_CHECK enum err_code server_parse(char *text, size_t n, struct server_request *out,
                                      struct err *err);

#endif
