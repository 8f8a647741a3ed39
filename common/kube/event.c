#include "kube/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/jsonw.h"

#define NAME_BYTES        254
#define NAME_PREFIX_BYTES 200
#define BODY_MAX_BYTES    16384

/* An entry of a table of the hashes used last. */
struct recent {
    uint64_t hash; /* 0: free */
    int64_t used_ms;
    int64_t count;        /* of an Event */
    struct bucket bucket; /* of an object and a reason */
};

struct kube_recorder {
    struct kube_client *client;                    /* borrowed */
    const char *component;                         /* borrowed */
    struct recent events[KUBE_EVENT_OBJECTS_MAX];  /* by name of the Event */
    struct recent reasons[KUBE_EVENT_OBJECTS_MAX]; /* by uid of the object, and reason */
};

enum err_code kube_recorder_new(struct kube_client *c, const char *component,
                                struct kube_recorder **out, struct err *err)
{
    struct kube_recorder *r = calloc(1, sizeof *r);

    if (!r)
        return err_set(err, ERR_NO_MEMORY, "no memory for the event recorder");
    r->client = c;
    r->component = component;
    *out = r;
    return ERR_OK;
}

void kube_recorder_free(struct kube_recorder *r)
{
    free(r);
}

/* The entry of `hash`; a new one, with count 0, replaces the least recently used. */
static struct recent *recall(struct recent *table, uint64_t hash, int64_t now_ms)
{
    struct recent *oldest = table;

    for (int i = 0; i < KUBE_EVENT_OBJECTS_MAX; i++) {
        if (table[i].hash == hash) {
            table[i].used_ms = now_ms;
            return &table[i];
        }
        if (table[i].hash == 0 || (oldest->hash != 0 && table[i].used_ms < oldest->used_ms))
            oldest = &table[i];
    }
    *oldest =
        (struct recent){.hash = hash,
                        .used_ms = now_ms,
                        .bucket = {.burst = KUBE_EVENT_BURST, .refill_ms = KUBE_EVENT_REFILL_MS}};
    return oldest;
}

/* At most KUBE_EVENT_MESSAGE_BYTES, and no half of a UTF-8 sequence at the end. */
static void cut_message(const char *message, char out[static KUBE_EVENT_MESSAGE_BYTES + 1])
{
    size_t n = strnlen(message, KUBE_EVENT_MESSAGE_BYTES + 1);

    if (n > KUBE_EVENT_MESSAGE_BYTES)
        for (n = KUBE_EVENT_MESSAGE_BYTES; n > 0 && (message[n] & 0xc0) == 0x80;)
            n--;
    memcpy(out, message, n);
    out[n] = '\0';
}

static enum err_code create(struct kube_recorder *r, const struct kube_event *e,
                            const struct kube_ref *ref, struct err *err)
{
    static const char template[] =
        "{'apiVersion': 'v1', 'kind': 'Event',"
        " 'metadata': {'namespace': $event_namespace, 'name': $event},"
        " 'involvedObject': {'apiVersion': $version, 'kind': $kind, 'namespace': $namespace,"
        "                    'name': $name, 'uid': $uid},"
        " 'type': $type, 'reason': $reason, 'message': $message,"
        " 'source': {'component': $component}, 'reportingComponent': $component,"
        " 'firstTimestamp': $now, 'lastTimestamp': $now, 'count': 1}";
    char message[KUBE_EVENT_MESSAGE_BYTES + 1];
    char now[CLOCK_TEXT_BYTES];
    const struct jsont_value values[] = {
        JSONT_S("event_namespace", ref->namespace),
        JSONT_S("event", ref->name),
        JSONT_S("version", e->subject.api_version),
        JSONT_S("kind", e->subject.kind),
        JSONT_S("namespace", e->subject.namespace),
        JSONT_S("name", e->subject.name),
        JSONT_S("uid", e->subject.uid),
        JSONT_S("type", e->is_warning ? "Warning" : "Normal"),
        JSONT_S("reason", e->reason),
        JSONT_S("message", message),
        JSONT_S("component", r->component),
        JSONT_S("now", now),
    };
    struct buf body = {.max = BODY_MAX_BYTES};
    struct jsonw w;
    enum err_code rc;

    cut_message(e->message, message);
    clock_format(clock_wall_ms(), now);
    jsonw_init(&w, &body);
    jsont_write(&w, NULL, template, values, sizeof values / sizeof *values);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = kube_create(r->client, ref, body.data, NULL, err);
    buf_deinit(&body);
    return rc;
}

static enum err_code repeat(struct kube_recorder *r, const struct kube_ref *ref, int64_t count,
                            struct err *err)
{
    char now[CLOCK_TEXT_BYTES];
    char body[128];

    clock_format(clock_wall_ms(), now);
    (void)snprintf(body, sizeof body, "{\"count\":%lld,\"lastTimestamp\":\"%s\"}", (long long)count,
                   now);
    return kube_merge(r->client, ref, body, NULL, err);
}

enum err_code kube_event_post(struct kube_recorder *r, const struct kube_event *event,
                              struct err *err)
{
    const struct kube_subject *s = &event->subject;
    int64_t now_ms = clock_now_ms();
    uint64_t subject =
        hash_add(hash_add(hash_add(HASH_START, s->uid ? s->uid : ""), s->kind), s->name);
    uint64_t hash = hash_add(subject, event->is_warning ? "Warning" : "Normal");
    struct recent *reason = recall(r->reasons, hash_add(subject, event->reason), now_ms);
    size_t n = strnlen(s->name, NAME_PREFIX_BYTES);
    char name[NAME_BYTES];
    struct kube_ref ref = {.resource = &kube_events,
                           .namespace = s->namespace ? s->namespace : "default",
                           .name = name};
    struct json *stored = NULL;
    struct recent *known;
    int64_t count;
    enum err_code rc;

    if (!bucket_take(&reason->bucket, now_ms))
        return err_set(err, ERR_LIMIT, "rate limited: events of %s %s with reason %s", s->kind,
                       s->name, event->reason);
    hash = hash_add(hash_add(hash, event->reason), event->message);
    known = recall(r->events, hash, now_ms);
    count = known->count;
    while (n > 0 && strchr(".-", s->name[n - 1])) /* a dot must not follow these */
        n--;
    (void)snprintf(name, sizeof name, "%.*s.%016llx", (int)n, s->name, (unsigned long long)hash);
    rc = count > 0 ? repeat(r, &ref, count + 1, err) : ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND) { /* not sent yet, or so long ago that it has expired */
        count = 0;
        rc = create(r, event, &ref, err);
    }
    if (rc == ERR_CONFLICT) { /* sent before this program was restarted */
        rc = kube_get(r->client, &ref, &stored, err);
        count = json_i64(json_get(stored, "count"), 1);
        json_free(stored);
        if (rc == ERR_OK)
            rc = repeat(r, &ref, count + 1, err);
    }
    if (rc == ERR_OK)
        known->count = count + 1;
    return rc;
}
