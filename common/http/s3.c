#include "http/s3.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "http/xml.h"

#define POLL_MS           100
#define PAUSE_MS          250 /* then doubled */
#define PAUSE_LONGEST_MS  4000
#define RETRY_AFTER_MS    10000 /* the longest that a server is given its way */
#define URL_MAX_BYTES     ((size_t)16384)
#define ENDPOINT_BYTES    512
#define CA_MAX_BYTES      ((size_t)1 << 20)
#define ERROR_CODE_BYTES  64
#define UPLOAD_ID_BYTES   1024
#define COMPLETE_MAX      ((size_t)4 << 20) /* of the list of the parts */
#define COPY_BYTES_PER_MS 16000             /* of the slowest server that copies */
#define UPLOAD_TRIES      2                 /* of a whole upload that the server has forgotten */
#define BUCKET_WORD       "{bucket}"

struct s3 {
    struct s3_access access; /* its texts are below */
    char endpoint[ENDPOINT_BYTES];
    struct buf ca;
    struct http *http;
    const atomic_bool *stops;
    int n_tries;
    int64_t deadline_ms;
    unsigned char *piece; /* [S3_PIECE_BYTES], once it was needed */
};

/* --- access --- */

bool s3_is_url(const char *text)
{
    return text && strncmp(text, S3_SCHEME, strlen(S3_SCHEME)) == 0;
}

/* NULL also for a variable that is empty. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static bool is_bucket(const char *text)
{
    size_t n = strlen(text);

    return n >= 3 && n < S3_BUCKET_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n && text[0] != '.' &&
           text[0] != '-';
}

static enum err_code parse_url(const char *url, struct s3_access *out, struct err *err)
{
    const char *bucket = url + strlen(S3_SCHEME);
    size_t n = strcspn(bucket, "/");
    const char *prefix = bucket + n;

    (void)snprintf(out->bucket, sizeof out->bucket, "%.*s", (int)(n < 100 ? n : 100), bucket);
    if (n >= sizeof out->bucket || !is_bucket(out->bucket))
        return err_set(err, ERR_INVALID,
                       "%.200s: \"%.80s\" is not the name of a bucket; write s3://bucket/prefix",
                       url, out->bucket);
    while (*prefix == '/')
        prefix++;
    n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/')
        n--;
    if (n >= sizeof out->prefix)
        return err_set(err, ERR_INVALID, "%.200s...: too long", url);
    (void)snprintf(out->prefix, sizeof out->prefix, "%.*s", (int)n, prefix);
    for (const char *p = out->prefix; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_INVALID, "the prefix of an s3:// URL has control characters");
    return ERR_OK;
}

enum err_code s3_access_load(const char *url, struct s3_access *out, struct err *err)
{
    struct s3_access a = {.key_id = variable("AWS_ACCESS_KEY_ID"),
                          .secret = variable("AWS_SECRET_ACCESS_KEY"),
                          .session_token = variable("AWS_SESSION_TOKEN"),
                          .endpoint = variable("AWS_ENDPOINT_URL_S3"),
                          .region = variable("AWS_REGION"),
                          .ca_path = variable("AWS_CA_BUNDLE"),
                          .ca_pem = variable(S3_CA_PEM_VARIABLE)};
    enum err_code rc = parse_url(url, &a, err);

    if (!a.endpoint)
        a.endpoint = variable("AWS_ENDPOINT_URL");
    if (!a.region)
        a.region = variable("AWS_DEFAULT_REGION");
    if (rc == ERR_OK && (!a.key_id || !a.secret))
        rc = err_set(err, ERR_INVALID, "%.200s: set %s in the environment", url,
                     a.key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    if (rc == ERR_OK)
        *out = a;
    return rc;
}

/* "https://host:port", with the bucket in it or behind it. */
static enum err_code make_endpoint(struct s3 *s, struct err *err)
{
    const struct s3_access *a = &s->access;
    char host[HTTP_HOST_BYTES];
    const char *word = a->endpoint ? strstr(a->endpoint, BUCKET_WORD) : NULL;
    const char *scheme;
    int n;

    if (!a->endpoint) {
        n = snprintf(s->endpoint, sizeof s->endpoint, "https://s3.%s.amazonaws.com/%s", a->region,
                     a->bucket);
    } else if (word) {
        n = snprintf(s->endpoint, sizeof s->endpoint, "%.*s%s%s", (int)(word - a->endpoint),
                     a->endpoint, a->bucket, word + strlen(BUCKET_WORD));
    } else {
        size_t length = strlen(a->endpoint);

        while (length > 0 && a->endpoint[length - 1] == '/')
            length--;
        n = snprintf(s->endpoint, sizeof s->endpoint, "%.*s/%s", (int)length, a->endpoint,
                     a->bucket);
    }
    scheme = strstr(a->endpoint ? a->endpoint : s->endpoint, "://");
    if (n >= (int)sizeof s->endpoint || !scheme || strchr("/", scheme[3]) ||
        strpbrk(s->endpoint, "?#\r\n "))
        return err_set(err, ERR_INVALID, "the S3 endpoint \"%.200s\" cannot be used",
                       a->endpoint ? a->endpoint : a->region);
    return http_host_of(s->endpoint, host, err);
}

enum err_code s3_new(const struct s3_access *access, struct s3 **out, struct err *err)
{
    struct s3 *s = calloc(1, sizeof *s);
    enum err_code rc;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory for an S3 client");
    s->access = *access;
    s->n_tries = S3_TRIES;
    s->deadline_ms = S3_DEADLINE_MS;
    s->ca.max = CA_MAX_BYTES;
    if (!s->access.region)
        s->access.region = "us-east-1";
    rc = make_endpoint(s, err);
    if (rc == ERR_OK && !access->ca_pem && access->ca_path) {
        rc = file_read(access->ca_path, &s->ca, err);
        if (rc != ERR_OK)
            err_wrap(err, rc = ERR_INVALID, "AWS_CA_BUNDLE");
        s->access.ca_pem = buf_text(&s->ca);
    }
    if (rc == ERR_OK)
        rc = http_new(&s->http, err);
    if (rc == ERR_OK)
        *out = s;
    else
        s3_free(s);
    return rc;
}

void s3_free(struct s3 *s)
{
    if (!s)
        return;
    http_free(s->http);
    buf_deinit(&s->ca);
    free(s->piece);
    free(s);
}

void s3_stop_at(struct s3 *s, const atomic_bool *stops)
{
    s->stops = stops;
}

void s3_set_patience(struct s3 *s, int n_tries, int64_t deadline_ms)
{
    s->n_tries = n_tries;
    s->deadline_ms = deadline_ms;
}

/* --- one request --- */

struct call {
    const char *method;
    const char *key;    /* NULL: the bucket itself */
    const char *query;  /* canonical; NULL: none */
    const char *range;  /* a header; NULL: none */
    const char *source; /* likewise, with the object to copy */
    const void *body;
    size_t body_bytes;
    size_t response_max_bytes; /* 0: HTTP_RESPONSE_MAX_BYTES */
};

/* Append `text` percent-encoded; slashes stay in a path. */
static enum err_code add_encoded(struct buf *out, const char *text, bool is_path, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (const unsigned char *p = (const unsigned char *)text; *p && rc == ERR_OK; p++) {
        bool is_plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                        (*p >= '0' && *p <= '9') || strchr("-._~", *p) || (is_path && *p == '/');

        rc = is_plain ? buf_add(out, p, 1, err) : buf_addf(out, err, "%%%02X", *p);
    }
    return rc;
}

static enum err_code make_url(const struct s3 *s, const struct call *c, struct buf *out,
                              struct err *err)
{
    enum err_code rc = buf_addf(out, err, "%s/", s->endpoint);

    if (rc == ERR_OK && c->key && s->access.prefix[0]) {
        rc = add_encoded(out, s->access.prefix, true, err);
        if (rc == ERR_OK)
            rc = buf_addf(out, err, "/");
    }
    if (rc == ERR_OK && c->key)
        rc = add_encoded(out, c->key, true, err);
    if (rc == ERR_OK && c->query)
        rc = buf_addf(out, err, "?%s", c->query);
    return rc;
}

static enum err_code check_stop(const struct s3 *s, struct err *err)
{
    return s->stops && atomic_load(s->stops) ? err_set(err, ERR_GONE, "stopped") : ERR_OK;
}

/* Send it once. On ERR_OK the caller frees the body of *out, whatever its status. */
static enum err_code send_once(struct s3 *s, const struct call *c, const char *url,
                               struct http_response *out, struct err *err)
{
    const struct http_aws aws = {.region = s->access.region,
                                 .key_id = s->access.key_id,
                                 .secret = s->access.secret,
                                 .session_token = s->access.session_token};
    const char *headers[] = {c->range, c->source, NULL};
    const struct http_request request = {.method = c->method,
                                         .url = url,
                                         .headers = c->range ? headers : headers + 1,
                                         .body = c->body,
                                         .body_bytes = c->body_bytes,
                                         .aws = &aws,
                                         .tls = {.ca_pem = s->access.ca_pem},
                                         .deadline_ms = s->deadline_ms,
                                         .response_max_bytes = c->response_max_bytes,
                                         .uses_environment_proxy = true,
                                         .stops = s->stops};

    return http_call(s->http, &request, out, err);
}

/* --- what an answer means --- */

/* The server's word for an error, from the answer's body; "" when there is none. */
static void error_code(const struct http_response *r, char out[static ERROR_CODE_BYTES])
{
    struct xml x;

    out[0] = '\0';
    xml_init(&x, buf_text(&r->body), r->body.len);
    while (xml_next(&x, NULL) == ERR_OK)
        if (strcmp(x.path, "Error/Code") == 0)
            (void)snprintf(out, ERROR_CODE_BYTES, "%.60s", x.text);
    if (out[strspn(out, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] != '\0')
        out[0] = '\0';
}

/* Is it worth another try? */
static bool is_passing(int status, const char *code)
{
    static const char *const codes[] = {"SlowDown", "InternalError", "ServiceUnavailable",
                                        "RequestTimeout", "OperationAborted"};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return status == 429 || (status >= 500 && status != 501 && status != 507);
}

/* The sentence for a refusal. */
static enum err_code refusal(const struct s3 *s, const struct call *c, int status, const char *code,
                             struct err *err)
{
    static const struct {
        const char *code;
        enum err_code is;
        const char *text;
    } known[] = {
        {"AccessDenied", ERR_DENIED, "these credentials do not allow it"},
        {"SignatureDoesNotMatch", ERR_DENIED, "the secret access key is wrong"},
        {"InvalidAccessKeyId", ERR_DENIED, "the server does not know this access key id"},
        {"XAdminUserNotFound", ERR_DENIED, "the server does not know this access key id"},
        {"ExpiredToken", ERR_DENIED, "the session token has expired"},
        {"InvalidToken", ERR_DENIED, "the session token is not valid"},
        {"RequestTimeTooSkewed", ERR_DENIED,
         "the clock of this machine and that of the server differ too much"},
        {"NoSuchBucket", ERR_NOT_FOUND, "there is no such bucket"},
        {"NoSuchKey", ERR_NOT_FOUND, "there is no such object"},
        {"AuthorizationHeaderMalformed", ERR_INVALID, "the bucket is in another region"},
        {"PermanentRedirect", ERR_INVALID, "the bucket is in another region"},
        {"QuotaExceeded", ERR_LIMIT, "the bucket is full"},
        {"QuotaExceededException", ERR_LIMIT, "the bucket is full"},
        {"XMinioStorageFull", ERR_LIMIT, "the bucket is full"},
        {"XMinioAdminBucketQuotaExceeded", ERR_LIMIT, "the bucket is full"},
        {"EntityTooLarge", ERR_LIMIT, "the object is too large for the server"},
    };
    const char *slash = s->access.prefix[0] && c->key ? "/" : "";
    enum err_code is = ERR_PROTOCOL;
    const char *text = "the server refused the request";

    if (status == 403 || status == 401) {
        is = ERR_DENIED;
        text = "access denied";
    } else if (status == 404) {
        is = ERR_NOT_FOUND;
        text = "not found";
    } else if (status == 301 || status == 307) {
        is = ERR_INVALID;
        text = "the bucket is in another region, or behind another endpoint";
    } else if (status == 507) {
        is = ERR_LIMIT;
        text = "the bucket is full";
    } else if (is_passing(status, code)) {
        is = ERR_IO;
        text = "the server cannot serve the request now";
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(code, known[i].code) == 0) {
            is = known[i].is;
            text = known[i].text;
        }
    return err_set(err, is, S3_SCHEME "%s/%.100s%s%.160s: %s (%s%s%d)", s->access.bucket,
                   c->key ? s->access.prefix : "", slash, c->key ? c->key : "", text, code,
                   *code ? ", " : "", status);
}

/* Wait before another try, not all clients for the same time. */
static enum err_code pause_for(struct s3 *s, int n_failures, int64_t retry_after_ms,
                               struct err *err)
{
    int64_t now_ns = clock_now_ns();
    int64_t wait_ms = backoff_ms(n_failures, PAUSE_MS, PAUSE_LONGEST_MS);
    int64_t end_ms;
    enum err_code rc = ERR_OK;

    wait_ms -= (int64_t)(hash_bytes(HASH_START, &now_ns, sizeof now_ns) % (uint64_t)wait_ms) / 2;
    if (retry_after_ms > wait_ms)
        wait_ms = retry_after_ms < RETRY_AFTER_MS ? retry_after_ms : RETRY_AFTER_MS;
    end_ms = clock_now_ms() + wait_ms;
    while (rc == ERR_OK && (wait_ms = end_ms - clock_now_ms()) > 0) {
        (void)usleep((useconds_t)(wait_ms < POLL_MS ? wait_ms : POLL_MS) * 1000);
        rc = check_stop(s, err);
    }
    return rc;
}

/* Send it until it succeeds, is refused, or has failed too often. On ERR_OK, which is a status of
 * 2xx, the caller frees the body of *out. `out_code`, if not NULL, gets the server's word. */
static enum err_code send(struct s3 *s, const struct call *c, struct http_response *out,
                          char out_code[ERROR_CODE_BYTES], struct err *err)
{
    struct buf url = {.max = URL_MAX_BYTES};
    enum err_code rc = make_url(s, c, &url, err);
    bool goes_on = rc == ERR_OK;

    for (int n = 1; goes_on; n++) {
        struct http_response r = {.status = 0, .retry_after_ms = -1};
        char code[ERROR_CODE_BYTES] = "";

        rc = send_once(s, c, buf_text(&url), &r, err);
        goes_on = rc == ERR_IO || rc == ERR_TIMEOUT;
        if (rc == ERR_OK) {
            /* Copying, or putting an upload together, may fail although its status is 200. */
            if (r.status / 100 != 2 || c->source || strcmp(c->method, "POST") == 0)
                error_code(&r, code);
            if (r.status / 100 == 2 && !code[0]) {
                *out = r;
                break;
            }
            rc = refusal(s, c, r.status, code, err);
            goes_on = is_passing(r.status, code);
            buf_deinit(&r.body);
        } else if (rc != ERR_GONE) {
            err_wrap(err, rc, S3_SCHEME "%s", s->access.bucket);
        }
        if (out_code)
            memcpy(out_code, code, sizeof code);
        goes_on = goes_on && n < s->n_tries;
        if (goes_on && pause_for(s, n, r.retry_after_ms, err) != ERR_OK) {
            rc = ERR_GONE;
            break;
        }
    }
    buf_deinit(&url);
    return rc;
}

/* The same, when the answer's body does not matter. */
static enum err_code order(struct s3 *s, const struct call *c, struct err *err)
{
    struct http_response r;
    enum err_code rc = send(s, c, &r, NULL, err);

    if (rc == ERR_OK)
        buf_deinit(&r.body);
    return rc;
}

/* --- listing --- */

/* One page of a listing, and where the next one begins. */
struct page {
    const struct s3 *s;
    const char *start;       /* of the keys, after the prefix */
    s3_object_fn *fn;        /* for objects ... */
    s3_folder_fn *folder_fn; /* ... or, when it is not NULL, for folders */
    void *ctx;
    int n_objects; /* of all pages, and folders */
    bool is_whole; /* its root has ended */
    bool has_more;
    char next[XML_TEXT_BYTES];
};

/* Count it, and find the place in `key` where the prefix ends. */
static enum err_code skip_prefix(struct page *p, const char *key, const char **out, struct err *err)
{
    size_t n = strlen(p->s->access.prefix);

    if (++p->n_objects > S3_OBJECTS_MAX)
        return err_set(err, ERR_LIMIT, S3_SCHEME "%s/%s: more than %d objects", p->s->access.bucket,
                       p->s->access.prefix, S3_OBJECTS_MAX);
    if (strncmp(key, p->s->access.prefix, n) != 0 || (n > 0 && key[n] != '/'))
        return err_set(err, ERR_PROTOCOL, "the listing has \"%.100s\", which was not asked for",
                       key);
    *out = key + (n > 0 ? n + 1 : 0);
    return ERR_OK;
}

static enum err_code read_object(struct page *p, const char *key, const char *etag,
                                 const char *bytes, struct err *err)
{
    struct s3_object object = {.etag = etag};
    enum err_code rc = skip_prefix(p, key, &object.key, err);
    char *end;

    if (rc != ERR_OK)
        return rc;
    object.bytes = strtoll(bytes, &end, 10);
    if (end == bytes || *end || object.bytes < 0)
        return err_set(err, ERR_PROTOCOL, "the listing has an object of \"%.40s\" bytes", bytes);
    return p->fn(p->ctx, &object, err);
}

/* `key` is all up to a slash, and with it. */
static enum err_code read_folder(struct page *p, const char *key, struct err *err)
{
    const char *name;
    char folder[S3_KEY_BYTES];
    enum err_code rc = skip_prefix(p, key, &name, err);

    if (rc != ERR_OK)
        return rc;
    if (strlen(name) >= sizeof folder)
        return err_set(err, ERR_PROTOCOL, "the listing has a key that is too long");
    (void)snprintf(folder, sizeof folder, "%.*s", (int)strcspn(name, "/"), name);
    return p->folder_fn(p->ctx, folder, err);
}

static enum err_code read_page(struct page *p, const struct buf *body, struct err *err)
{
    char key[S3_KEY_BYTES] = "";
    char etag[HTTP_ETAG_BYTES] = "";
    char bytes[32] = "";
    struct xml x;
    enum err_code rc;

    p->is_whole = p->has_more = false;
    p->next[0] = '\0';
    xml_init(&x, buf_text(body), body->len);
    while ((rc = xml_next(&x, err)) == ERR_OK) {
        if (strcmp(x.path, "ListBucketResult/Contents/Key") == 0) {
            if (strlen(x.text) >= sizeof key)
                return err_set(err, ERR_PROTOCOL, "the listing has a key that is too long");
            memcpy(key, x.text, strlen(x.text) + 1);
        } else if (strcmp(x.path, "ListBucketResult/Contents/ETag") == 0) {
            (void)snprintf(etag, sizeof etag, "%s", x.text);
        } else if (strcmp(x.path, "ListBucketResult/Contents/Size") == 0) {
            (void)snprintf(bytes, sizeof bytes, "%s", x.text);
        } else if (strcmp(x.path, "ListBucketResult/Contents") == 0) {
            rc = p->fn ? read_object(p, key, etag, bytes, err) : ERR_OK;
            if (rc != ERR_OK)
                return rc;
            key[0] = etag[0] = bytes[0] = '\0';
        } else if (strcmp(x.path, "ListBucketResult/CommonPrefixes/Prefix") == 0 && p->folder_fn) {
            rc = read_folder(p, x.text, err);
            if (rc != ERR_OK)
                return rc;
        } else if (strcmp(x.path, "ListBucketResult/IsTruncated") == 0) {
            p->has_more = strcmp(x.text, "true") == 0;
        } else if (strcmp(x.path, "ListBucketResult/NextContinuationToken") == 0) {
            memcpy(p->next, x.text, strlen(x.text) + 1);
        } else if (strcmp(x.path, "ListBucketResult") == 0) {
            p->is_whole = true;
        }
    }
    if (rc != ERR_GONE)
        return rc;
    if (!p->is_whole)
        return err_set(err, ERR_PROTOCOL, "the answer is not a listing");
    if (p->has_more && !p->next[0])
        return err_set(err, ERR_PROTOCOL, "the listing goes on, but does not say where");
    return ERR_OK;
}

static enum err_code list_query(const struct page *p, struct buf *out, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (p->next[0]) {
        rc = buf_addf(out, err, "continuation-token=");
        if (rc == ERR_OK)
            rc = add_encoded(out, p->next, false, err);
        if (rc == ERR_OK)
            rc = buf_addf(out, err, "&");
    }
    if (rc == ERR_OK)
        rc = buf_addf(out, err, "%slist-type=2&prefix=", p->folder_fn ? "delimiter=%2F&" : "");
    if (rc == ERR_OK)
        rc = add_encoded(out, p->s->access.prefix, false, err);
    if (rc == ERR_OK && p->s->access.prefix[0])
        rc = buf_addf(out, err, "%%2F");
    return rc == ERR_OK ? add_encoded(out, p->start, false, err) : rc;
}

static enum err_code read_pages(struct s3 *s, struct page *page, struct err *err)
{
    enum err_code rc = ERR_OK;

    page->s = s;
    page->has_more = true;
    while (rc == ERR_OK && page->has_more) {
        struct buf query = {.max = URL_MAX_BYTES};
        struct http_response r;

        rc = list_query(page, &query, err);
        if (rc == ERR_OK) {
            const struct call call = {.method = "GET", .query = buf_text(&query)};

            rc = send(s, &call, &r, NULL, err);
        }
        buf_deinit(&query);
        if (rc != ERR_OK)
            break;
        rc = read_page(page, &r.body, err);
        buf_deinit(&r.body);
        if (rc == ERR_PROTOCOL)
            err_wrap(err, rc, S3_SCHEME "%s", s->access.bucket);
    }
    return rc;
}

enum err_code s3_list(struct s3 *s, s3_object_fn *fn, void *ctx, struct err *err)
{
    struct page page = {.start = "", .fn = fn, .ctx = ctx};

    return read_pages(s, &page, err);
}

enum err_code s3_list_folders(struct s3 *s, const char *start, s3_folder_fn *fn, void *ctx,
                              struct err *err)
{
    struct page page = {.start = start, .folder_fn = fn, .ctx = ctx};

    return read_pages(s, &page, err);
}

/* --- objects --- */

enum err_code s3_get(struct s3 *s, const char *key, int64_t from, size_t n, struct buf *out,
                     struct err *err)
{
    char range[80];
    const struct call call = {
        .method = "GET", .key = key, .range = range, .response_max_bytes = n > 65536 ? n : 65536};
    struct http_response r;
    enum err_code rc;

    if (n == 0)
        return ERR_OK;
    (void)snprintf(range, sizeof range, "Range: bytes=%lld-%lld", (long long)from,
                   (long long)from + (long long)n - 1);
    rc = send(s, &call, &r, NULL, err);
    if (rc != ERR_OK)
        return rc;
    if (r.body.len != n || (from > 0 && r.status != 206))
        rc = err_set(err, ERR_PROTOCOL,
                     S3_SCHEME "%s/%s/%.160s: %zu bytes from byte %lld on are "
                               "not there",
                     s->access.bucket, s->access.prefix, key, n, (long long)from);
    else
        rc = buf_add(out, r.body.data, n, err);
    buf_deinit(&r.body);
    return rc;
}

enum err_code s3_put(struct s3 *s, const char *key, const void *bytes, size_t n, struct err *err)
{
    const struct call call = {
        .method = "PUT", .key = key, .body = n > 0 ? bytes : "", .body_bytes = n};

    return order(s, &call, err);
}

enum err_code s3_delete(struct s3 *s, const char *key, struct err *err)
{
    const struct call call = {.method = "DELETE", .key = key};
    char code[ERROR_CODE_BYTES] = "";
    struct http_response r;
    enum err_code rc = send(s, &call, &r, code, err);

    if (rc == ERR_OK)
        buf_deinit(&r.body);
    return rc == ERR_NOT_FOUND && (!code[0] || strcmp(code, "NoSuchKey") == 0) ? ERR_OK : rc;
}

/* --- uploads in parts --- */

/* Of a file, or of an object under another prefix. */
struct upload {
    struct s3 *s;
    const char *key;
    const char *path; /* of the file, or key of the object */
    int fd;
    struct s3 *from;   /* NULL: it is a file */
    struct buf object; /* the last piece of the object */
    int64_t at;        /* what has been read of either */
    int64_t bytes;
    struct buf id;               /* encoded */
    struct buf parts;            /* the document that puts them together */
    char code[ERROR_CODE_BYTES]; /* of the last failure */
};

static enum err_code read_file_piece(const struct upload *u, size_t n, struct err *err)
{
    size_t at = 0;

    while (at < n) {
        ssize_t got = read(u->fd, u->s->piece + at, n - at);

        if (got < 0)
            return file_error(err, "read", u->path);
        if (got == 0)
            return err_set(err, ERR_IO, "read %s: it has become shorter", u->path);
        at += (size_t)got;
    }
    return ERR_OK;
}

static enum err_code read_object_piece(struct upload *u, size_t n, struct err *err)
{
    enum err_code rc;

    buf_reset(&u->object);
    rc = s3_get(u->from, u->path, u->at, n, &u->object, err);
    if (rc == ERR_OK && n > 0)
        memcpy(u->s->piece, u->object.data, n);
    return rc;
}

/* Read the next piece into s->piece. */
static enum err_code read_piece(struct upload *u, size_t n, struct err *err)
{
    enum err_code rc = u->from ? read_object_piece(u, n, err) : read_file_piece(u, n, err);

    u->at += (int64_t)n;
    return rc;
}

static enum err_code begin_upload(struct upload *u, struct err *err)
{
    const struct call call = {.method = "POST", .key = u->key, .query = "uploads="};
    struct http_response r;
    struct xml x;
    enum err_code rc = send(u->s, &call, &r, u->code, err);

    if (rc != ERR_OK)
        return rc;
    xml_init(&x, buf_text(&r.body), r.body.len);
    while (rc == ERR_OK && xml_next(&x, NULL) == ERR_OK)
        if (strcmp(x.path, "InitiateMultipartUploadResult/UploadId") == 0)
            rc = add_encoded(&u->id, x.text, false, err);
    buf_deinit(&r.body);
    if (rc == ERR_OK && u->id.len == 0)
        rc = err_set(err, ERR_PROTOCOL, S3_SCHEME "%s: the upload got no id", u->s->access.bucket);
    return rc;
}

static enum err_code put_part(struct upload *u, int number, size_t n, struct err *err)
{
    struct buf query = {.max = URL_MAX_BYTES};
    struct http_response r;
    enum err_code rc = buf_addf(&query, err, "partNumber=%d&uploadId=%s", number, buf_text(&u->id));

    if (rc == ERR_OK) {
        const struct call call = {.method = "PUT",
                                  .key = u->key,
                                  .query = buf_text(&query),
                                  .body = u->s->piece,
                                  .body_bytes = n};

        rc = send(u->s, &call, &r, u->code, err);
    }
    buf_deinit(&query);
    if (rc != ERR_OK)
        return rc;
    buf_deinit(&r.body);
    if (!r.etag[0] || strpbrk(r.etag, "<>&"))
        return err_set(err, ERR_PROTOCOL, S3_SCHEME "%s: an uploaded part got no ETag",
                       u->s->access.bucket);
    return buf_addf(&u->parts, err, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>",
                    number, r.etag);
}

/* Put the parts together, or throw them away. */
static enum err_code end_upload(struct upload *u, bool is_complete, struct err *err)
{
    struct buf query = {.max = URL_MAX_BYTES};
    struct http_response r;
    enum err_code rc = buf_addf(&query, err, "uploadId=%s", buf_text(&u->id));

    if (rc == ERR_OK) {
        const struct call complete = {.method = "POST",
                                      .key = u->key,
                                      .query = buf_text(&query),
                                      .body = buf_text(&u->parts),
                                      .body_bytes = u->parts.len};
        const struct call abort = {.method = "DELETE", .key = u->key, .query = buf_text(&query)};

        rc = send(u->s, is_complete ? &complete : &abort, &r, u->code, err);
    }
    if (rc == ERR_OK)
        buf_deinit(&r.body);
    buf_deinit(&query);
    return rc;
}

static enum err_code upload(struct upload *u, struct err *err)
{
    enum err_code rc;

    buf_reset(&u->id);
    buf_reset(&u->parts);
    u->at = 0;
    if (!u->from && lseek(u->fd, 0, SEEK_SET) != 0)
        return file_error(err, "seek in", u->path);
    rc = begin_upload(u, err);
    if (rc != ERR_OK)
        return rc;
    rc = buf_addf(&u->parts, err, "<CompleteMultipartUpload>");
    for (int n = 1; rc == ERR_OK && u->at < u->bytes; n++) {
        int64_t left = u->bytes - u->at;
        size_t bytes = left < (int64_t)S3_PIECE_BYTES ? (size_t)left : S3_PIECE_BYTES;

        rc = read_piece(u, bytes, err);
        if (rc == ERR_OK)
            rc = put_part(u, n, bytes, err);
    }
    if (rc == ERR_OK)
        rc = buf_addf(&u->parts, err, "</CompleteMultipartUpload>");
    if (rc == ERR_OK)
        rc = end_upload(u, true, err);
    if (rc != ERR_OK) {
        char code[ERROR_CODE_BYTES];
        const atomic_bool *stops = u->s->stops;
        int n_tries = u->s->n_tries;

        memcpy(code, u->code, sizeof code);
        u->s->stops = NULL; /* also at the end of a session, but without patience */
        u->s->n_tries = 1;
        (void)!end_upload(u, false, NULL);
        u->s->stops = stops;
        u->s->n_tries = n_tries;
        memcpy(u->code, code, sizeof code);
    }
    return rc;
}

static enum err_code upload_all(struct upload *u, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (!u->s->piece)
        u->s->piece = malloc(S3_PIECE_BYTES);
    if (!u->s->piece)
        return err_set(err, ERR_NO_MEMORY, "no memory to upload %s", u->path);
    if (u->bytes <= (int64_t)S3_PIECE_BYTES) {
        rc = read_piece(u, (size_t)u->bytes, err);
        return rc == ERR_OK ? s3_put(u->s, u->key, u->s->piece, (size_t)u->bytes, err) : rc;
    }
    if (u->bytes > (int64_t)S3_PIECE_BYTES * S3_PARTS_MAX)
        return err_set(err, ERR_LIMIT, "%s: too large to be uploaded in %d parts", u->path,
                       S3_PARTS_MAX);
    for (int n = 1; n <= UPLOAD_TRIES; n++) {
        rc = upload(u, err);
        /* A server that was restarted may have forgotten it. Or it has put the parts together, and
         * its answer was lost. */
        if (rc == ERR_OK || strcmp(u->code, "NoSuchUpload") != 0)
            break;
    }
    return rc;
}

enum err_code s3_put_file(struct s3 *s, const char *key, const char *path, struct err *err)
{
    struct upload u = {.s = s,
                       .key = key,
                       .path = path,
                       .fd = open(path, O_RDONLY | O_CLOEXEC),
                       .id.max = 3 * UPLOAD_ID_BYTES,
                       .parts.max = COMPLETE_MAX};
    struct stat st;
    enum err_code rc;

    if (u.fd < 0 || fstat(u.fd, &st) != 0) {
        rc = file_error(err, "open", path);
    } else {
        u.bytes = st.st_size;
        rc = upload_all(&u, err);
    }
    if (u.fd >= 0)
        (void)close(u.fd);
    buf_deinit(&u.id);
    buf_deinit(&u.parts);
    return rc;
}

/* --- copies --- */

/* The header that names an object: "/bucket/key", encoded. */
static enum err_code make_source(const struct s3 *from, const char *key, struct buf *out,
                                 struct err *err)
{
    const struct s3_access *a = &from->access;
    enum err_code rc = buf_addf(out, err, "x-amz-copy-source: /%s/", a->bucket);

    if (rc == ERR_OK)
        rc = add_encoded(out, a->prefix, true, err);
    if (rc == ERR_OK && a->prefix[0])
        rc = buf_addf(out, err, "/");
    return rc == ERR_OK ? add_encoded(out, key, true, err) : rc;
}

/* Have the server copy it. `out_code` gets its word for a refusal. */
static enum err_code copy_there(struct s3 *s, const char *key, const struct s3 *from,
                                const char *from_key, int64_t bytes,
                                char out_code[static ERROR_CODE_BYTES], struct err *err)
{
    struct buf source = {.max = URL_MAX_BYTES};
    int64_t deadline_ms = s->deadline_ms;
    struct http_response r;
    enum err_code rc = make_source(from, from_key, &source, err);

    if (rc == ERR_OK) {
        const struct call call = {
            .method = "PUT", .key = key, .source = buf_text(&source), .body = ""};

        s->deadline_ms += bytes / COPY_BYTES_PER_MS;
        rc = send(s, &call, &r, out_code, err);
        s->deadline_ms = deadline_ms;
    }
    if (rc == ERR_OK)
        buf_deinit(&r.body);
    buf_deinit(&source);
    return rc;
}

/* The same in pieces that pass through this machine. That the server copies them, too, would need
 * the header x-amz-copy-source-range, which older versions of libcurl sign in the wrong order. */
static enum err_code copy_here(struct s3 *s, const char *key, struct s3 *from, const char *from_key,
                               int64_t bytes, struct err *err)
{
    struct upload u = {.s = s,
                       .key = key,
                       .path = from_key,
                       .fd = -1,
                       .from = from,
                       .object.max = S3_PIECE_BYTES,
                       .bytes = bytes,
                       .id.max = 3 * UPLOAD_ID_BYTES,
                       .parts.max = COMPLETE_MAX};
    enum err_code rc = upload_all(&u, err);

    buf_deinit(&u.object);
    buf_deinit(&u.id);
    buf_deinit(&u.parts);
    return rc;
}

enum err_code s3_copy(struct s3 *s, const char *key, struct s3 *from, const char *from_key,
                      int64_t bytes, struct err *err)
{
    char code[ERROR_CODE_BYTES] = "";
    enum err_code rc = copy_there(s, key, from, from_key, bytes, code, err);

    /* Servers that do not copy, or nothing above 5 GiB, have various words for it. */
    if (rc == ERR_PROTOCOL || strcmp(code, "EntityTooLarge") == 0)
        rc = copy_here(s, key, from, from_key, bytes, err);
    if (rc != ERR_OK && rc != ERR_GONE)
        err_wrap(err, rc, "copy %.80s/%.60s", from->access.prefix, from_key);
    return rc;
}
