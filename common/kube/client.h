/* kube/client.h - calls to the API server: get, list, create, patch, delete.
 *
 * Each call waits for its response; meanwhile all other transfers of the http loop go on, so the
 * callbacks of watches RUN INSIDE these calls. Handlers should therefore only note what to look at.
 * For streams, kube_start() hands over the response as it arrives.
 *
 * Bodies are JSON text. Objects that were read are never sent back whole (see base/json.h): send
 * only the fields you own, with kube_merge().
 *
 * Errors contain the server's own message: "create pods default/a: pods "a" already exists". Codes
 * are those of kube_status_code() and, without a response, of http/http.h. After a 429 or 503 with
 * Retry-After nothing is sent until that time has passed: calls return ERR_AGAIN at once.
 * After a 401 the client reads its token again and tries once more.
 * Layer: kube (may use http, base). Threads: one, that of the http loop.
 */
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include "base/json.h"
#include "http/http.h"
#include "kube/config.h"
#include "kube/resource.h"

#define KUBE_CALL_MS          30000
#define KUBE_OBJECT_MAX_BYTES ((size_t)4 << 20)  /* a single object: etcd takes 1.5 MB */
#define KUBE_PAGE_MAX_BYTES   ((size_t)16 << 20) /* a page of a list */
#define KUBE_TOKEN_AGE_MS     60000

struct kube_options {
    const char *user_agent;    /* borrowed for the client's life; NULL: "kube-c" */
    const char *field_manager; /* owner of the fields we write; NULL: user_agent */
    int calls_per_second;      /* 0: no limit (the server has its own) */
    int calls_burst;           /* with calls_per_second; at least 1 */
};

struct kube_client;

/* `config` is taken over (and *config is empty) on ERR_OK only; `http` is borrowed. */
MUST_CHECK enum err_code kube_client_new(struct http *http, struct kube_config *config,
                                         const struct kube_options *options,
                                         struct kube_client **out, struct err *err);
void kube_client_free(struct kube_client *c);

struct http *kube_client_http(const struct kube_client *c);
/* The namespace of the context or the pod. Borrowed, never NULL. */
const char *kube_client_namespace(const struct kube_client *c);
/* "https://10.0.0.1:6443". Borrowed. */
const char *kube_client_server(const struct kube_client *c);
/* How long the server has asked us not to send anything (Retry-After); 0: not at all. */
int64_t kube_client_quiet_ms(const struct kube_client *c, int64_t now_ms);

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

/* Start a request and return at once. */
struct kube_request {
    const char *method; /* NULL: GET */
    const char *path;   /* from kube_ref_path(), with its query */
    const char *accept; /* a whole header line; NULL: JSON */
    const char *content_type;
    const char *body;
    int64_t deadline_ms;       /* 0: KUBE_CALL_MS */
    size_t response_max_bytes; /* 0: KUBE_OBJECT_MAX_BYTES */
};
MUST_CHECK enum err_code kube_start(struct kube_client *c, const struct kube_request *request,
                                    struct http_handler handler, uint64_t *out_id, struct err *err);

/* The code for an HTTP status, or for the `code` of a Status object inside a watch:
 *   2xx OK; 401, 403 DENIED; 404 NOT_FOUND; 409 CONFLICT (changed meanwhile, or exists already);
 *   410 GONE; 408, 504 TIMEOUT; 413 LIMIT; 429 AGAIN; other 4xx INVALID; 5xx IO; others PROTOCOL.
 */
enum err_code kube_status_code(int status);

/* Set `err` from a response that is not 2xx, with the server's message; `body` may be a Status
 * object, text or nothing. Returns its code. */
enum err_code kube_status_error(int status, const char *body, size_t n, struct err *err);

/* The same from a Status object that has been parsed (the object of an ERROR event). */
enum err_code kube_status_object(const struct json *status, struct err *err);

/* To be called by users of kube_start() with every response that is not 2xx: sets `err` and notes
 * an expired token or a Retry-After. */
enum err_code kube_refused(struct kube_client *c, const struct http_response *response,
                           struct err *err);

#endif
