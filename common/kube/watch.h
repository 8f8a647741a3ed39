/* kube/watch.h - a collection as it is now and as it changes, for as long as the program runs.
 *
 * Lists the collection, watches from there, and does it again whenever the line is cut, the server
 * is away or our place in its history has expired. The caller sees only objects that appear,
 * change and vanish: what vanished while we were blind is reported DELETED after the next list.
 *
 *     LISTING --all pages--> WATCHING --end, cut--> WATCHING again from the last version
 *        ^                      |
 *        |<--- 410, new list ---+      any failure is followed by a pause: 0.8 s, doubled
 *                                      each time up to 30 s, with jitter
 *
 * One bad object costs neither a list nor a watch: what cannot be parsed is skipped (on_skipped),
 * and an object that was known stays as it was last seen. A page above KUBE_PAGE_MAX_BYTES is asked
 * for again with half as many objects; a single object above that is skipped by its metadata. A
 * line above KUBE_LINE_MAX_BYTES is skipped, and a new list is taken when that watch ends.
 *
 * Events come from inside http_poll() and every kube_* call that waits. The owner calls
 * kube_watch_step() between polls; without it nothing is started again.
 * Layer: kube (may use http, base). Threads: one, that of the http loop. Limit: KNOWN_MAX objects.
 */
#ifndef KUBE_WATCH_H
#define KUBE_WATCH_H

#include "kube/client.h"

#define KUBE_WATCH_MIN_S    300 /* the server ends a watch after a random time between */
#define KUBE_WATCH_MAX_S    600
#define KUBE_WATCH_GRACE_MS 30000              /* ... and we end it when that is late by so much */
#define KUBE_LINE_MAX_BYTES ((size_t)16 << 20) /* etcd takes 1.5 MB; escapes make 9 of it */

enum kube_change {
    KUBE_ADDED,
    KUBE_MODIFIED, /* perhaps not really: also whatever a new list repeats */
    KUBE_DELETED,  /* sure are only metadata.namespace, .name and .uid */
    KUBE_SYNCED,   /* a whole list has been reported; the object is NULL */
};

struct kube_watcher {
    void *ctx;
    /* `object` is borrowed for the call. Must not free the watch or wait for a call. */
    void (*on_change)(void *ctx, enum kube_change change, const struct json *object);
    /* Something failed and will be tried again after `wait_ms`; for the log. May be NULL. */
    void (*on_error)(void *ctx, const struct err *err, int64_t wait_ms);
    /* An object was skipped. `identity` holds metadata.namespace, .name and .uid as far as they are
     * known; NULL: none is. For the log. May be NULL. */
    void (*on_skipped)(void *ctx, const struct json *identity, const struct err *err);
};

struct kube_watch;

/* `ref` is copied, except ref->resource, which must outlive the watch. */
MUST_CHECK enum err_code kube_watch_new(struct kube_client *c, const struct kube_ref *ref,
                                        struct kube_watcher watcher, struct kube_watch **out,
                                        struct err *err);
void kube_watch_free(struct kube_watch *w);

/* Start whatever is due at `now_ms` (clock_now_ms()). Returns how long until it has to be called
 * again, in ms; -1: when the next callback has run. So a loop is:
 *
 *     wait = kube_watch_step(w, clock_now_ms());
 *     rc = http_poll(http, wait < 0 ? IDLE_MS : wait, &err);
 */
int64_t kube_watch_step(struct kube_watch *w, int64_t now_ms);

/* Has a whole list been reported since the watch was made? */
bool kube_watch_is_synced(const struct kube_watch *w);
/* Objects in events so far, for metrics. */
uint64_t kube_watch_n_events(const struct kube_watch *w);

#endif
