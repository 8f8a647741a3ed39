#include "kube/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/jsonw.h"
#include "kube/bucket.h"

#define NAME_BYTES        254
#define NAME_PREFIX_BYTES 200
#define BODY_MAX_BYTES    16384

/* One line of a table of the hashes used last. */
struct recent {
    uint64_t hash; /* 0: free */
    int64_t used_ms;
    int64_t count;        /* of an Event: how often it was said */
    struct bucket bucket; /* of an object and a reason: how much may still be said */
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

static uint64_t hash_of_object(const struct kube_subject *s)
{
    uint64_t hash = hash_add(HASH_START, s->uid ? s->uid : "");

    return hash_add(hash_add(hash, s->kind), s->name);
}

static uint64_t hash_of_event(const struct kube_event *e)
{
    uint64_t hash = hash_add(hash_of_object(&e->subject), e->is_warning ? "Warning" : "Normal");

    return hash_add(hash_add(hash, e->reason), e->message);
}

/* The line of `hash`; a new one, with count 0, takes the place of the one unused for longest. */
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
    *oldest = (struct recent){.hash = hash, .used_ms = now_ms};
    bucket_init(&oldest->bucket, KUBE_EVENT_BURST, KUBE_EVENT_REFILL_MS, now_ms);
    return oldest;
}

/* "<object>.<hash>", cut where it still is a valid name. */
static void name_event(const struct kube_event *e, char out[static NAME_BYTES])
{
    size_t n = strnlen(e->subject.name, NAME_PREFIX_BYTES);

    while (n > 0 && strchr(".-", e->subject.name[n - 1]))
        n--;
    (void)snprintf(out, NAME_BYTES, "%.*s.%016llx", (int)n, e->subject.name,
                   (unsigned long long)hash_of_event(e));
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

static void write_subject(struct jsonw *w, const struct kube_subject *s)
{
    jsonw_open_object(w, "involvedObject");
    jsonw_string(w, "apiVersion", s->api_version);
    jsonw_string(w, "kind", s->kind);
    if (s->namespace)
        jsonw_string(w, "namespace", s->namespace);
    jsonw_string(w, "name", s->name);
    jsonw_string(w, "uid", s->uid);
    jsonw_close(w);
}

static enum err_code write_event(const struct kube_recorder *r, const struct kube_event *e,
                                 const struct kube_ref *ref, struct buf *out, struct err *err)
{
    char message[KUBE_EVENT_MESSAGE_BYTES + 1];
    char now[CLOCK_TEXT_BYTES];
    struct jsonw w;

    cut_message(e->message, message);
    clock_format(clock_wall_ms(), now);
    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "apiVersion", "v1");
    jsonw_string(&w, "kind", "Event");
    jsonw_open_object(&w, "metadata");
    jsonw_string(&w, "namespace", ref->namespace);
    jsonw_string(&w, "name", ref->name);
    jsonw_close(&w);
    write_subject(&w, &e->subject);
    jsonw_string(&w, "type", e->is_warning ? "Warning" : "Normal");
    jsonw_string(&w, "reason", e->reason);
    jsonw_string(&w, "message", message);
    jsonw_open_object(&w, "source");
    jsonw_string(&w, "component", r->component);
    jsonw_close(&w);
    jsonw_string(&w, "reportingComponent", r->component);
    jsonw_string(&w, "firstTimestamp", now);
    jsonw_string(&w, "lastTimestamp", now);
    jsonw_int(&w, "count", 1);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

static enum err_code create(struct kube_recorder *r, const struct kube_event *e,
                            const struct kube_ref *ref, struct err *err)
{
    struct buf body = {.max = BODY_MAX_BYTES};
    enum err_code rc = write_event(r, e, ref, &body, err);

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

/* How often an Event that is in the API server was said, for a recorder that does not remember. */
static enum err_code read_count(struct kube_recorder *r, const struct kube_ref *ref,
                                int64_t *out_count, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = kube_get(r->client, ref, &object, err);

    if (rc != ERR_OK)
        return rc;
    *out_count = json_i64(json_get(object, "count"), 1);
    json_free(object);
    return ERR_OK;
}

enum err_code kube_event_post(struct kube_recorder *r, const struct kube_event *event,
                              struct err *err)
{
    int64_t now_ms = clock_now_ms();
    uint64_t hash = hash_add(hash_of_object(&event->subject), event->reason);
    struct recent *said = recall(r->reasons, hash, now_ms);
    struct recent *known = recall(r->events, hash_of_event(event), now_ms);
    char name[NAME_BYTES];
    struct kube_ref ref = {.resource = &kube_events,
                           .namespace =
                               event->subject.namespace ? event->subject.namespace : "default",
                           .name = name};
    int64_t count = known->count;
    enum err_code rc;

    if (!bucket_take(&said->bucket, now_ms))
        return err_set(err, ERR_LIMIT, "rate limited: events of %s %s with reason %s",
                       event->subject.kind, event->subject.name, event->reason);
    name_event(event, name);
    rc = count > 0 ? repeat(r, &ref, count + 1, err) : ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND) { /* never said, or so long ago that it has expired */
        count = 0;
        rc = create(r, event, &ref, err);
    }
    if (rc == ERR_CONFLICT) { /* said by us in an earlier life */
        rc = read_count(r, &ref, &count, err);
        if (rc == ERR_OK)
            rc = repeat(r, &ref, count + 1, err);
    }
    if (rc == ERR_OK)
        known->count = count + 1;
    return rc;
}
