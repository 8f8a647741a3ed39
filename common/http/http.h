/* http/http.h - HTTP requests that never outlive their deadline, many at once on one thread.
 *
 * One `struct http` is one loop: http_start() queues a request; http_poll() advances all of them
 * and runs their callbacks. http_call() waits for one request; meanwhile every other transfer of
 * the loop goes on and its callbacks run, so an open watch is not starved. Connections are reused.
 *
 * HTTP/1.1 over http and https only, no redirects, no compression, no proxy unless asked for. The
 * peer's certificate and name are always checked unless the request says `insecure`.
 *
 * Callbacks may call http_start() and http_cancel(), and nothing else of this header.
 * Layer: http (may use tls base). Threads: one per loop, but for http_stop(), http_wake() and
 * http_turned_ms(), until that one shares it: see http_share().
 * Process: http_new() sets SIGPIPE to be ignored, since a TLS write to a closed peer raises it.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tls/tls.h"

#define HTTP_TRANSFERS_MAX      1024 /* at once in a loop; one more is ERR_LIMIT */
#define HTTP_DEADLINE_MS        30000
#define HTTP_CONNECT_MS         10000
#define HTTP_IDLE_MAX           1024 /* connections that are kept to be reused */
#define HTTP_IDLE_S             60   /* for so long, with an identity: less than SERVER_KEEP_MS */
#define HTTP_STOP_MS            1000 /* for calls under way after http_stop() */
#define HTTP_RESPONSE_MAX_BYTES ((size_t)8 << 20)
#define HTTP_HOST_BYTES         256
#define HTTP_ETAG_BYTES         128
#define HTTP_REGION_BYTES       64

/* All texts are PEM; NULL means "not set". */
struct http_tls {
    const char *ca_pem;   /* trust only these; NULL: the system's CAs */
    const char *cert_pem; /* the client's certificate with its chain, and its key */
    const char *key_pem;
    bool insecure; /* do not check the peer at all */
    /* Instead of all of the above: mutual TLS, and the peer has the name in the URL. It is shared
     * until the transfer ends, and a connection is only ever reused with the same one. */
    struct tls_identity *identity;
};

/* Signs a request as S3 wants it (AWS Signature Version 4). The URL's path and query must be in
 * canonical form: percent-encoded, the parameters sorted, each with a '='. */
struct http_aws {
    const char *region;
    const char *key_id;
    const char *secret;
    const char *session_token; /* NULL: none */
};

/* Borrowed for the time of http_start() or http_call() only: everything needed later is copied. */
struct http_request {
    const char *method; /* "GET" when NULL */
    const char *url;
    const char *connect_to;      /* dial this address; the certificate is still checked against the
                                    URL's host, which is dialled for NULL */
    const char *const *headers;  /* "Name: value", NULL-terminated; NULL: none */
    const char *content_type;    /* of the body */
    const void *body;            /* NULL: none */
    size_t body_bytes;           /* of body */
    const char *bearer_token;    /* NULL: none */
    const struct http_aws *aws;  /* NULL: not signed */
    struct http_tls tls;         /* for https */
    bool closes;                 /* the connection, rather than keep it to be reused */
    int64_t deadline_ms;         /* for the whole exchange; 0: HTTP_DEADLINE_MS */
    int64_t connect_ms;          /* for name, TCP and TLS; 0: HTTP_CONNECT_MS */
    size_t response_max_bytes;   /* ceiling of a collected body; 0: HTTP_RESPONSE_MAX_BYTES */
    bool uses_environment_proxy; /* honour HTTPS_PROXY and NO_PROXY */
    const atomic_bool *stops;    /* http_call() gives up soon once this is true; NULL: never */
};

struct http_response {
    int status;                 /* 100..599 */
    int64_t retry_after_ms;     /* -1: not given by the server */
    char etag[HTTP_ETAG_BYTES]; /* as it was sent; "": none, or too long */
    struct buf body;            /* owned: buf_deinit(); without what was handed to on_chunk */
};

/* Both callbacks run inside http_poll() or http_call(). */
struct http_handler {
    void *ctx;
    /* The transfer has ended and its id is void. err->code is ERR_OK for a complete response,
     * whatever its status; then the body may be moved out with buf_take(). Else `response` holds
     * what has arrived (status 0: nothing) and the code is one of
     *   ERR_TIMEOUT   deadline or connect_ms passed;
     *   ERR_IO        name not found, connection refused, reset or cut: worth a retry;
     *   ERR_DENIED    a certificate was not accepted, theirs or ours;
     *   ERR_PROTOCOL  not HTTP;
     *   ERR_LIMIT     the body passed response_max_bytes;
     *   ERR_INVALID   the URL or a PEM text cannot be used;
     *   or what on_chunk returned. Not called for a cancelled transfer. */
    void (*on_done)(void *ctx, struct http_response *response, const struct err *err);
    /* NULL: the body is collected. Else the body of a 2xx response is handed over as it arrives,
     * cut anywhere; that of other statuses is still collected, to be read as an error. Any code
     * but ERR_OK ends the transfer with that error. */
    enum err_code (*on_chunk)(void *ctx, const char *bytes, size_t n, struct err *err);
};

struct http;

/* Make a loop; http_free() cancels what is still under way. ERR_NO_MEMORY or ERR_IO. */
MUST_CHECK enum err_code http_new(struct http **out, struct err *err);
void http_free(struct http *h);

/* Queue a request; nothing is sent before the next http_poll().
 *
 * Returns ERR_OK with the id of the transfer, never 0, in *out_id; ERR_INVALID for a request that
 * cannot be sent (no URL, other scheme, line breaks in a header); ERR_LIMIT; ERR_NO_MEMORY. Unless
 * it returns ERR_OK the handler is never called.
 */
MUST_CHECK enum err_code http_start(struct http *h, const struct http_request *request,
                                    struct http_handler handler, uint64_t *out_id, struct err *err);

/* Forget a transfer: its handler is not called again. An unknown id (0, ended) is ignored. */
void http_cancel(struct http *h, uint64_t id);

/* Wait for activity, at most `timeout_ms` (0: not at all), and run callbacks. Returns ERR_OK also
 * without any; ERR_IO or ERR_NO_MEMORY when the loop itself is broken. */
MUST_CHECK enum err_code http_poll(struct http *h, int64_t timeout_ms, struct err *err);

/* End all waiting soon: http_poll() returns at once; a waiting http_call() and all later ones share
 * HTTP_STOP_MS and return ERR_AGAIN after that. Safe from any thread and from signal handlers. */
void http_stop(struct http *h);

/* Have the http_poll() that waits, or the next one, return at once. Any thread. */
void http_wake(struct http *h);

/* The time of the last http_poll(), also inside http_call(), by clock_now_ms(). Any thread. */
int64_t http_turned_ms(const struct http *h);

/* Send one request and wait for its response.
 *
 * Returns ERR_OK with *out filled, whatever its status: the caller frees its body.
 * Else the codes of http_start() and on_done, with *out untouched. ERR_INVALID in a callback;
 * ERR_GONE when the request's `stops` became true.
 */
MUST_CHECK enum err_code http_call(struct http *h, const struct http_request *request,
                                   struct http_response *out, struct err *err);

/* Let the time pass, at most `ms`, while transfers go on and their callbacks run. As http_poll().
 */
MUST_CHECK enum err_code http_pause(struct http *h, int64_t ms, struct err *err);

/* --- a loop of several threads --- */

/* The thread that calls http_share() polls the loop, and has the lock of it until http_unshare(),
 * but for the time that it waits in http_poll(), http_call() or http_pause(). Other threads call
 * any function of a shared loop between http_enter(), which waits for the lock, and http_leave();
 * http_call() and http_pause() let go of it while they wait, http_poll() and http_free() are not
 * for them. So whatever these threads share, they need no other lock for it, and may find it
 * changed after each call that waits, as one thread alone does by its callbacks, which run in the
 * thread that polls. The lock goes to those who wait for it in the order in which they came.
 * Before http_unshare() the others have left. */
void http_share(struct http *h);
void http_unshare(struct http *h);
void http_enter(struct http *h);
void http_leave(struct http *h);

/* "host:port" of a URL without user, path and query. ERR_INVALID when it is not http or https. */
MUST_CHECK enum err_code http_host_of(const char *url, char out[static HTTP_HOST_BYTES],
                                      struct err *err);

#endif
