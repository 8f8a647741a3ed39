#include "kube/client.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "kube/response.h"

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
    struct bucket calls, events; /* of other calls, and of those for Events */
    int64_t credentials_ms;      /* when they were last read; meaningless while is_stale */
    int64_t quiet_until_ms;
    bool is_stale; /* after a 401: read the credentials again before the next request */
    bool uses_proxy;
    char agent_line[AGENT_LINE_BYTES];
    char manager[AGENT_LINE_BYTES];      /* of the fields that we write: the agent's name */
    char connect_to[HTTP_HOST_BYTES];    /* "" or the host to dial instead of the URL's */
    char server_path[SERVER_PATH_BYTES]; /* scheme, host and prefix of every path */
    uint64_t n_requests[KUBE_STATUSES];
};

/* --- references --- */

const struct kube_resource kube_pods = {"", "v1", "pods", true};
const struct kube_resource kube_nodes = {"", "v1", "nodes", false};
const struct kube_resource kube_policies = {"networking.k8s.io", "v1", "networkpolicies", true};
const struct kube_resource kube_config_maps = {"", "v1", "configmaps", true};
const struct kube_resource kube_claims = {"", "v1", "persistentvolumeclaims", true};
const struct kube_resource kube_volumes = {"", "v1", "persistentvolumes", false};
const struct kube_resource kube_secrets = {"", "v1", "secrets", true};
const struct kube_resource kube_events = {"", "v1", "events", true};

static enum err_code add_escaped(struct buf *out, const char *text, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (const char *p = text; *p && rc == ERR_OK; p++)
        rc = isalnum((unsigned char)*p) || strchr("-._~", *p)
                 ? buf_add(out, p, 1, err)
                 : buf_addf(out, err, "%%%02X", (unsigned char)*p);
    return rc;
}

/* "/segment", which must not be empty or lead elsewhere. */
static enum err_code add_segment(struct buf *out, const char *segment, struct err *err)
{
    enum err_code rc;

    if (!*segment || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0 ||
        strpbrk(segment, "/%"))
        return err_set(err, ERR_INVALID, "\"%.80s\" is not valid in a path", segment);
    rc = buf_add(out, "/", 1, err);
    return rc == ERR_OK ? add_escaped(out, segment, err) : rc;
}

enum err_code kube_add_query(struct buf *path, const char *name, const char *value, struct err *err)
{
    const char *separator = strchr(buf_text(path), '?') ? "&" : "?";
    enum err_code rc = buf_addf(path, err, "%s%s=", separator, name);

    return rc == ERR_OK ? add_escaped(path, value, err) : rc;
}

enum err_code kube_ref_path(const struct kube_ref *ref, struct buf *out, struct err *err)
{
    const struct kube_resource *r = ref->resource;
    const char *namespace = r->is_namespaced ? ref->namespace : NULL;
    const char *const segments[] = {r->group[0] ? "apis" : "api",
                                    r->group[0] ? r->group : NULL,
                                    r->version,
                                    namespace ? "namespaces" : NULL,
                                    namespace,
                                    r->plural,
                                    ref->name,
                                    ref->name ? ref->subresource : NULL};
    enum err_code rc = ERR_OK;

    if (r->is_namespaced && ref->name && !ref->namespace)
        return err_set(err, ERR_INVALID, "%s %s: no namespace is given", r->plural, ref->name);
    for (size_t i = 0; i < sizeof segments / sizeof *segments && rc == ERR_OK; i++)
        if (segments[i])
            rc = add_segment(out, segments[i], err);
    if (rc == ERR_OK && ref->label_selector)
        rc = kube_add_query(out, "labelSelector", ref->label_selector, err);
    if (rc == ERR_OK && ref->field_selector)
        rc = kube_add_query(out, "fieldSelector", ref->field_selector, err);
    return rc;
}

enum err_code kube_list_path(const struct kube_ref *ref, const char *position, int n_objects,
                             struct buf *out, struct err *err)
{
    char limit[16];
    enum err_code rc = kube_ref_path(ref, out, err);

    (void)snprintf(limit, sizeof limit, "%d", n_objects);
    if (rc == ERR_OK)
        rc = kube_add_query(out, "limit", limit, err);
    if (rc == ERR_OK && *position)
        rc = kube_add_query(out, "continue", position, err);
    return rc;
}

void kube_ref_text(const struct kube_ref *ref, char *out, size_t out_bytes)
{
    bool has_namespace = ref->resource->is_namespaced && ref->namespace;
    const char *slash = has_namespace && ref->name ? "/" : "";

    (void)snprintf(out, out_bytes, "%s%s%s%s%s%s%s", ref->resource->plural,
                   has_namespace || ref->name ? " " : "", has_namespace ? ref->namespace : "",
                   slash, ref->name ? ref->name : "", ref->subresource ? " " : "",
                   ref->subresource ? ref->subresource : "");
}

/* --- refusals --- */

enum err_code kube_status_code(int status)
{
    static const struct {
        int status;
        enum err_code code;
    } codes[] = {{401, ERR_DENIED},  {403, ERR_DENIED},   {404, ERR_NOT_FOUND},
                 {408, ERR_TIMEOUT}, {409, ERR_CONFLICT}, {410, ERR_GONE},
                 {413, ERR_LIMIT},   {429, ERR_AGAIN},    {504, ERR_TIMEOUT}};
    int hundreds = status / 100;

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            return codes[i].code;
    return hundreds == 2   ? ERR_OK
           : hundreds == 4 ? ERR_INVALID
           : hundreds == 5 ? ERR_IO
                           : ERR_PROTOCOL;
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
    return error_of(code, json_text(status, "message"), err);
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
    if (c->options.calls_per_second > 0)
        c->calls = c->events = (struct bucket){.burst = c->options.calls_burst,
                                               .refill_ms = 1000 / c->options.calls_per_second};
    (void)snprintf(c->agent_line, sizeof c->agent_line, "User-Agent: %s", c->options.user_agent);
    (void)snprintf(c->manager, sizeof c->manager, "%.*s", (int)strcspn(c->options.user_agent, "/"),
                   c->options.user_agent);
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

const struct kube_config *kube_client_config(const struct kube_client *c)
{
    return &c->config;
}

int64_t kube_client_quiet_ms(const struct kube_client *c, int64_t now_ms)
{
    return c->quiet_until_ms > now_ms ? c->quiet_until_ms - now_ms : 0;
}

const uint64_t *kube_client_requests(const struct kube_client *c)
{
    return c->n_requests;
}

/* --- requests --- */

void kube_count(struct kube_client *c, int status)
{
    c->n_requests[status > 0 && status < KUBE_STATUSES ? status : 0]++;
}

/* Send a request to the server: start it for a handler or, without one, wait for its response. */
static enum err_code send_request(struct kube_client *c, const struct http_request *request,
                                  const struct http_handler *handler, uint64_t *out_id,
                                  struct http_response *out, struct err *err)
{
    const char *const headers[] = {request->headers ? request->headers[0] : "Accept: " TYPE_JSON,
                                   c->agent_line, NULL};
    struct http_request http = *request;
    struct buf url = {.max = PATH_MAX_BYTES + SERVER_PATH_BYTES};
    int64_t now_ms = clock_now_ms();
    int64_t quiet_ms = kube_client_quiet_ms(c, now_ms);
    enum err_code rc;

    if (quiet_ms > 0)
        return err_set(err, ERR_AGAIN, "rate limited (Retry-After), %lld ms left",
                       (long long)quiet_ms);
    if (c->is_stale || now_ms - c->credentials_ms >= KUBE_TOKEN_AGE_MS) {
        kube_config_refresh(&c->config, c->is_stale);
        c->credentials_ms = now_ms;
        c->is_stale = false;
    }
    http.headers = headers;
    http.connect_to = c->connect_to[0] ? c->connect_to : NULL;
    http.uses_environment_proxy = c->uses_proxy;
    http.bearer_token = c->config.token;
    http.tls = (struct http_tls){.ca_pem = c->config.ca_pem,
                                 .cert_pem = c->config.cert_pem,
                                 .key_pem = c->config.key_pem,
                                 .insecure = c->config.insecure};
    rc = buf_addf(&url, err, "%s%s", c->server_path, request->url);
    http.url = url.data;
    if (rc == ERR_OK && handler) {
        rc = http_start(c->http, &http, *handler, out_id, err);
    } else if (rc == ERR_OK) {
        rc = http_call(c->http, &http, out, err);
        kube_count(c, rc == ERR_OK ? out->status : 0);
    }
    buf_deinit(&url);
    return rc;
}

enum err_code kube_start(struct kube_client *c, const struct http_request *request,
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

/* Send it and wait for a 2xx response: the caller frees its body, always. Keeps to
 * calls_per_second; other transfers go on meanwhile. */
static enum err_code call_raw(struct kube_client *c, const struct kube_resource *resource,
                              const struct http_request *request, struct http_response *out,
                              struct err *err)
{
    struct bucket *budget = resource == &kube_events ? &c->events : &c->calls;
    bool is_repeated = false;
    enum err_code rc = ERR_OK;

    for (;;) {
        while (rc == ERR_OK && c->options.calls_per_second > 0 &&
               !bucket_take(budget, clock_now_ms()))
            rc = http_pause(c->http, bucket_wait_ms(budget, clock_now_ms()), err);
        if (rc == ERR_OK)
            rc = send_request(c, request, NULL, NULL, out, err);
        if (rc != ERR_OK || kube_status_code(out->status) == ERR_OK)
            return rc;
        rc = kube_refused(c, out, err);
        if (is_repeated || out->status != 401 || !c->config.token_file)
            return rc;
        buf_deinit(&out->body);
        is_repeated = true;
        rc = ERR_OK;
    }
}

static _Thread_local int64_t in_calls_ns;

int64_t kube_in_calls_ns(void)
{
    return in_calls_ns;
}

/* The same, with the time that it takes. */
static enum err_code call_timed(struct kube_client *c, const struct kube_resource *resource,
                                const struct http_request *request, struct http_response *out,
                                struct err *err)
{
    int64_t start_ns = clock_now_ns();
    enum err_code rc = call_raw(c, resource, request, out, err);

    in_calls_ns += clock_now_ns() - start_ns;
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

static const struct verb {
    const char *name;
    const char *method;
    const char *type; /* of the body */
    bool is_write;    /* of fields that become ours */
} verb_get = {"get", "GET", NULL, false}, verb_create = {"create", "POST", TYPE_JSON, true},
  verb_patch = {"patch", "PATCH", TYPE_MERGE, true},
  verb_delete = {"delete", "DELETE", TYPE_JSON, false};

/* One call on the path of `ref`. `body` and `out` may be NULL. */
static enum err_code call(struct kube_client *c, const struct verb *verb,
                          const struct kube_ref *ref, const char *body, struct json **out,
                          struct err *err)
{
    const struct kube_ref collection = {.resource = ref->resource, .namespace = ref->namespace};
    bool creates = verb == &verb_create;
    struct buf path = {.max = PATH_MAX_BYTES};
    struct http_request request = {.method = verb->method,
                                   .content_type = verb->type,
                                   .body = body,
                                   .body_bytes = body ? strlen(body) : 0,
                                   .deadline_ms = c->options.call_ms,
                                   .response_max_bytes = KUBE_OBJECT_MAX_BYTES};
    struct http_response response = {0};
    enum err_code rc = ERR_OK;

    if (creates && ref->resource->is_namespaced && !ref->namespace)
        rc = err_set(err, ERR_INVALID, "no namespace is given");
    else if (!creates && verb != &verb_get && !ref->name) /* would mean the whole collection */
        rc = err_set(err, ERR_INVALID, "no name is given");
    else if (verb != &verb_get && c->options.may_write && !c->options.may_write(c->options.ctx))
        rc = err_set(err, ERR_DENIED, "this process may not write");
    if (rc == ERR_OK)
        rc = kube_ref_path(creates ? &collection : ref, &path, err);
    if (rc == ERR_OK && verb->is_write)
        rc = kube_add_query(&path, "fieldManager", c->manager, err);
    request.url = path.data;
    if (rc == ERR_OK)
        rc = call_timed(c, ref->resource, &request, &response, err);
    if (rc == ERR_OK && out)
        rc = json_parse_tolerant(buf_text(&response.body), response.body.len, out, err);
    buf_deinit(&response.body);
    buf_deinit(&path);
    return named(rc, verb->name, ref, err);
}

enum err_code kube_get(struct kube_client *c, const struct kube_ref *ref, struct json **out,
                       struct err *err)
{
    return call(c, &verb_get, ref, NULL, out, err);
}

enum err_code kube_create(struct kube_client *c, const struct kube_ref *ref, const char *body,
                          struct json **out, struct err *err)
{
    return call(c, &verb_create, ref, body, out, err);
}

enum err_code kube_merge(struct kube_client *c, const struct kube_ref *ref, const char *body,
                         struct json **out, struct err *err)
{
    return call(c, &verb_patch, ref, body, out, err);
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
        struct http_request request = {.deadline_ms = PAGE_MS,
                                       .response_max_bytes = KUBE_PAGE_MAX_BYTES};
        struct buf path = {.max = PATH_MAX_BYTES};
        struct http_response response = {0};
        struct json *metadata = NULL;

        rc = kube_list_path(ref, position, n_objects, &path, err);
        request.url = path.data;
        if (rc == ERR_OK)
            rc = call_timed(c, ref->resource, &request, &response, err);
        buf_deinit(&path);
        if (rc == ERR_LIMIT && n_objects > 1) {
            n_objects /= 2;
            rc = ERR_OK;
        } else if (rc == ERR_LIMIT) {
            rc = err_wrap(err, rc, "a single object");
        } else if (rc == ERR_OK) {
            rc = page_read(buf_text(&response.body), response.body.len, sink, &metadata, err);
            JSON_COPY(position, json_path(metadata, "continue"));
            is_done = position[0] == '\0';
        }
        json_free(metadata);
        buf_deinit(&response.body);
    }
    if (rc == ERR_OK && !is_done)
        rc = err_set(err, ERR_LIMIT, "more than %d pages", PAGES_MAX);
    return named(rc, "list", ref, err);
}

enum err_code kube_delete(struct kube_client *c, const struct kube_ref *ref,
                          const struct kube_delete *how, struct err *err)
{
    const struct jsont_value values[] = {
        JSONT_I_IF("grace", how && how->grace_seconds >= 0, how ? how->grace_seconds : 0),
        JSONT_S("uid", how ? how->uid : NULL),
    };
    struct buf body = {.max = 1024};
    struct jsonw w;
    enum err_code rc;

    jsonw_init(&w, &body);
    jsont_write(&w, NULL,
                "{'apiVersion': 'v1', 'kind': 'DeleteOptions', 'propagationPolicy': 'Background',"
                " 'gracePeriodSeconds': $grace, 'preconditions': ?uid {'uid': $uid}}",
                values, sizeof values / sizeof *values);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = call(c, &verb_delete, ref, body.data, NULL, err);
    buf_deinit(&body);
    return rc;
}
