#include "http/http.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hmac.h"
#include "base/thread.h"

#define CALL_POLL_MS        250 /* between two looks whether a call is to end early */
#define STOP_POLL_MS        50
#define KEEPALIVE_IDLE_S    15L
#define KEEPALIVE_PERIOD_S  5L
#define KEEPALIVE_PROBES    3
#define TCP_USER_TIMEOUT_MS 30000 /* for sent bytes to be acknowledged */
#define HEADER_MAX_BYTES    ((size_t)16 << 10)

struct transfer {
    struct transfer *next; /* in the loop's list */
    struct http *loop;     /* borrowed */
    uint64_t id;
    enum {
        QUEUED, /* not yet handed to curl */
        RUNNING,
        CANCELLED, /* to be dropped as soon as no callback runs */
    } state;
    CURL *easy;
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    struct http_handler handler;
    struct tls_identity *identity; /* NULL: none */
    struct http_response response;
    bool has_head;  /* the empty line that closes the head has come */
    struct err err; /* of ours: the ceiling, on_chunk */
    int64_t deadline_ms;
    char host[HTTP_HOST_BYTES];
    char curl_text[CURL_ERROR_SIZE];
};

struct http {
    CURLM *multi;
    struct transfer *first; /* all transfers, in no order */
    size_t n_transfers;
    uint64_t last_id;
    uint64_t n_callbacks; /* so far; shows whether a poll had anything to do */
    _Atomic int64_t turned_ms;
    atomic_bool stops;
    int64_t stop_ms; /* when calls end; 0: not noticed yet */
    int depth;       /* of callbacks that run now; > 0: curl must not be entered */
    /* Of a shared loop. The lock is a ticket: the mutex is only held to take and to return one. */
    bool is_shared;
    pthread_t poller;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the next ticket */
    uint64_t n_tickets;     /* handed out */
    uint64_t ticket;        /* whose holder has the lock */
};

static bool is_guest(const struct http *h)
{
    return h->is_shared && !pthread_equal(h->poller, pthread_self());
}

/* --- what curl calls --- */

/* Returning another count than `n` makes curl give up; the reason is in t->err. */
static size_t on_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;
    enum err_code rc;

    (void)one;
    if (t->state == CANCELLED)
        return 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->loop->depth++;
    t->loop->n_callbacks++;
    if (t->handler.on_chunk && status / 100 == 2)
        rc = t->handler.on_chunk(t->handler.ctx, bytes, n, &t->err);
    else
        rc = buf_add(&t->response.body, bytes, n, &t->err);
    t->loop->depth--;
    if (rc != ERR_OK)
        t->err.code = rc; /* a callback may not have set it */
    return rc == ERR_OK && t->state != CANCELLED ? n : 0;
}

static void take_etag(struct transfer *t, const char *line, size_t n)
{
    static const char name[] = "etag:";
    size_t at = sizeof name - 1;

    if (n <= at || strncasecmp(line, name, at) != 0)
        return;
    while (at < n && line[at] == ' ')
        at++;
    while (n > at && strchr(" \r\n", line[n - 1]))
        n--;
    if (n - at < sizeof t->response.etag && !memchr(line + at, '\0', n - at))
        (void)snprintf(t->response.etag, sizeof t->response.etag, "%.*s", (int)(n - at), line + at);
}

/* curl takes a head that is cut short for a complete response without a body; we do not. */
static size_t on_head_line(char *line, size_t one, size_t n, void *arg)
{
    struct transfer *t = arg;

    (void)one;
    t->has_head = n > 0 && (line[0] == '\r' || line[0] == '\n');
    take_etag(t, line, n);
    return n;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    unsigned int user_timeout_ms = TCP_USER_TIMEOUT_MS;
    int probes = KEEPALIVE_PROBES;

    (void)arg;
    (void)purpose;
    /* Both only detect a dead peer sooner; without them the deadline still holds. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return CURL_SOCKOPT_OK;
}

/* The identity was read once; curl would read its texts for every connection. */
static CURLcode on_context(CURL *easy, void *context, void *arg)
{
    struct transfer *t = arg;

    (void)easy;
    if (tls_context_set(t->identity, context, &t->err) != ERR_OK)
        return CURLE_ABORTED_BY_CALLBACK;
    (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* many connections are idle */
    return CURLE_OK;
}

/* --- building --- */

static enum err_code add_header(struct transfer *t, const char *name, const char *value,
                                struct err *err)
{
    struct buf line = {.max = HEADER_MAX_BYTES};
    struct curl_slist *longer = NULL;
    enum err_code rc = buf_addf(&line, err, "%s%s", name, value);

    /* A line break would begin another header. */
    for (const char *s = buf_text(&line); rc == ERR_OK && *s; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            rc = err_set(err, ERR_INVALID, "header %.40s contains a control character", name);
    if (rc == ERR_OK) {
        longer = curl_slist_append(t->headers, line.data);
        if (longer)
            t->headers = longer;
        else
            rc = err_set(err, ERR_NO_MEMORY, "no memory for a header");
    }
    buf_deinit(&line);
    return rc;
}

/* What libcurl 7.88 does not add to a signed request by itself, and signs when it is there. */
static enum err_code add_aws_headers(struct transfer *t, const struct http_request *r,
                                     struct err *err)
{
    char text[HMAC_TEXT_BYTES];
    uint8_t digest[HMAC_BYTES];
    enum err_code rc = hmac_digest(r->body ? r->body : "", r->body_bytes, digest, err);

    if (rc != ERR_OK)
        return rc;
    hmac_to_text(digest, text);
    rc = add_header(t, "x-amz-content-sha256: ", text, err);
    if (rc == ERR_OK && r->aws->session_token)
        rc = add_header(t, "x-amz-security-token: ", r->aws->session_token, err);
    return rc;
}

static enum err_code build_headers(struct transfer *t, const struct http_request *r,
                                   struct err *err)
{
    enum err_code rc = ERR_OK;

    for (const char *const *line = r->headers; line && *line && rc == ERR_OK; line++)
        rc = add_header(t, *line, "", err);
    if (rc == ERR_OK && r->body) /* without a type curl would call it a web form */
        rc = add_header(t, "Content-Type: ",
                        r->content_type ? r->content_type : "application/octet-stream", err);
    /* Else curl waits for the server's consent to a large body. It would sign this line, though it
     * does not send it. */
    if (rc == ERR_OK && r->body && !r->aws)
        rc = add_header(t, "Expect:", "", err);
    if (rc == ERR_OK && r->aws)
        rc = add_aws_headers(t, r, err);
    if (rc == ERR_OK && r->bearer_token)
        rc = add_header(t, "Authorization: Bearer ", r->bearer_token, err);
    return rc;
}

enum err_code http_host_of(const char *url, char out[static HTTP_HOST_BYTES], struct err *err)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    char *host = NULL;
    char *port = NULL;
    enum err_code rc = ERR_OK;

    if (!parts)
        return err_set(err, ERR_NO_MEMORY, "no memory for a URL");
    if (!url || curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
        rc = err_set(err, ERR_INVALID, "\"%.120s\" is not a URL", url ? url : "");
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        rc = err_set(err, ERR_INVALID, "\"%.120s\" is neither http nor https", url);
    else if (curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
             curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        rc = err_set(err, ERR_INVALID, "\"%.120s\" has no host", url);
    else
        (void)snprintf(out, HTTP_HOST_BYTES, "%s:%s", host, port);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return rc;
}

/* A setter that remembers the first failure, so that options read as a list. */
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (rc == CURLE_OK)                                                                        \
            rc = curl_easy_setopt(easy, option, value);                                            \
    } while (0)

/* curl reuses a connection if, among others, the folder with CAs is the same, so each identity has
 * a name of a folder, which does not exist: were anything but the identity's CAs trusted, it would
 * be nothing. */
static CURLcode configure_identity(struct transfer *t)
{
    char folder[64];
    CURL *easy = t->easy;
    CURLcode rc = CURLE_OK;

    (void)snprintf(folder, sizeof folder, "/dev/null/identity-%llu",
                   (unsigned long long)tls_identity_number(t->identity));
    SET(CURLOPT_CAINFO, (char *)NULL);
    SET(CURLOPT_CAPATH, folder);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    SET(CURLOPT_SSL_CTX_FUNCTION, on_context);
    SET(CURLOPT_SSL_CTX_DATA, t);
    SET(CURLOPT_MAXAGE_CONN, (long)HTTP_IDLE_S);
    return rc;
}

static enum err_code configure(struct transfer *t, const struct http_request *r, struct err *err)
{
    const struct {
        CURLoption option;
        const char *text;
    } pems[] = {{CURLOPT_CAINFO_BLOB, r->tls.ca_pem},
                {CURLOPT_SSLCERT_BLOB, r->tls.cert_pem},
                {CURLOPT_SSLKEY_BLOB, r->tls.key_pem}};
    const char *method = r->method ? r->method : "GET";
    char signature[HTTP_REGION_BYTES + 32];
    CURL *easy = t->easy;
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_URL, r->url);
    if (r->body || strcmp(method, "POST") == 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_bytes);
        SET(CURLOPT_COPYPOSTFIELDS, r->body ? r->body : "");
    }
    SET(CURLOPT_CUSTOMREQUEST, method);
    if (r->aws) {
        (void)snprintf(signature, sizeof signature, "aws:amz:%s:s3", r->aws->region);
        SET(CURLOPT_AWS_SIGV4, signature);
        SET(CURLOPT_USERNAME, r->aws->key_id);
        SET(CURLOPT_PASSWORD, r->aws->secret);
    }
    SET(CURLOPT_HTTPHEADER, t->headers);
    SET(CURLOPT_CONNECT_TO, t->connect_to);
    if (!r->uses_environment_proxy)
        SET(CURLOPT_PROXY, "");
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* do not wait for a resolver that hangs */
    SET(CURLOPT_TIMEOUT_MS, (long)t->deadline_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(r->connect_ms ? r->connect_ms : HTTP_CONNECT_MS));
    /* All watches would share one HTTP/2 connection, and end with it. */
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_FORBID_REUSE, r->closes ? 1L : 0L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_PERIOD_S);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);

    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, r->tls.insecure ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, r->tls.insecure ? 0L : 2L);
    SET(CURLOPT_CA_CACHE_TIMEOUT, 0L); /* else other identities' CAs might be used */
    if (r->tls.ca_pem)
        SET(CURLOPT_CAPATH, (char *)NULL); /* else the system's CAs were trusted as well */
    for (size_t i = 0; i < sizeof pems / sizeof *pems; i++) {
        struct curl_blob blob = {.data = (void *)(uintptr_t)pems[i].text, /* not written to */
                                 .len = pems[i].text ? strlen(pems[i].text) : 0,
                                 .flags = CURL_BLOB_COPY};

        if (pems[i].text)
            SET(pems[i].option, &blob);
    }
    if (rc == CURLE_OK && t->identity)
        rc = configure_identity(t);

    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HEADERFUNCTION, on_head_line);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_PRIVATE, t);
    SET(CURLOPT_ERRORBUFFER, t->curl_text);
    if (rc == CURLE_OUT_OF_MEMORY)
        return err_set(err, ERR_NO_MEMORY, "%s: no memory for a request", t->host);
    if (rc != CURLE_OK)
        return err_set(err, ERR_INVALID, "%s: %s", t->host, curl_easy_strerror(rc));
    return ERR_OK;
}

static void free_transfer(struct transfer *t)
{
    curl_easy_cleanup(t->easy); /* first: it still points to the lists */
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    tls_identity_free(t->identity);
    buf_deinit(&t->response.body);
    free(t);
}

enum err_code http_start(struct http *h, const struct http_request *request,
                         struct http_handler handler, uint64_t *out_id, struct err *err)
{
    char host[HTTP_HOST_BYTES];
    struct transfer *t;
    enum err_code rc = http_host_of(request->url, host, err);

    if (rc != ERR_OK)
        return rc;
    if (request->method &&
        request->method[strspn(request->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] != '\0')
        return err_set(err, ERR_INVALID, "\"%.20s\" is not a method", request->method);
    if (request->connect_to && strlen(request->connect_to) > HTTP_HOST_BYTES - 8)
        return err_set(err, ERR_INVALID, "\"%.40s...\" is not an address", request->connect_to);
    if (request->aws && (strlen(request->aws->region) >= HTTP_REGION_BYTES ||
                         strpbrk(request->aws->region, ": /\r\n")))
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a region", request->aws->region);
    if (request->tls.identity && (request->tls.insecure || request->tls.ca_pem ||
                                  request->tls.cert_pem || request->tls.key_pem))
        return err_set(err, ERR_INVALID, "an identity, and other settings of TLS");
    if (request->deadline_ms < 0 || request->connect_ms < 0)
        return err_set(err, ERR_INVALID, "a deadline is negative");
    if (h->n_transfers >= HTTP_TRANSFERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d requests at once", HTTP_TRANSFERS_MAX);
    t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory for a request");
    *t = (struct transfer){
        .loop = h,
        .easy = curl_easy_init(),
        .handler = handler,
        .identity = tls_identity_share(request->tls.identity),
        .deadline_ms = request->deadline_ms ? request->deadline_ms : HTTP_DEADLINE_MS,
        .response = {.retry_after_ms = -1,
                     .body.max = request->response_max_bytes ? request->response_max_bytes
                                                             : HTTP_RESPONSE_MAX_BYTES}};
    (void)snprintf(t->host, sizeof t->host, "%s", host);
    rc = t->easy ? build_headers(t, request, err)
                 : err_set(err, ERR_NO_MEMORY, "no memory for a request");
    if (rc == ERR_OK && request->connect_to) {
        bool is_bare_v6 = strchr(request->connect_to, ':') && request->connect_to[0] != '[';

        (void)snprintf(host, sizeof host, is_bare_v6 ? "::[%s]:" : "::%s:", request->connect_to);
        t->connect_to = curl_slist_append(NULL, host);
        if (!t->connect_to)
            rc = err_set(err, ERR_NO_MEMORY, "no memory for an address");
    }
    if (rc == ERR_OK)
        rc = configure(t, request, err);
    if (rc != ERR_OK) {
        free_transfer(t);
        return rc;
    }
    t->id = ++h->last_id;
    t->next = h->first;
    h->first = t;
    h->n_transfers++;
    *out_id = t->id;
    if (is_guest(h))
        http_wake(h);
    return ERR_OK;
}

/* --- the end of a transfer --- */

static enum err_code code_of(CURLcode result, const char *text)
{
    switch (result) {
    case CURLE_OUT_OF_MEMORY:
        return ERR_NO_MEMORY;
    case CURLE_PEER_FAILED_VERIFICATION:
        return ERR_DENIED;
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_URL_MALFORMAT:
        return ERR_INVALID;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        /* One code for all failures in or after a handshake: only the text shows whether a
         * certificate was refused, or the peer does not speak TLS. */
        if (strstr(text, " alert "))
            return ERR_DENIED;
        if (strstr(text, "wrong version number") || strstr(text, "packet length"))
            return ERR_PROTOCOL;
        return ERR_IO;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: the URL's scheme has been checked */
    case CURLE_BAD_CONTENT_ENCODING:
        return ERR_PROTOCOL;
    default:
        return ERR_IO;
    }
}

/* Fill in the response's head, and `err` unless the response is complete. */
static void conclude(struct transfer *t, CURLcode result, struct err *err)
{
    const char *text = t->curl_text[0] ? t->curl_text : curl_easy_strerror(result);
    curl_off_t retry_after_s = 0;
    double connected_s = 0;
    long os_error = 0;
    long status = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    (void)curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME, &connected_s);
    (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_error);
    t->response.status = (int)status;
    if (retry_after_s > 0)
        t->response.retry_after_ms = (int64_t)retry_after_s * 1000;
    if (t->err.code != ERR_OK)
        (void)err_set(err, t->err.code, "%s: %s", t->host, t->err.text);
    else if (result == CURLE_OPERATION_TIMEDOUT && connected_s <= 0)
        (void)err_set(err, ERR_TIMEOUT, "%s: connection timed out", t->host);
    else if (result == CURLE_OPERATION_TIMEDOUT)
        (void)err_set(err, ERR_TIMEOUT, "%s: no complete response within %lld ms", t->host,
                      (long long)t->deadline_ms);
    else if (result == CURLE_COULDNT_CONNECT)
        (void)err_set(err, ERR_IO, "%s: %s", t->host,
                      os_error ? strerror((int)os_error) : "cannot connect");
    else if (result != CURLE_OK)
        (void)err_set(err, code_of(result, text), "%s: %s", t->host, text);
    else if (!t->has_head)
        (void)err_set(err, ERR_IO, "%s: the response was cut short", t->host);
}

/* Remove it from the list and from curl. */
static void detach(struct http *h, struct transfer *t)
{
    struct transfer **link = &h->first;

    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    h->n_transfers--;
    (void)curl_multi_remove_handle(h->multi, t->easy); /* harmless if curl never had it */
}

/* Drop what was cancelled. Not while a callback runs: curl is inside that transfer. Nor by a guest,
 * since the poller may be inside curl. */
static void sweep(struct http *h)
{
    struct transfer *next;

    for (struct transfer *t = h->first; t && h->depth == 0 && !is_guest(h); t = next) {
        next = t->next;
        if (t->state == CANCELLED) {
            detach(h, t);
            free_transfer(t);
        }
    }
}

void http_cancel(struct http *h, uint64_t id)
{
    for (struct transfer *t = h->first; t; t = t->next)
        if (t->id == id)
            t->state = CANCELLED;
    if (is_guest(h))
        http_wake(h);
    sweep(h);
}

/* --- the lock --- */

/* With the mutex. */
static void take_ticket(struct http *h)
{
    uint64_t own = h->n_tickets++;

    while (own != h->ticket)
        (void)pthread_cond_wait(&h->changed, &h->mutex);
}

static void return_ticket(struct http *h)
{
    h->ticket++;
    (void)pthread_cond_broadcast(&h->changed);
}

void http_enter(struct http *h)
{
    (void)pthread_mutex_lock(&h->mutex);
    take_ticket(h);
    (void)pthread_mutex_unlock(&h->mutex);
}

void http_leave(struct http *h)
{
    (void)pthread_mutex_lock(&h->mutex);
    return_ticket(h);
    (void)pthread_mutex_unlock(&h->mutex);
}

void http_share(struct http *h)
{
    h->poller = pthread_self();
    h->is_shared = true;
    http_enter(h);
}

void http_unshare(struct http *h)
{
    http_leave(h);
    h->is_shared = false;
}

/* --- the loop --- */

enum err_code http_new(struct http **out, struct err *err)
{
    struct http *h = calloc(1, sizeof *h);

    if (!h)
        return err_set(err, ERR_NO_MEMORY, "no memory for the HTTP loop");
    (void)signal(SIGPIPE, SIG_IGN);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(h);
        return err_set(err, ERR_IO, "libcurl cannot be started");
    }
    (void)pthread_mutex_init(&h->mutex, NULL);
    thread_cond_init(&h->changed);
    h->multi = curl_multi_init();
    if (!h->multi ||
        curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_IDLE_MAX) != CURLM_OK) {
        http_free(h);
        return err_set(err, ERR_NO_MEMORY, "no memory for the HTTP loop");
    }
    atomic_store(&h->turned_ms, clock_now_ms());
    *out = h;
    return ERR_OK;
}

void http_free(struct http *h)
{
    if (!h)
        return;
    for (struct transfer *t = h->first; t; t = t->next)
        t->state = CANCELLED;
    sweep(h);
    (void)curl_multi_cleanup(h->multi);
    curl_global_cleanup();
    (void)pthread_cond_destroy(&h->changed);
    (void)pthread_mutex_destroy(&h->mutex);
    free(h);
}

/* Report the end of a transfer. The list may change under the callback. */
static void finish(struct http *h, struct transfer *t, CURLcode result)
{
    struct err err = {.code = ERR_OK};

    conclude(t, result, &err);
    detach(h, t);
    h->depth++;
    h->n_callbacks++;
    t->handler.on_done(t->handler.ctx, &t->response, &err);
    h->depth--;
    free_transfer(t);
}

static CURLMcode advance(struct http *h)
{
    struct transfer *refused = NULL;
    CURLMsg *msg;
    CURLMcode code;
    int n;

    atomic_store(&h->turned_ms, clock_now_ms());
    for (struct transfer *t = h->first; t && !refused; t = t->next) {
        if (t->state != QUEUED)
            continue;
        t->state = RUNNING;
        if (curl_multi_add_handle(h->multi, t->easy) != CURLM_OK)
            refused = t; /* the rest is started by the next poll */
    }
    if (refused)
        finish(h, refused, CURLE_OUT_OF_MEMORY);
    code = curl_multi_perform(h->multi, &n);
    while ((msg = curl_multi_info_read(h->multi, &n))) {
        void *private = NULL;
        struct transfer *t;

        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private);
        t = private;
        if (msg->msg == CURLMSG_DONE && t && t->state == RUNNING)
            finish(h, t, msg->data.result);
    }
    sweep(h);
    return code;
}

enum err_code http_poll(struct http *h, int64_t timeout_ms, struct err *err)
{
    uint64_t n_before = h->n_callbacks;
    CURLMcode code;

    if (h->depth > 0)
        return err_set(err, ERR_INVALID, "the HTTP loop was entered from a callback");
    code = advance(h);
    if (h->n_callbacks != n_before || timeout_ms < 0)
        timeout_ms = 0; /* something happened already */
    if (timeout_ms > INT_MAX)
        timeout_ms = INT_MAX;
    if (code == CURLM_OK) {
        if (h->is_shared)
            http_leave(h);
        code = curl_multi_poll(h->multi, NULL, 0, (int)timeout_ms, NULL);
        if (h->is_shared)
            http_enter(h);
    }
    if (code == CURLM_OK)
        code = advance(h);
    if (code == CURLM_OK)
        return ERR_OK;
    return err_set(err, code == CURLM_OUT_OF_MEMORY ? ERR_NO_MEMORY : ERR_IO, "HTTP loop: %s",
                   curl_multi_strerror(code));
}

enum err_code http_pause(struct http *h, int64_t ms, struct err *err)
{
    if (!is_guest(h))
        return http_poll(h, ms, err);
    http_leave(h);
    (void)usleep((useconds_t)(ms < HTTP_DEADLINE_MS ? ms : HTTP_DEADLINE_MS) * 1000);
    http_enter(h);
    return ERR_OK;
}

void http_stop(struct http *h)
{
    atomic_store(&h->stops, true);
    (void)curl_multi_wakeup(h->multi);
}

void http_wake(struct http *h)
{
    (void)curl_multi_wakeup(h->multi);
}

int64_t http_turned_ms(const struct http *h)
{
    return atomic_load(&h->turned_ms);
}

/* Has HTTP_STOP_MS passed? It begins when a call first notices http_stop(). */
static bool is_over(struct http *h)
{
    int64_t now_ms = clock_now_ms();

    if (!atomic_load(&h->stops))
        return false;
    if (h->stop_ms == 0)
        h->stop_ms = now_ms + HTTP_STOP_MS;
    return now_ms >= h->stop_ms;
}

static enum err_code check_stop(struct http *h, const struct http_request *r, struct err *err)
{
    if (r->stops && atomic_load(r->stops))
        return err_set(err, ERR_GONE, "stopped");
    return is_over(h) ? err_set(err, ERR_AGAIN, "stopped") : ERR_OK;
}

struct waiter {
    struct http *loop; /* borrowed */
    bool is_done;
    pthread_cond_t done;
    struct http_response response;
    struct err err;
};

static void on_waited(void *ctx, struct http_response *response, const struct err *err)
{
    struct waiter *w = ctx;

    w->err = *err;
    w->response = *response;
    response->body = (struct buf){0}; /* ours now */
    (void)pthread_mutex_lock(&w->loop->mutex);
    w->is_done = true;
    (void)pthread_cond_signal(&w->done);
    (void)pthread_mutex_unlock(&w->loop->mutex);
}

/* Let go of the lock until this call is done, for at most `ms`. */
static void wait_done(struct http *h, struct waiter *w, int ms)
{
    struct timespec deadline = thread_deadline(ms);
    int rc = 0;

    (void)pthread_mutex_lock(&h->mutex);
    return_ticket(h);
    while (rc == 0 && !w->is_done)
        rc = pthread_cond_timedwait(&w->done, &h->mutex, &deadline);
    take_ticket(h);
    (void)pthread_mutex_unlock(&h->mutex);
}

enum err_code http_call(struct http *h, const struct http_request *request,
                        struct http_response *out, struct err *err)
{
    struct waiter waiter = {.loop = h};
    uint64_t id = 0;
    enum err_code rc;

    if (h->depth > 0)
        return err_set(err, ERR_INVALID, "a callback cannot wait for a response");
    thread_cond_init(&waiter.done);
    rc = check_stop(h, request, err);
    if (rc == ERR_OK)
        rc = http_start(h, request, (struct http_handler){.ctx = &waiter, .on_done = on_waited},
                        &id, err);
    while (rc == ERR_OK && !waiter.is_done) {
        int ms = h->stop_ms > 0 || request->stops ? STOP_POLL_MS : CALL_POLL_MS;

        if (is_guest(h))
            wait_done(h, &waiter, ms);
        else
            rc = http_poll(h, ms, err);
        if (rc == ERR_OK && !waiter.is_done)
            rc = check_stop(h, request, err);
    }
    if (!waiter.is_done)
        http_cancel(h, id); /* the waiter lives on our stack */
    else if (waiter.err.code != ERR_OK)
        rc = err_set(err, waiter.err.code, "%s", waiter.err.text);
    (void)pthread_cond_destroy(&waiter.done);
    if (rc == ERR_OK)
        *out = waiter.response;
    else
        buf_deinit(&waiter.response.body);
    return rc;
}
