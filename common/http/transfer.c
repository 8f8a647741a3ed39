#include "http/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KEEPALIVE_IDLE_S    15L
#define KEEPALIVE_PERIOD_S  5L
#define KEEPALIVE_PROBES    3
#define TCP_USER_TIMEOUT_MS 30000 /* sent bytes that nobody acknowledges: the peer is gone */
#define HEADER_MAX_BYTES    ((size_t)16 << 10)

void http_response_deinit(struct http_response *r)
{
    buf_deinit(&r->body);
    r->status = 0;
}

/* --- what curl calls --- */

static bool is_2xx(CURL *easy)
{
    long status = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status <= 299;
}

/* Returning another count than `n` makes curl give up; t->err then says why. */
static size_t on_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct transfer *t = arg;
    enum err_code rc;

    (void)one;
    if (t->state == TRANSFER_CANCELLED)
        return 0;
    http_enter_callback(t->loop);
    if (t->handler.on_chunk && is_2xx(t->easy))
        rc = t->handler.on_chunk(t->handler.ctx, bytes, n, &t->err);
    else
        rc = buf_add(&t->response.body, bytes, n, &t->err);
    http_leave_callback(t->loop);
    if (rc != ERR_OK)
        t->err.code = rc; /* a callback may have left the text alone */
    return rc == ERR_OK && t->state != TRANSFER_CANCELLED ? n : 0;
}

/* curl takes a head that is cut short for a whole response without a body; we do not. */
static size_t on_head_line(char *line, size_t one, size_t n, void *arg)
{
    struct transfer *t = arg;

    (void)one;
    t->has_head = n > 0 && (line[0] == '\r' || line[0] == '\n');
    return n;
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    unsigned int user_timeout_ms = TCP_USER_TIMEOUT_MS;
    int probes = KEEPALIVE_PROBES;

    (void)arg;
    (void)purpose;
    /* Both only make a dead peer show sooner; without them the deadline still holds. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return CURL_SOCKOPT_OK;
}

/* --- building --- */

/* No line break or other control character, with which text could become another header. */
static bool is_one_line(const char *s)
{
    for (; *s; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return false;
    return true;
}

static enum err_code add_header(struct transfer *t, const char *name, const char *value,
                                struct err *err)
{
    struct buf line = {.max = HEADER_MAX_BYTES};
    struct curl_slist *longer = NULL;
    enum err_code rc = buf_addf(&line, err, "%s%s", name, value);

    if (rc == ERR_OK && !is_one_line(line.data))
        rc = err_set(err, ERR_INVALID, "header %.40s holds a control character", name);
    if (rc == ERR_OK) {
        longer = curl_slist_append(t->headers, line.data);
        if (!longer)
            rc = err_set(err, ERR_NO_MEMORY, "no memory for a header");
    }
    if (longer)
        t->headers = longer;
    buf_deinit(&line);
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
    if (rc == ERR_OK && r->body) /* nobody we speak to refuses a body before it is sent */
        rc = add_header(t, "Expect:", "", err);
    if (rc == ERR_OK && r->bearer_token)
        rc = add_header(t, "Authorization: Bearer ", r->bearer_token, err);
    return rc;
}

static enum err_code check_url(const char *url, struct err *err)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    enum err_code rc = ERR_OK;

    if (!parts)
        return err_set(err, ERR_NO_MEMORY, "no memory for a URL");
    if (!url || curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
        rc = err_set(err, ERR_INVALID, "\"%.120s\" is not a URL", url ? url : "");
    else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        rc = err_set(err, ERR_INVALID, "\"%.120s\" is neither http nor https", url);
    curl_free(scheme);
    curl_url_cleanup(parts);
    return rc;
}

void http_host_of(const char *url, char out[static HTTP_HOST_BYTES])
{
    CURLU *parts = curl_url();
    char *host = NULL;
    char *port = NULL;

    if (parts && url && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK) {
        (void)curl_url_get(parts, CURLUPART_HOST, &host, 0);
        (void)curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    }
    if (host && port)
        (void)snprintf(out, HTTP_HOST_BYTES, "%s:%s", host, port);
    else
        (void)snprintf(out, HTTP_HOST_BYTES, "?");
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
}

/* A setter that remembers the first failure, so that options read as a list. */
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (rc == CURLE_OK)                                                                        \
            rc = curl_easy_setopt(easy, option, value);                                            \
    } while (0)

static CURLcode set_pem(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob blob = {.flags = CURL_BLOB_COPY};
    union {
        const char *from;
        void *to;
    } unconst = {.from = pem}; /* curl copies and does not write */

    if (!pem)
        return CURLE_OK;
    blob.data = unconst.to;
    blob.len = strlen(pem);
    return curl_easy_setopt(easy, option, &blob);
}

static CURLcode set_trust(CURL *easy, const struct http_tls *tls)
{
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, tls->insecure ? 0L : 1L);
    SET(CURLOPT_SSL_VERIFYHOST, tls->insecure ? 0L : 2L);
    if (tls->ca_pem)
        SET(CURLOPT_CAPATH, (char *)NULL); /* else the system's CAs were trusted as well */
    if (rc == CURLE_OK)
        rc = set_pem(easy, CURLOPT_CAINFO_BLOB, tls->ca_pem);
    if (rc == CURLE_OK)
        rc = set_pem(easy, CURLOPT_SSLCERT_BLOB, tls->cert_pem);
    return rc == CURLE_OK ? set_pem(easy, CURLOPT_SSLKEY_BLOB, tls->key_pem) : rc;
}

static CURLcode set_message(CURL *easy, const struct http_request *r)
{
    const char *method = r->method ? r->method : "GET";
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_URL, r->url);
    if (strcmp(method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    } else if (r->body || strcmp(method, "POST") == 0) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_bytes);
        SET(CURLOPT_COPYPOSTFIELDS, r->body ? r->body : "");
    }
    SET(CURLOPT_CUSTOMREQUEST, method);
    return rc;
}

static CURLcode set_limits(CURL *easy, const struct transfer *t)
{
    CURLcode rc = CURLE_OK;

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* a resolver that hangs is left behind, not waited for */
    SET(CURLOPT_TIMEOUT_MS, (long)t->deadline_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)t->connect_ms);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* a dead h2 line takes all watches */
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_PERIOD_S);
    SET(CURLOPT_SOCKOPTFUNCTION, on_socket);
    return rc;
}

static enum err_code configure(struct transfer *t, const struct http_request *r, struct err *err)
{
    CURL *easy = t->easy;
    CURLcode rc = set_limits(easy, t);

    if (rc == CURLE_OK)
        rc = set_message(easy, r);
    if (rc == CURLE_OK)
        rc = set_trust(easy, &r->tls);
    if (!r->uses_environment_proxy)
        SET(CURLOPT_PROXY, "");
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_HTTPHEADER, t->headers);
    SET(CURLOPT_CONNECT_TO, t->connect_to);
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

static enum err_code check_request(const struct http_request *r, struct err *err)
{
    enum err_code rc = check_url(r->url, err);

    if (rc != ERR_OK)
        return rc;
    if (!is_one_line(r->url))
        return err_set(err, ERR_INVALID, "the URL holds a control character");
    if (r->method && strspn(r->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(r->method))
        return err_set(err, ERR_INVALID, "\"%.20s\" is not a method", r->method);
    if (r->deadline_ms < 0 || r->connect_ms < 0)
        return err_set(err, ERR_INVALID, "a deadline is negative");
    return ERR_OK;
}

static enum err_code build_connect_to(struct transfer *t, const char *address, struct err *err)
{
    char entry[HTTP_HOST_BYTES + 8];
    bool is_bare_v6 = strchr(address, ':') && address[0] != '[';

    if (strlen(address) >= HTTP_HOST_BYTES)
        return err_set(err, ERR_INVALID, "\"%.40s...\" is not an address", address);
    (void)snprintf(entry, sizeof entry, is_bare_v6 ? "::[%s]:" : "::%s:", address);
    t->connect_to = curl_slist_append(NULL, entry);
    return t->connect_to ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for an address");
}

enum err_code transfer_new(const struct http_request *request, struct http_handler handler,
                           struct transfer **out, struct err *err)
{
    struct transfer *t;
    enum err_code rc = check_request(request, err);

    if (rc != ERR_OK)
        return rc;
    t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory for a request");
    t->handler = handler;
    t->deadline_ms = request->deadline_ms ? request->deadline_ms : HTTP_DEADLINE_MS;
    t->connect_ms = request->connect_ms ? request->connect_ms : HTTP_CONNECT_MS;
    t->response.retry_after_ms = -1;
    t->response.body.max =
        request->response_max_bytes ? request->response_max_bytes : HTTP_RESPONSE_MAX_BYTES;
    http_host_of(request->url, t->host);
    t->easy = curl_easy_init();
    rc = t->easy ? build_headers(t, request, err)
                 : err_set(err, ERR_NO_MEMORY, "no memory for a request");
    if (rc == ERR_OK && request->connect_to)
        rc = build_connect_to(t, request->connect_to, err);
    if (rc == ERR_OK)
        rc = configure(t, request, err);
    if (rc != ERR_OK) {
        transfer_free(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

void transfer_free(struct transfer *t)
{
    if (!t)
        return;
    curl_easy_cleanup(t->easy); /* first: it still points to the lists */
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    http_response_deinit(&t->response);
    free(t);
}

/* --- the end --- */

/* curl has one code for everything that goes wrong in or after a handshake; only its text says
 * whether somebody refused a certificate. */
static enum err_code tls_code(const char *text)
{
    if (strstr(text, " alert "))
        return ERR_DENIED;
    if (strstr(text, "wrong version number") || strstr(text, "packet length"))
        return ERR_PROTOCOL; /* the peer does not speak TLS */
    return ERR_IO;
}

static enum err_code code_of(CURLcode result, const char *text)
{
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
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
        return tls_code(text);
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9: the URL's scheme has been checked */
    case CURLE_BAD_CONTENT_ENCODING:
        return ERR_PROTOCOL;
    default:
        return ERR_IO;
    }
}

static enum err_code fail(const struct transfer *t, CURLcode result, struct err *err)
{
    const char *text = t->curl_text[0] ? t->curl_text : curl_easy_strerror(result);
    enum err_code code = code_of(result, text);
    double connected_s = 0;
    long os_error = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME, &connected_s);
    (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_error);
    if (result == CURLE_OPERATION_TIMEDOUT && connected_s <= 0)
        return err_set(err, code, "%s: connection timed out", t->host);
    if (result == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, code, "%s: no complete response within %lld ms", t->host,
                       (long long)t->deadline_ms);
    if (result == CURLE_COULDNT_CONNECT)
        return err_set(err, code, "%s: %s", t->host,
                       os_error ? strerror((int)os_error) : "cannot connect");
    return err_set(err, code, "%s: %s", t->host, text);
}

enum err_code transfer_conclude(struct transfer *t, CURLcode result, struct err *err)
{
    curl_off_t retry_after_s = 0;
    long status = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    t->response.status = (int)status;
    if (retry_after_s > 0)
        t->response.retry_after_ms = (int64_t)retry_after_s * 1000;
    if (t->err.code != ERR_OK)
        return err_set(err, t->err.code, "%s: %s", t->host,
                       t->err.text[0] ? t->err.text : err_name(t->err.code));
    if (result != CURLE_OK)
        return fail(t, result, err);
    return t->has_head ? ERR_OK : err_set(err, ERR_IO, "%s: the response was cut short", t->host);
}
