#include "kube/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "kube/page.h"

#define PATH_MAX_BYTES    8192 /* a continue token alone can have 2,000 */
#define PAGES_MAX         10000
#define PAGE_MS           60000
#define QUIET_MAX_MS      600000
#define DEFAULT_AGENT     "kube-c"
#define TYPE_JSON         "application/json"
#define TYPE_MERGE        "application/merge-patch+json"
#define AGENT_LINE_BYTES  128
#define SERVER_PATH_BYTES 1024

struct kube_client {
    struct http *http;         /* borrowed */
    struct kube_config config; /* owned */
    struct kube_options options;
    struct bucket calls;
    int64_t credentials_ms; /* when they were last read; meaningless while is_stale */
    int64_t quiet_until_ms;
    bool is_stale; /* after a 401: read the credentials again before the next request */
    bool uses_proxy;
    char agent_line[AGENT_LINE_BYTES];
    char connect_to[HTTP_HOST_BYTES];    /* "" or the host to dial instead of the URL's */
    char server_path[SERVER_PATH_BYTES]; /* scheme, host and prefix of every path */
};

/* --- refusals --- */

enum err_code kube_status_code(int status)
{
    if (status >= 200 && status <= 299)
        return ERR_OK;
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_GONE;
    case 408:
    case 504:
        return ERR_TIMEOUT;
    case 413:
        return ERR_LIMIT;
    case 429:
        return ERR_AGAIN;
    default:
        break;
    }
    if (status >= 400 && status <= 499)
        return ERR_INVALID;
    return status >= 500 && status <= 599 ? ERR_IO : ERR_PROTOCOL;
}

static enum err_code error_of(int status, const char *message, struct err *err)
{
    enum err_code code = kube_status_code(status);

    if (code == ERR_OK) /* an error with the code of a success */
        code = ERR_PROTOCOL;
    if (message[0])
        return err_set(err, code, "%s (%d)", message, status);
    return err_set(err, code, "the API server answered with status %d", status);
}

enum err_code kube_status_error(int status, const char *body, size_t n, struct err *err)
{
    struct json *object = NULL;
    char line[200] = ""; /* the first one of a text, without what does not print */
    size_t used = 0;
    enum err_code rc = json_parse_tolerant(body, n, &object, NULL);

    for (; rc != ERR_OK && n > 0 && *body != '\n' && used + 1 < sizeof line; n--, body++)
        if ((unsigned char)*body >= 0x20 && (unsigned char)*body < 0x7f)
            line[used++] = *body;
    rc = error_of(status, json_string(json_get(object, "message"), line), err);
    json_free(object);
    return rc;
}

enum err_code kube_status_object(const struct json *status, struct err *err)
{
    int code = json_int(json_get(status, "code"), 0);

    if (code < 100 || code > 599)
        code = 500; /* an ERROR event without a code is the server's failure */
    return error_of(code, json_string(json_get(status, "message"), ""), err);
}

/* --- life --- */

/* With a tls-server-name the URL contains that name and the real host is only dialled, so the
 * certificate is checked against the name. */
static enum err_code place_server(struct kube_client *c, struct err *err)
{
    const char *server = c->config.server;
    const char *name = c->config.tls_server_name;
    char host[HTTP_HOST_BYTES];
    char *port;
    const char *prefix;
    enum err_code rc;
    int n;

    rc = http_host_of(server, host, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "server");
    c->uses_proxy = !c->config.in_cluster && strncmp(host, "localhost:", 10) != 0 &&
                    strncmp(host, "127.", 4) != 0 && strncmp(host, "[::1]", 5) != 0;
    port = strrchr(host, ':');
    if (name && *name) {
        prefix = strchr(strstr(server, "://") + 3, '/');
        n = snprintf(c->server_path, sizeof c->server_path, "https://%s%s%s", name, port,
                     prefix ? prefix : "");
        *port = '\0';
        (void)snprintf(c->connect_to, sizeof c->connect_to, "%s", host);
    } else {
        n = snprintf(c->server_path, sizeof c->server_path, "%s", server);
    }
    if (n >= (int)sizeof c->server_path)
        return err_set(err, ERR_INVALID, "the server's URL is too long");
    return ERR_OK;
}

enum err_code kube_client_new(struct http *http, struct kube_config *config,
                              const struct kube_options *options, struct kube_client **out,
                              struct err *err)
{
    struct kube_client *c = calloc(1, sizeof *c);
    int64_t now_ms = clock_now_ms();
    enum err_code rc;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for the client");
    c->http = http;
    c->config = *config;
    c->credentials_ms = now_ms;
    if (options)
        c->options = *options;
    if (!c->options.user_agent)
        c->options.user_agent = DEFAULT_AGENT;
    if (!c->options.field_manager)
        c->options.field_manager = c->options.user_agent;
    if (c->options.calls_per_second > 0)
        c->calls = (struct bucket){.burst = c->options.calls_burst,
                                   .refill_ms = 1000 / c->options.calls_per_second};
    (void)snprintf(c->agent_line, sizeof c->agent_line, "User-Agent: %s", c->options.user_agent);
    rc = place_server(c, err);
    if (rc != ERR_OK) {
        free(c);
        return rc;
    }
    *config = (struct kube_config){0};
    *out = c;
    return ERR_OK;
}

void kube_client_free(struct kube_client *c)
{
    if (!c)
        return;
    kube_config_deinit(&c->config);
    free(c);
}

struct http *kube_client_http(const struct kube_client *c)
{
    return c->http;
}

const char *kube_client_namespace(const struct kube_client *c)
{
    return c->config.namespace;
}

const char *kube_client_server(const struct kube_client *c)
{
    return c->config.server;
}

int64_t kube_client_quiet_ms(const struct kube_client *c, int64_t now_ms)
{
    return c->quiet_until_ms > now_ms ? c->quiet_until_ms - now_ms : 0;
}

/* --- requests --- */

/* Send a request to the server: start it for a handler or, without one, wait for its response. */
static enum err_code send_request(struct kube_client *c, const struct kube_request *request,
                                  const struct http_handler *handler, uint64_t *out_id,
                                  struct http_response *out, struct err *err)
{
    const char *const headers[] = {request->accept ? request->accept : "Accept: " TYPE_JSON,
                                   c->agent_line, NULL};
    struct http_request http = {
        .method = request->method,
        .connect_to = c->connect_to[0] ? c->connect_to : NULL,
        .headers = headers,
        .content_type = request->content_type,
        .body = request->body,
        .body_bytes = request->body ? strlen(request->body) : 0,
        .deadline_ms = request->deadline_ms ? request->deadline_ms : KUBE_CALL_MS,
        .response_max_bytes =
            request->response_max_bytes ? request->response_max_bytes : KUBE_OBJECT_MAX_BYTES,
        .uses_environment_proxy = c->uses_proxy,
    };
    struct buf url = {.max = PATH_MAX_BYTES + SERVER_PATH_BYTES};
    int64_t now_ms = clock_now_ms();
    int64_t quiet_ms = kube_client_quiet_ms(c, now_ms);
    enum err_code rc;

    if (quiet_ms > 0)
        return err_set(err, ERR_AGAIN, "rate limited (Retry-After), %lld ms left",
                       (long long)quiet_ms);
    if (c->is_stale || now_ms - c->credentials_ms >= KUBE_TOKEN_AGE_MS) {
        kube_config_refresh(&c->config);
        c->credentials_ms = now_ms;
        c->is_stale = false;
    }
    http.bearer_token = c->config.token;
    http.tls = (struct http_tls){.ca_pem = c->config.ca_pem,
                                 .cert_pem = c->config.cert_pem,
                                 .key_pem = c->config.key_pem,
                                 .insecure = c->config.insecure};
    rc = buf_addf(&url, err, "%s%s", c->server_path, request->path);
    http.url = url.data;
    if (rc == ERR_OK)
        rc = handler ? http_start(c->http, &http, *handler, out_id, err)
                     : http_call(c->http, &http, out, err);
    buf_deinit(&url);
    return rc;
}

enum err_code kube_start(struct kube_client *c, const struct kube_request *request,
                         struct http_handler handler, uint64_t *out_id, struct err *err)
{
    return send_request(c, request, &handler, out_id, NULL, err);
}

enum err_code kube_refused(struct kube_client *c, const struct http_response *response,
                           struct err *err)
{
    int64_t quiet_ms = response->retry_after_ms;

    if (response->status == 401)
        c->is_stale = true;
    if ((response->status == 429 || response->status == 503) && quiet_ms > 0)
        c->quiet_until_ms = clock_now_ms() + (quiet_ms < QUIET_MAX_MS ? quiet_ms : QUIET_MAX_MS);
    return kube_status_error(response->status, buf_text(&response->body), response->body.len, err);
}

/* Keep to calls_per_second. Other transfers go on meanwhile. */
static enum err_code call_once(struct kube_client *c, const struct kube_request *request,
                               struct http_response *out, struct err *err)
{
    enum err_code rc = ERR_OK;

    while (rc == ERR_OK && c->options.calls_per_second > 0 &&
           !bucket_take(&c->calls, clock_now_ms()))
        rc = http_poll(c->http, bucket_wait_ms(&c->calls, clock_now_ms()), err);
    return rc == ERR_OK ? send_request(c, request, NULL, NULL, out, err) : rc;
}

/* Send it and wait for a 2xx response: http_response_deinit() is the caller's, always. */
static enum err_code call_raw(struct kube_client *c, const struct kube_request *request,
                              struct http_response *out, struct err *err)
{
    enum err_code rc = call_once(c, request, out, err);

    if (rc == ERR_OK && out->status == 401 && c->config.token_file) {
        http_response_deinit(out);
        c->is_stale = true;
        rc = call_once(c, request, out, err);
    }
    if (rc == ERR_OK && kube_status_code(out->status) != ERR_OK)
        rc = kube_refused(c, out, err);
    return rc;
}

/* --- verbs --- */

static enum err_code named(enum err_code rc, const char *verb, const struct kube_ref *ref,
                           struct err *err)
{
    char what[300];

    if (rc == ERR_OK)
        return rc;
    kube_ref_text(ref, what, sizeof what);
    return err_wrap(err, rc, "%s %s", verb, what);
}

/* One call on the path of `ref`; writes have our field manager. `out` may be NULL. */
static enum err_code call_ref(struct kube_client *c, const struct kube_ref *ref,
                              struct kube_request *request, struct json **out, struct err *err)
{
    struct buf path = {.max = PATH_MAX_BYTES};
    struct http_response response = {0};
    const char *method = request->method;
    enum err_code rc = kube_ref_path(ref, &path, err);

    if (rc == ERR_OK && (strcmp(method, "POST") == 0 || strcmp(method, "PATCH") == 0))
        rc = kube_add_query(&path, "fieldManager", c->options.field_manager, err);
    request->path = path.data;
    if (rc == ERR_OK)
        rc = call_raw(c, request, &response, err);
    if (rc == ERR_OK && out)
        rc = json_parse_tolerant(buf_text(&response.body), response.body.len, out, err);
    http_response_deinit(&response);
    buf_deinit(&path);
    return rc;
}

enum err_code kube_get(struct kube_client *c, const struct kube_ref *ref, struct json **out,
                       struct err *err)
{
    struct kube_request request = {.method = "GET"};

    return named(call_ref(c, ref, &request, out, err), "get", ref, err);
}

enum err_code kube_list(struct kube_client *c, const struct kube_ref *ref,
                        struct kube_lister lister, struct err *err)
{
    char position[PATH_MAX_BYTES] = "";
    int n_objects = KUBE_PAGE_OBJECTS;
    bool is_done = false;
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && !is_done && i < PAGES_MAX; i++) {
        struct page_sink sink = {.ctx = lister.ctx, .on_object = lister.on_item};
        struct kube_request request = {.deadline_ms = PAGE_MS,
                                       .response_max_bytes = KUBE_PAGE_MAX_BYTES};
        struct buf path = {.max = PATH_MAX_BYTES};
        struct http_response response = {0};
        struct json *metadata = NULL;

        rc = kube_list_path(ref, position, n_objects, &path, err);
        request.path = path.data;
        if (rc == ERR_OK)
            rc = call_raw(c, &request, &response, err);
        buf_deinit(&path);
        if (rc == ERR_LIMIT && n_objects > 1) {
            n_objects /= 2;
            rc = ERR_OK;
        } else if (rc == ERR_LIMIT) {
            rc = err_wrap(err, rc, "a single object");
        } else if (rc == ERR_OK) {
            rc = page_read(buf_text(&response.body), response.body.len, sink, &metadata, err);
            (void)snprintf(position, sizeof position, "%s",
                           json_string(json_get(metadata, "continue"), ""));
            is_done = position[0] == '\0';
        }
        json_free(metadata);
        http_response_deinit(&response);
    }
    if (rc == ERR_OK && !is_done)
        rc = err_set(err, ERR_LIMIT, "more than %d pages", PAGES_MAX);
    return named(rc, "list", ref, err);
}

enum err_code kube_create(struct kube_client *c, const struct kube_ref *ref, const char *body,
                          struct json **out, struct err *err)
{
    struct kube_request request = {.method = "POST", .content_type = TYPE_JSON, .body = body};
    struct kube_ref collection = {.resource = ref->resource, .namespace = ref->namespace};
    enum err_code rc;

    if (ref->resource->is_namespaced && !ref->namespace)
        rc = err_set(err, ERR_INVALID, "no namespace is given");
    else
        rc = call_ref(c, &collection, &request, out, err);
    return named(rc, "create", ref, err);
}

enum err_code kube_merge(struct kube_client *c, const struct kube_ref *ref, const char *body,
                         struct json **out, struct err *err)
{
    struct kube_request request = {.method = "PATCH", .content_type = TYPE_MERGE, .body = body};
    enum err_code rc;

    if (ref->name)
        rc = call_ref(c, ref, &request, out, err);
    else
        rc = err_set(err, ERR_INVALID, "no name is given");
    return named(rc, "patch", ref, err);
}

enum err_code kube_delete(struct kube_client *c, const struct kube_ref *ref,
                          const struct kube_delete *how, struct err *err)
{
    const struct jsont_value values[] = {
        JSONT_I_IF("grace", how && how->grace_seconds >= 0, how ? how->grace_seconds : 0),
        JSONT_S("uid", how ? how->uid : NULL),
    };
    struct kube_request request = {.method = "DELETE", .content_type = TYPE_JSON};
    struct buf body = {.max = 1024};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &body);
    jsont_write(&w, NULL,
                "{'apiVersion': 'v1', 'kind': 'DeleteOptions', 'propagationPolicy': 'Background',"
                " 'gracePeriodSeconds': $grace, 'preconditions': ?uid {'uid': $uid}}",
                values, sizeof values / sizeof *values);
    rc = jsonw_finish(&w, err);
    if (!ref->name) /* would delete the whole collection */
        rc = err_set(err, ERR_INVALID, "no name is given");
    request.body = body.data;
    if (rc == ERR_OK)
        rc = call_ref(c, ref, &request, NULL, err);
    buf_deinit(&body);
    return named(rc, "delete", ref, err);
}
