/* kube/event.h - what `kubectl describe` shows under "Events".
 *
 * An Event's name is a hash of object, type, reason and message, so a repeat only raises the count
 * and the last time, also after this program was restarted. Per object and reason the rate is
 * limited, so that a job that restarts for ever does not hide its other Events.
 * Needs create, get and patch on core/v1 events. Layer: kube (may use http, base). Threads: one.
 */
#ifndef KUBE_EVENT_H
#define KUBE_EVENT_H

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

struct kube_recorder;

/* `component` ("skyjob-operator") is the Events' source; borrowed like `c`. */
MUST_CHECK enum err_code kube_recorder_new(struct kube_client *c, const char *component,
                                           struct kube_recorder **out, struct err *err);
void kube_recorder_free(struct kube_recorder *r);

/* Create the Event or raise its count. Waits for the API server.
 *
 * Returns ERR_OK; ERR_LIMIT when it was rate limited and not sent; else the errors of
 * kube_create(). No caller should stop for a failure.
 */
MUST_CHECK enum err_code kube_event_post(struct kube_recorder *r, const struct kube_event *event,
                                         struct err *err);

#endif
