/* kube/client.h - calls to the API server: get, list, create, patch, delete.
 *
 * Each call waits for its response; meanwhile all other transfers of the http loop go on, so the
 * callbacks of watches RUN INSIDE these calls, and in a shared loop what other threads do. Handlers
 * should therefore only note what to look at. For streams, kube_start() hands over the response as
 * it arrives.
 *
 * Bodies are JSON text. Objects that were read are never sent back whole (see base/json.h): send
 * only the fields you own, with kube_merge().
 *
 * Errors contain the server's own message: "create pods default/a: pods "a" already exists". Codes
 * are those of kube_status_code() and, without a response, of http/http.h. After a 429 or 503 with
 * Retry-After nothing is sent until that time has passed: calls return ERR_AGAIN at once.
 * After a 401 the client reads its token again and tries once more.
 * Layer: kube (may use http, base). Threads: those of the http loop.
 */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include "base/json.h"
#include "http/http.h"
#include "kube/config.h"

#define KUBE_OBJECT_MAX_BYTES ((size_t)4 << 20)  /* a single object: etcd takes 1.5 MB */
#define KUBE_PAGE_OBJECTS     100                /* at first; fewer where they are large */
#define KUBE_PAGE_MAX_BYTES   ((size_t)16 << 20) /* a page of a list */
#define KUBE_TOKEN_AGE_MS     60000
#define KUBE_STATUSES         600 /* of HTTP; 0: there was no response */

/* --- references to objects: pure, from any thread --- */

/* A resource type as the API server names it in paths. */
struct kube_resource {
    const char *group; /* "" is the core group */
    const char *version;
    const char *plural; /* "pods" */
    bool is_namespaced;
};

/* Those that every cluster has. */
extern const struct kube_resource kube_pods;
extern const struct kube_resource kube_nodes;
extern const struct kube_resource kube_policies;
extern const struct kube_resource kube_config_maps;
extern const struct kube_resource kube_claims;
extern const struct kube_resource kube_volumes;
extern const struct kube_resource kube_secrets;
extern const struct kube_resource kube_events;

/* One object, or a collection of them when `name` is NULL. Borrowed everywhere. */
struct kube_ref {
    const struct kube_resource *resource;
    const char *namespace;      /* NULL: all namespaces, or not namespaced */
    const char *name;           /* NULL: the collection */
    const char *subresource;    /* "status", "log"; NULL: none */
    const char *label_selector; /* of a collection; NULL: all */
    const char *field_selector;
};

/* Append the path, percent-escaped, with the reference's selectors as its query:
 * "/apis/skyjob.dev/v1alpha1/namespaces/default/skyjobs/mnli/status". ERR_INVALID for a part that
 * is no path segment (empty, "..", "a/b") and for a namespaced object without namespace. */
MUST_CHECK enum err_code kube_ref_path(const struct kube_ref *ref, struct buf *out,
                                       struct err *err);

/* Append "?name=value" or "&name=value", with `value` percent-escaped. */
MUST_CHECK enum err_code kube_add_query(struct buf *path, const char *name, const char *value,
                                        struct err *err);

/* Append the path of a page of at most `n_objects`. `position` is the `metadata.continue` of the
 * page before; "": the first page. */
MUST_CHECK enum err_code kube_list_path(const struct kube_ref *ref, const char *position,
                                        int n_objects, struct buf *out, struct err *err);

/* "pods default/mnli-0b7d3-w0-1", for messages. */
void kube_ref_text(const struct kube_ref *ref, char *out, size_t out_bytes);

/* --- calls --- */

struct kube_options {
    const char *user_agent; /* "name/version"; the name owns the fields we write; NULL: "kube-c" */
    int calls_per_second;   /* and as many for Events; 0: no limit (the server has its own) */
    int calls_burst;        /* with calls_per_second; at least 1 */
    int64_t call_ms;        /* for each call but those that list; 0: HTTP_DEADLINE_MS */
    /* Asked before each call that writes: false makes it ERR_DENIED. NULL: all may. */
    bool (*may_write)(void *ctx);
    void *ctx;
};

struct kube_client;

/* `config` is taken over (and *config is empty) on ERR_OK only; `http` is borrowed. */
MUST_CHECK enum err_code kube_client_new(struct http *http, struct kube_config *config,
                                         const struct kube_options *options,
                                         struct kube_client **out, struct err *err);
void kube_client_free(struct kube_client *c);

struct http *kube_client_http(const struct kube_client *c);
const struct kube_config *kube_client_config(const struct kube_client *c); /* borrowed */
/* Time left of the server's Retry-After; 0: requests may be sent. */
int64_t kube_client_quiet_ms(const struct kube_client *c, int64_t now_ms);
/* How many requests ended with each status: KUBE_STATUSES counters, [0] is for those without a
 * response. Borrowed. */
const uint64_t *kube_client_requests(const struct kube_client *c);

/* How long this thread has been in calls so far, of all clients, with what it waited for their
 * rates. */
int64_t kube_in_calls_ns(void);

/* One object. The caller owns *out: json_free(). */
MUST_CHECK enum err_code kube_get(struct kube_client *c, const struct kube_ref *ref,
                                  struct json **out, struct err *err);

/* Every object of a collection, page by page: `on_item` gets each, borrowed for the call, and ends
 * the listing with any code but ERR_OK. Objects that cannot be parsed are left out. A page above
 * KUBE_PAGE_MAX_BYTES is requested again with fewer objects; ERR_LIMIT when a single one is larger.
 * ERR_GONE when the list expired meanwhile: start again. */
struct kube_lister {
    void *ctx;
    enum err_code (*on_item)(void *ctx, const struct json *object, struct err *err);
};
MUST_CHECK enum err_code kube_list(struct kube_client *c, const struct kube_ref *ref,
                                   struct kube_lister lister, struct err *err);

/* Create `body` in the collection `ref` (its name is inside the body; ref->name is for messages).
 * ERR_CONFLICT: the name is taken. `out` may be NULL; else the caller owns the object as stored. */
MUST_CHECK enum err_code kube_create(struct kube_client *c, const struct kube_ref *ref,
                                     const char *body, struct json **out, struct err *err);

/* JSON merge patch: null removes a field, lists are replaced. With metadata.resourceVersion in the
 * body the server answers ERR_CONFLICT when the object has changed since. */
MUST_CHECK enum err_code kube_merge(struct kube_client *c, const struct kube_ref *ref,
                                    const char *body, struct json **out, struct err *err);

/* Delete one object; its dependents go in the background. */
struct kube_delete {       /* NULL: any uid, with the object's own grace period */
    const char *uid;       /* ERR_CONFLICT if it has another one; NULL: any */
    int64_t grace_seconds; /* < 0: the object's own */
};
MUST_CHECK enum err_code kube_delete(struct kube_client *c, const struct kube_ref *ref,
                                     const struct kube_delete *how, struct err *err);

/* Start a request and return at once. Its `url` is a path from kube_ref_path(), with its query; its
 * only header may be an Accept other than JSON. The rest of what the server needs is added. */
MUST_CHECK enum err_code kube_start(struct kube_client *c, const struct http_request *request,
                                    struct http_handler handler, uint64_t *out_id, struct err *err);

/* The code for an HTTP status, or for the `code` of a Status object inside a watch:
 *   2xx OK; 401, 403 DENIED; 404 NOT_FOUND; 409 CONFLICT (changed meanwhile, or exists already);
 *   410 GONE; 408, 504 TIMEOUT; 413 LIMIT; 429 AGAIN; other 4xx INVALID; 5xx IO; others PROTOCOL.
 */
enum err_code kube_status_code(int status);

/* Set `err` from a response that is not 2xx, with the server's message; `body` may be a Status
 * object, text or nothing. Returns its code. */
enum err_code kube_status_error(int status, const char *body, size_t n, struct err *err);

/* The same from a parsed Status object (that of an ERROR event). */
enum err_code kube_status_object(const struct json *status, struct err *err);

/* For users of kube_start(), when a request has ended: counts it. `status` is 0 without a response.
 */
void kube_count(struct kube_client *c, int status);

/* For users of kube_start(), with every response that is not 2xx: sets `err` and notes an expired
 * token or a Retry-After. */
enum err_code kube_refused(struct kube_client *c, const struct http_response *response,
                           struct err *err);

#endif
