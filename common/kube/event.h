/* kube/event.h - what `kubectl describe` shows under "Events".
 *
 * An Event's name is a hash of object, type, reason and message, so a repeat only raises the count
 * and the last time, also after a restart of this program. The rate is limited per object and
 * reason, so that a job that keeps restarting does not hide its other Events.
 * Needs create, get and patch on core/v1 events. Layer: kube (may use http, base). Threads: those
 * of the http loop.
 */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

#include "base/clock.h"
#include "kube/client.h"

#define KUBE_EVENT_BURST         25
#define KUBE_EVENT_REFILL_MS     300000
#define KUBE_EVENT_OBJECTS_MAX   512  /* remembered; the least recently used makes room */
#define KUBE_EVENT_MESSAGE_BYTES 1024 /* the API server's limit; longer ones are cut */

/* The object an Event is about. Borrowed. */
struct kube_subject {
    const char *api_version; /* "skyjob.dev/v1alpha1" */
    const char *kind;
    const char *namespace; /* NULL: cluster-wide; its Events go to "default" */
    const char *name;
    const char *uid;
};

struct kube_event {
    struct kube_subject subject;
    const char *reason; /* short CamelCase */
    const char *message;
    bool is_warning;
};

struct kube_recorder {
    struct kube_client *client; /* borrowed */
    const char *component;      /* "skyjob-operator", the Events' source; borrowed */
    struct kube_reason {        /* private, zeroed at first: the ones used last */
        uint64_t hash;          /* of object and reason; 0: free */
        int64_t used_ms;
        struct bucket bucket;
    } reasons[KUBE_EVENT_OBJECTS_MAX];
};

/* Create the Event or raise its count. Waits for the API server.
 *
 * Returns ERR_OK; ERR_LIMIT when it was rate limited and not sent; else the errors of
 * kube_create() and kube_merge(), which no caller should stop for.
 */
MUST_CHECK enum err_code kube_event_post(struct kube_recorder *r, const struct kube_event *event,
                                         struct err *err);

#endif
