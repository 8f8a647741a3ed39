/* kube/watch.h - follow a collection for as long as the program runs.
 *
 * Lists the collection, watches from there, and repeats that whenever the connection is cut or our
 * version has expired. The caller sees objects that appear, change and vanish: what vanished
 * without an event is reported DELETED after the next list.
 *
 *     LISTING --all pages--> WATCHING --end, 5xx--> WATCHING again from the last version
 *        ^                      |
 *        |<-- cut, 410, 504 ----+      any failure is followed by a pause: 0.8 s, doubled
 *                                      each time up to 30 s, with jitter
 *
 * A version alone would not do after a cut, as which a 5xx inside a watch counts too, and an end
 * before its time: of a server that shuts down. It may have been restored to an older state
 * meanwhile: a client that watches from a version that is yet to come, or that was reached by other
 * changes, is never told what is gone.
 *
 * One bad object fails neither a list nor a watch: what cannot be parsed is skipped (on_skipped),
 * and a known object stays as it was last seen. A page above KUBE_PAGE_MAX_BYTES is requested again
 * with half as many objects; a single object above that is skipped by its metadata. A line above
 * KUBE_LINE_MAX_BYTES is skipped, and the collection is listed again when that watch ends.
 *
 * Callbacks run inside http_poll() and every kube_* call that waits. The owner calls
 * kube_watch_step() between polls; without it nothing is started.
 * Layer: kube (may use http, base). Threads: one, that of the http loop. Limit: KNOWN_MAX objects.
 */
#ifndef KUBE_WATCH_H
#define KUBE_WATCH_H

#include "base/map.h"
#include "kube/client.h"
#include "kube/response.h"

#define KUBE_WATCH_MIN_S    300 /* the server ends a watch after a random time in this range */
#define KUBE_WATCH_MAX_S    600
#define KUBE_WATCH_GRACE_MS 30000              /* ... and we end it when the server is this late */
#define KUBE_WATCH_EARLY_MS 2000               /* the server may be as much too early */
#define KUBE_LINE_MAX_BYTES ((size_t)16 << 20) /* etcd's limit is 1.5 MB, 9 MB with escapes */

enum kube_change {
    KUBE_ADDED,
    KUBE_MODIFIED, /* or unchanged, when a new list repeats it */
    KUBE_DELETED,  /* only metadata.namespace, .name and .uid are certain to be present */
    KUBE_SYNCED,   /* a complete list has been reported; the object is NULL */
};

struct kube_watcher {
    void *ctx;
    /* `object` is borrowed for the call. Must not free the watch or wait for a call. */
    void (*on_change)(void *ctx, enum kube_change change, const struct json *object);
    /* A failure that is retried after `wait_ms`; for the log. May be NULL. */
    void (*on_error)(void *ctx, const struct err *err, int64_t wait_ms);
    /* An object was skipped. `identity` has metadata.namespace, .name and .uid as far as they are
     * known; NULL: unknown. For the log. May be NULL. */
    void (*on_skipped)(void *ctx, const struct json *identity, const struct err *err);
};

/* The owner sets the first four, in zeroed memory; what they point to must outlive the watch. */
struct kube_watch {
    struct kube_client *client;
    struct kube_ref ref; /* the collection */
    struct kube_watcher watcher;
    int64_t early_ms; /* 0: KUBE_WATCH_EARLY_MS */
    /* To be read only. */
    bool is_synced;    /* a complete list has been reported, and no cut or expiry since */
    uint64_t n_events; /* objects in events so far, bookmarks not counted */
    /* Private. */
    uint64_t transfer;     /* 0: none under way */
    char version[128];     /* where to watch from; "": a list is due */
    char position[6144];   /* the continue token of the next page; "": the first */
    uint64_t list;         /* number of the current or last list */
    int page_objects;      /* asked for per page; 0: between two lists */
    bool is_metadata_only; /* the object at `position` is too large to be read */
    bool is_incomplete;    /* a line was lost: list again when the watch ends */
    struct map known;      /* "namespace/name" to what was reported and not deleted */
    struct framer framer;
    int n_failures;   /* in a row */
    int64_t retry_ms; /* no call before that */
    int64_t watch_began_ms;
    int64_t watch_asked_ms;     /* how long it should last */
    uint64_t watch_began_count; /* n_events then */
};

void kube_watch_deinit(struct kube_watch *w);

/* Start what is due at `now_ms` (clock_now_ms()). Returns the milliseconds until the next call is
 * needed; -1: after the next callback. So a loop is:
 *
 *     wait = kube_watch_step(w, clock_now_ms());
 *     rc = http_poll(http, wait < 0 ? IDLE_MS : wait, &err);
 */
int64_t kube_watch_step(struct kube_watch *w, int64_t now_ms);

#endif
