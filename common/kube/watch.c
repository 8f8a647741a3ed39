#include "kube/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PATH_MAX_BYTES  8192
#define PAGE_MS         60000
#define RETRY_MS        800    /* then doubled, plus a random part of up to as much again ... */
#define RETRY_MAX_MS    30000  /* ... but never more than this */
#define WATCH_SHORT_MS  1000   /* a watch that ends sooner without an event has failed */
#define WATCH_CALM_MS   120000 /* a watch that lasts longer resets n_failures */
#define KNOWN_MAX       200000 /* objects of one watch */
#define KEY_BYTES       512    /* Kubernetes takes 63 and 253 characters */
#define ACCEPT_METADATA "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

/* An object that was reported, to notice when it is gone. */
struct known {
    uint64_t list; /* number of the last list with it */
    char uid[];
};

void kube_watch_deinit(struct kube_watch *w)
{
    struct known *known;

    if (w->transfer)
        http_cancel(kube_client_http(w->client), w->transfer);
    for (size_t place = 0; (known = map_next(&w->known, &place, NULL)) != NULL;)
        free(known);
    map_deinit(&w->known);
    framer_reset(&w->framer);
    *w = (struct kube_watch){0};
}

/* --- failing --- */

/* What was reported may differ from what the server has by now: list again. */
static void lose_place(struct kube_watch *w)
{
    w->version[0] = '\0';
    w->is_synced = false;
}

/* Pause after a failure of `what`, and decide whether to list again. */
static void back_off(struct kube_watch *w, const char *what, struct err *err)
{
    int64_t quiet_ms = kube_client_quiet_ms(w->client, clock_now_ms());
    int64_t wait_ms;

    err_wrap(err, err->code, "%s %s", what, w->ref.resource->plural);
    w->n_failures++;
    /* An expired version is no outage: listing again helps, waiting does not. */
    wait_ms = backoff_ms(err->code == ERR_GONE ? 1 : w->n_failures, RETRY_MS, RETRY_MAX_MS);
    wait_ms += wait_ms * (clock_now_ns() % 1024) / 1024; /* clients must not retry in step */
    wait_ms = wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
    if (wait_ms < quiet_ms)
        wait_ms = quiet_ms;
    w->retry_ms = clock_now_ms() + wait_ms;
    w->position[0] = '\0'; /* a list starts over: its first pages are outdated by then */
    w->page_objects = 0;
    w->is_metadata_only = false;
    /* After server trouble a watch can go on from the version it has; after any error about the
     * version or a line it cannot. */
    if (err->code != ERR_IO && err->code != ERR_AGAIN && err->code != ERR_DENIED &&
        err->code != ERR_NO_MEMORY)
        lose_place(w);
    if (w->watcher.on_error)
        w->watcher.on_error(w->watcher.ctx, err, wait_ms);
}

static void set_version(struct kube_watch *w, const struct json *metadata)
{
    const char *version = json_text(metadata, "resourceVersion");

    if (*version && strlen(version) < sizeof w->version)
        (void)snprintf(w->version, sizeof w->version, "%s", version);
}

/* --- reporting --- */

/* An object vanished unseen: only its identity is left. */
static void report_vanished(struct kube_watch *w, const char *key, const struct known *known)
{
    const char *name = strchr(key, '/') + 1;
    char namespace[KEY_BYTES];
    const struct jsont_value values[] = {
        JSONT_S("namespace", *key == '/' ? NULL : namespace),
        JSONT_S("name", name),
        JSONT_S("uid", known->uid),
    };
    struct buf text = {.max = PAGE_IDENTITY_BYTES};
    struct json *object = NULL;
    struct jsonw out;

    (void)snprintf(namespace, sizeof namespace, "%.*s", (int)(name - 1 - key), key);
    jsonw_init(&out, &text);
    jsont_write(&out, NULL, "{'metadata': {'namespace': $namespace, 'name': $name, 'uid': $uid}}",
                values, sizeof values / sizeof *values);
    if (jsonw_finish(&out, NULL) == ERR_OK &&
        json_parse(buf_text(&text), text.len, &object, NULL) == ERR_OK)
        w->watcher.on_change(w->watcher.ctx, KUBE_DELETED, object);
    json_free(object);
    buf_deinit(&text);
}

struct identity {
    char key[KEY_BYTES]; /* "namespace/name" */
    const char *uid;
    struct known *known; /* NULL: not reported */
};

/* False for an object without a name, or with one longer than Kubernetes allows. */
static bool identify(const struct kube_watch *w, const struct json *object, struct identity *out)
{
    const struct json *metadata = json_get(object, "metadata");
    const char *name = json_text(metadata, "name");
    int n = snprintf(out->key, sizeof out->key, "%s/%s", json_text(metadata, "namespace"), name);

    out->uid = json_text(metadata, "uid");
    out->known = map_get(&w->known, out->key);
    return *name && n < KEY_BYTES;
}

/* `object` is borrowed; NULL: not even its metadata could be read. */
static void skip(void *ctx, const struct json *object, const struct err *err)
{
    struct kube_watch *w = ctx;
    struct identity id;

    if (identify(w, object, &id) && id.known && strcmp(id.known->uid, id.uid) == 0)
        id.known->list = w->list; /* it still exists */
    if (w->watcher.on_skipped)
        w->watcher.on_skipped(w->watcher.ctx, object, err);
}

/* An object of a list or an event. */
static enum err_code see(void *ctx, const struct json *object, struct err *err)
{
    struct kube_watch *w = ctx;
    struct identity id;
    enum kube_change change = KUBE_MODIFIED;
    enum err_code rc;

    if (!identify(w, object, &id))
        return ERR_OK;
    /* Between two lists its name was given to another object. */
    if (id.known && strcmp(id.known->uid, id.uid) != 0) {
        report_vanished(w, id.key, id.known);
        free(map_take(&w->known, id.key));
        id.known = NULL;
    }
    if (!id.known) {
        size_t uid_bytes = strlen(id.uid) + 1;

        id.known = malloc(sizeof *id.known + uid_bytes);
        if (!id.known)
            return err_set(err, ERR_NO_MEMORY, "no memory for an object");
        memcpy(id.known->uid, id.uid, uid_bytes);
        rc = w->known.n < KNOWN_MAX ? map_put(&w->known, id.key, id.known, err)
                                    : err_set(err, ERR_LIMIT, "more than %d objects", KNOWN_MAX);
        if (rc != ERR_OK) {
            free(id.known);
            return rc;
        }
        change = KUBE_ADDED;
    }
    id.known->list = w->list;
    w->watcher.on_change(w->watcher.ctx, change, object);
    return ERR_OK;
}

static void forget(struct kube_watch *w, const struct json *object)
{
    struct identity id;

    if (!identify(w, object, &id) || !id.known || strcmp(id.known->uid, id.uid) != 0)
        return; /* reported before, or an earlier object of that name */
    free(map_take(&w->known, id.key));
    w->watcher.on_change(w->watcher.ctx, KUBE_DELETED, object);
}

/* Report and remove what the list that has just ended did not contain. */
static void sweep(struct kube_watch *w)
{
    struct known *known;
    const char *key;

    for (size_t place = 0; (known = map_next(&w->known, &place, &key)) != NULL;) {
        if (known->list == w->list)
            continue;
        report_vanished(w, key, known);
        free(map_take(&w->known, key));
    }
}

/* --- watching --- */

/* An event that cannot be parsed. */
static void skip_line(struct kube_watch *w, struct jsonraw line, const struct err *err)
{
    struct jsonraw part;
    struct json *identity = NULL;
    bool is_deleted = jsonraw_member(line, "type", &part) && part.len == strlen("\"DELETED\"") &&
                      memcmp(part.text, "\"DELETED\"", part.len) == 0;

    if (jsonraw_member(line, "object", &part))
        identity = page_identify(part);
    w->is_incomplete |= !identity;
    skip(w, identity, err);
    if (identity && is_deleted)
        forget(w, identity);
    set_version(w, json_get(identity, "metadata"));
    json_free(identity);
}

static void on_long(void *ctx)
{
    struct kube_watch *w = ctx;
    struct err err;

    (void)err_set(&err, ERR_LIMIT, "watch event above %zu bytes", KUBE_LINE_MAX_BYTES);
    w->is_incomplete = true;
    skip(w, NULL, &err);
}

static enum err_code on_line(void *ctx, const char *line, size_t n, struct err *err)
{
    struct kube_watch *w = ctx;
    struct json *event = NULL;
    const struct json *object;
    const char *type;
    struct err why;
    enum err_code rc = json_parse_tolerant(line, n, &event, &why);

    if (rc == ERR_NO_MEMORY)
        return err_set(err, rc, "watch event: %s", why.text);
    if (rc != ERR_OK) {
        skip_line(w, (struct jsonraw){line, n}, &why);
        return ERR_OK;
    }
    type = json_text(event, "type");
    object = json_get(event, "object");
    if (strcmp(type, "ERROR") == 0) {
        rc = kube_status_object(object, err);
        if (rc == ERR_TIMEOUT) /* 504: our version is ahead of the server's history */
            rc = err_wrap(err, ERR_GONE, "version unknown to the server");
    } else if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        w->n_events++;
        rc = see(w, object, err);
    } else if (strcmp(type, "DELETED") == 0) {
        w->n_events++;
        forget(w, object);
    }
    if (rc == ERR_OK) {
        set_version(w, json_get(object, "metadata"));
        w->n_failures = 0;
    }
    json_free(event);
    return rc;
}

static enum err_code on_watch_chunk(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct kube_watch *w = ctx;

    return framer_feed(&w->framer, bytes, n,
                       (struct framer_sink){.ctx = w, .on_line = on_line, .on_long = on_long}, err);
}

static void on_watch_done(void *ctx, struct http_response *response, const struct err *err)
{
    struct kube_watch *w = ctx;
    struct err why = *err;
    int64_t lasted_ms = clock_now_ms() - w->watch_began_ms;
    int64_t early_ms = w->early_ms ? w->early_ms : KUBE_WATCH_EARLY_MS;
    bool is_empty = w->n_events == w->watch_began_count;
    bool is_early =
        why.code == ERR_OK && response->status == 200 && lasted_ms < w->watch_asked_ms - early_ms;

    w->transfer = 0;
    kube_count(w->client, response->status);
    framer_reset(&w->framer);
    if (why.code == ERR_TIMEOUT)
        why.code = ERR_IO; /* silence is a cut */
    /* A server that was away may be back with an older state, and may have passed our version
     * since, with other objects than ours. */
    if (w->is_incomplete || is_early || why.code == ERR_IO)
        lose_place(w);
    if (lasted_ms > WATCH_CALM_MS)
        w->n_failures = 0;
    if (why.code == ERR_OK && kube_status_code(response->status) != ERR_OK)
        kube_refused(w->client, response, &why);
    else if (why.code == ERR_OK && is_empty && lasted_ms < WATCH_SHORT_MS)
        err_set(&why, ERR_IO, "the watch ended after %lld ms without an event",
                (long long)lasted_ms);
    if (why.code != ERR_OK)
        back_off(w, "watch", &why);
}

static enum err_code start_watch(struct kube_watch *w, struct err *err)
{
    int seconds =
        KUBE_WATCH_MIN_S + (int)(clock_now_ns() % (KUBE_WATCH_MAX_S - KUBE_WATCH_MIN_S + 1));
    struct http_handler handler = {.ctx = w, .on_done = on_watch_done, .on_chunk = on_watch_chunk};
    struct http_request request = {.deadline_ms = seconds * 1000LL + KUBE_WATCH_GRACE_MS,
                                   .response_max_bytes = KUBE_OBJECT_MAX_BYTES};
    struct buf path = {.max = PATH_MAX_BYTES};
    enum err_code rc = kube_ref_path(&w->ref, &path, err);

    if (rc == ERR_OK)
        rc = kube_add_query(&path, "watch=true&allowWatchBookmarks=true&resourceVersion",
                            w->version, err);
    if (rc == ERR_OK)
        rc = buf_addf(&path, err, "&timeoutSeconds=%d", seconds);
    request.url = path.data;
    if (rc == ERR_OK)
        rc = kube_start(w->client, &request, handler, &w->transfer, err);
    buf_deinit(&path);
    if (rc != ERR_OK)
        return rc;
    w->framer.partial.max = KUBE_LINE_MAX_BYTES;
    w->watch_began_ms = clock_now_ms();
    w->watch_asked_ms = seconds * 1000LL;
    w->watch_began_count = w->n_events;
    return ERR_OK;
}

/* --- listing --- */

/* For an object that is too large, of which only the metadata was requested. */
static enum err_code skip_large(void *ctx, const struct json *object, struct err *err)
{
    struct err why;

    (void)err;
    (void)err_set(&why, ERR_LIMIT, "object above %zu bytes", KUBE_PAGE_MAX_BYTES);
    skip(ctx, object, &why);
    return ERR_OK;
}

/* The last page has come: report what has vanished, and watch from there. */
static enum err_code end_list(struct kube_watch *w, const struct json *metadata, struct err *err)
{
    w->page_objects = 0;
    w->is_incomplete = false;
    sweep(w);
    set_version(w, metadata);
    if (w->version[0] == '\0')
        return err_set(err, ERR_PROTOCOL, "the list has no resourceVersion");
    w->is_synced = true; /* n_failures stays: only an event proves that watching works */
    w->watcher.on_change(w->watcher.ctx, KUBE_SYNCED, NULL);
    return ERR_OK;
}

static void on_page_done(void *ctx, struct http_response *response, const struct err *err)
{
    struct kube_watch *w = ctx;
    struct page_sink sink = {w, w->is_metadata_only ? skip_large : see, skip};
    struct err why = *err;
    struct json *metadata = NULL;
    const char *next;

    w->transfer = 0;
    kube_count(w->client, response->status);
    /* After a page that is too large, request fewer objects; of a single one, only its metadata. */
    if (why.code == ERR_LIMIT && !w->is_metadata_only) {
        w->is_metadata_only = w->page_objects == 1;
        w->page_objects = w->page_objects > 1 ? w->page_objects / 2 : 1;
        return;
    }
    if (why.code == ERR_OK && kube_status_code(response->status) != ERR_OK)
        kube_refused(w->client, response, &why);
    else if (why.code == ERR_OK)
        why.code = page_read(buf_text(&response->body), response->body.len, sink, &metadata, &why);
    buf_deinit(&response->body); /* large, and the handlers may take their time */
    next = json_text(metadata, "continue");
    if (why.code == ERR_OK && strlen(next) >= sizeof w->position)
        err_set(&why, ERR_LIMIT, "the continue token is too long");
    if (why.code == ERR_OK) {
        (void)snprintf(w->position, sizeof w->position, "%s", next);
        w->is_metadata_only = false;
        if (*next)
            w->page_objects =
                w->page_objects < KUBE_PAGE_OBJECTS / 2 ? 2 * w->page_objects : KUBE_PAGE_OBJECTS;
        else
            why.code = end_list(w, metadata, &why);
    }
    json_free(metadata);
    if (why.code != ERR_OK)
        back_off(w, "list", &why);
}

static enum err_code start_page(struct kube_watch *w, struct err *err)
{
    struct http_handler handler = {.ctx = w, .on_done = on_page_done};
    static const char *const accept[] = {ACCEPT_METADATA, NULL};
    struct http_request request = {.headers = w->is_metadata_only ? accept : NULL,
                                   .deadline_ms = PAGE_MS,
                                   .response_max_bytes = KUBE_PAGE_MAX_BYTES};
    struct buf path = {.max = PATH_MAX_BYTES};
    bool is_first = w->page_objects == 0;
    enum err_code rc;

    if (is_first)
        w->page_objects = KUBE_PAGE_OBJECTS;
    rc = kube_list_path(&w->ref, w->position, w->page_objects, &path, err);
    request.url = path.data;
    if (rc == ERR_OK)
        rc = kube_start(w->client, &request, handler, &w->transfer, err);
    buf_deinit(&path);
    if (rc == ERR_OK && is_first)
        w->list++;
    return rc;
}

int64_t kube_watch_step(struct kube_watch *w, int64_t now_ms)
{
    bool lists = w->version[0] == '\0' || w->position[0] != '\0';
    struct err err;

    if (w->transfer)
        return -1;
    if (now_ms < w->retry_ms)
        return w->retry_ms - now_ms;
    if ((lists ? start_page(w, &err) : start_watch(w, &err)) == ERR_OK)
        return -1;
    back_off(w, lists ? "list" : "watch", &err);
    return w->retry_ms > now_ms ? w->retry_ms - now_ms : 0;
}
