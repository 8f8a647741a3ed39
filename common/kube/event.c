#include "kube/event.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"

#define NAME_BYTES        254
#define NAME_PREFIX_BYTES 200
#define BODY_MAX_BYTES    16384

/* May an Event with this object and reason be sent? A new one replaces the least recently used. */
static bool may_send(struct kube_recorder *r, uint64_t hash, int64_t now_ms)
{
    struct kube_reason *found = r->reasons;

    for (int i = 0; i < KUBE_EVENT_OBJECTS_MAX && found->hash != hash; i++) {
        struct kube_reason *e = &r->reasons[i];

        if (e->hash == hash || e->hash == 0 || (found->hash != 0 && e->used_ms < found->used_ms))
            found = e;
    }
    if (found->hash != hash)
        *found = (struct kube_reason){
            .hash = hash, .bucket = {.burst = KUBE_EVENT_BURST, .refill_ms = KUBE_EVENT_REFILL_MS}};
    found->used_ms = now_ms;
    return bucket_take(&found->bucket, now_ms);
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
    size_t n = strnlen(e->message, sizeof message);
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

    if (n > KUBE_EVENT_MESSAGE_BYTES) /* leave no half of a UTF-8 sequence at the end */
        for (n = KUBE_EVENT_MESSAGE_BYTES; n > 0 && (e->message[n] & 0xc0) == 0x80;)
            n--;
    (void)snprintf(message, sizeof message, "%.*s", (int)n, e->message);
    clock_format(clock_wall_ms(), now);
    jsonw_init(&w, &body);
    jsont_write(&w, NULL, template, values, sizeof values / sizeof *values);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = kube_create(r->client, ref, body.data, NULL, err);
    buf_deinit(&body);
    return rc;
}

enum err_code kube_event_post(struct kube_recorder *r, const struct kube_event *event,
                              struct err *err)
{
    const struct kube_subject *s = &event->subject;
    int64_t now_ms = clock_now_ms();
    uint64_t subject =
        hash_add(hash_add(hash_add(HASH_START, s->uid ? s->uid : ""), s->kind), s->name);
    uint64_t hash = hash_add(subject, event->is_warning ? "Warning" : "Normal");
    size_t n = strnlen(s->name, NAME_PREFIX_BYTES);
    char name[NAME_BYTES];
    struct kube_ref ref = {.resource = &kube_events,
                           .namespace = s->namespace ? s->namespace : "default",
                           .name = name};
    struct json *stored = NULL;
    char now[CLOCK_TEXT_BYTES];
    char body[128];
    enum err_code rc;

    if (!may_send(r, hash_add(subject, event->reason), now_ms))
        return err_set(err, ERR_LIMIT, "rate limited: events of %s %s with reason %s", s->kind,
                       s->name, event->reason);
    hash = hash_add(hash_add(hash, event->reason), event->message);
    while (n > 0 && strchr(".-", s->name[n - 1])) /* a dot must not follow these */
        n--;
    (void)snprintf(name, sizeof name, "%.*s.%016llx", (int)n, s->name, (unsigned long long)hash);
    rc = create(r, event, &ref, err);
    if (rc != ERR_CONFLICT)
        return rc;
    rc = kube_get(r->client, &ref, &stored, err); /* sent before: count it */
    clock_format(clock_wall_ms(), now);
    (void)snprintf(body, sizeof body, "{\"count\":%lld,\"lastTimestamp\":\"%s\"}",
                   (long long)json_i64(json_get(stored, "count"), 1) + 1, now);
    json_free(stored);
    if (rc == ERR_OK)
        rc = kube_merge(r->client, &ref, body, NULL, err);
    return rc;
}
