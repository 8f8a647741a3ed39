#include "run/apply.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "control/manifest.h"
#include "kube/secret.h"
#include "run/certificates.h"
#include "run/parse.h"

const struct kube_resource apply_skyjobs = {NAMES_SKYJOBS, true};

/* `name` is borrowed. */
static struct kube_ref ref_of(const struct kube_resource *resource, const struct observed *seen,
                              const char *name)
{
    return (struct kube_ref){.resource = resource, .namespace = seen->namespace, .name = name};
}

static void enqueue_job(struct apply *a, const struct observed *seen)
{
    char key[QUEUE_KEY_BYTES];

    store_key(seen->namespace, seen->name, key);
    store_enqueue(a->store, key, 0);
}

/* --- events --- */

static void post_event(struct apply *a, const struct observed *seen, const struct action *event)
{
    struct kube_event e = {.subject = {.api_version = NAMES_GROUP "/" NAMES_VERSION,
                                       .kind = "SkyJob",
                                       .namespace = seen->namespace,
                                       .name = seen->name,
                                       .uid = seen->uid},
                           .reason = event->reason,
                           .message = event->text,
                           .is_warning = event->is_warning};
    struct err err;

    LOG(event->is_warning ? LOG_WARN : LOG_INFO, "event", LOG_S("namespace", seen->namespace),
        LOG_S("job", seen->name), LOG_S("reason", event->reason), LOG_S("text", event->text));
    if (kube_event_post(a->recorder, &e, &err) != ERR_OK)
        LOG(LOG_WARN, "event not recorded", LOG_S("job", seen->name), LOG_S("error", err.text));
}

/* --- deleting --- */

/* A pod of ours that is deleted is not needed any more, and is not to hold its node for the grace
 * period that it has for being drained. */
static enum err_code delete_object(struct apply *a, const struct kube_ref *ref, const char *uid,
                                   struct err *err)
{
    bool is_pod = ref->resource == &kube_pods;
    struct kube_delete how = {.uid = uid, .grace_seconds = is_pod ? DECIDE_DELETE_GRACE_S : -1};
    enum err_code rc = kube_delete(a->client, ref, &how, err);

    if (rc == ERR_NOT_FOUND || rc == ERR_CONFLICT) /* gone, or another one by now */
        return ERR_OK;
    if (rc == ERR_OK)
        LOG(LOG_INFO, "deleted", LOG_S("kind", ref->resource->plural), LOG_S("name", ref->name));
    return rc;
}

/* Where there is no Kueue any more, or no right to this, the pods are its administrator's. */
static enum err_code delete_group(struct apply *a, const char *namespace, const char *job,
                                  const char *uid, int group, struct err *err)
{
    static const struct kube_resource workloads = {KUEUE_WORKLOADS, true};
    char name[NAMES_BYTES];
    struct kube_ref ref = {.resource = &workloads, .namespace = namespace, .name = name};
    enum err_code rc;

    names_group(job, uid, group, name);
    rc = delete_object(a, &ref, NULL, err);
    if (rc != ERR_DENIED)
        return rc;
    LOG(LOG_WARN, "pods of a queue are not released", LOG_S("job", job), LOG_S("error", err->text));
    return ERR_OK;
}

/* Of a job that is gone, a pod that Kueue holds for a replacement that will not come. */
static const struct store_own *find_held(const struct store *s, const char *key)
{
    const struct store_job *job = store_find_job(s, key);
    const struct store_own *own = store_pods(s, key);

    while (own && (!group_holds(&own->seen) || (job && strcmp(job->uid, own->job_uid) == 0)))
        own = store_next_pod(own);
    return own;
}

enum err_code apply_orphans(struct apply *a, const char *key, struct err *err)
{
    char namespace[OBSERVED_WORD_BYTES];
    const struct store_own *held;
    struct store_own *own;
    enum err_code rc = ERR_OK;

    (void)snprintf(namespace, sizeof namespace, "%.*s", (int)strcspn(key, "/"), key);
    workers_order_ends(a->workers, key);
    while (rc == ERR_OK && (own = store_find_orphan(a->store, key)) != NULL) {
        struct seen_pod pod = own->seen;
        struct kube_ref ref = {.resource = &kube_pods, .namespace = namespace, .name = pod.name};

        own->is_orphan = false; /* it may be gone with the next call */
        rc = delete_object(a, &ref, pod.uid, err);
        own = rc == ERR_OK ? NULL : store_find_own(a->store, namespace, pod.name, pod.uid);
        if (own)
            own->is_orphan = true;
    }
    held = rc == ERR_OK ? find_held(a->store, key) : NULL;
    return !held ? rc
                 : delete_group(a, namespace, strchr(key, '/') + 1, held->job_uid, held->seen.group,
                                err);
}

/* --- the key --- */

enum err_code secret_write(const struct observed *seen, const struct hmac_key *known,
                           struct buf *out, struct err *err)
{
    char text[HMAC_TEXT_BYTES];
    struct hmac_key key;
    enum err_code rc = ERR_OK;

    if (known)
        key = *known;
    else
        rc = hmac_key_make(&key, err);
    if (rc != ERR_OK)
        return rc;
    hmac_to_text(key.bytes, text);
    rc = manifest_key(seen, text, out, err);
    OPENSSL_cleanse(&key, sizeof key);
    OPENSSL_cleanse(text, sizeof text);
    return rc;
}

enum err_code secret_take(struct store *s, const struct json *object, struct err *err)
{
    struct buf text = {.max = HMAC_TEXT_BYTES + 2};
    char uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    struct store_job *job;
    struct hmac_key key;
    enum err_code rc;

    if (!parse_owner(object, uid, job_key))
        return err_set(err, ERR_INVALID, "not a Secret of a SkyJob");
    job = store_find_job(s, job_key);
    if (!job || strcmp(job->uid, uid) != 0)
        return ERR_OK; /* gone meanwhile */
    rc = kube_secret_text(object, MANIFEST_KEY_KEY, &text, err);
    if (rc == ERR_OK)
        rc = hmac_key_parse(text.data, text.len, &key, err);
    if (text.data)
        OPENSSL_cleanse(text.data, text.cap);
    buf_deinit(&text);
    if (rc != ERR_OK)
        return err_wrap(err, rc == ERR_NO_MEMORY ? rc : ERR_INVALID,
                        "Secret %s is invalid: delete it and a new one is created",
                        json_text(object, "metadata.name"));
    job->secret = key;
    job->has_secret = true;
    return ERR_OK;
}

/* --- creating --- */

struct creation {
    struct kube_ref ref; /* refers to pod.name */
    bool is_revision;
    struct seen_pod pod; /* what a pod is to be; of other objects only the name */
};

/* Into the store, unless the watch was faster. */
static enum err_code take_in(struct apply *a, const struct observed *seen, const struct creation *c,
                             const struct json *object, struct err *err)
{
    const struct store_revision *revision;
    char key[QUEUE_KEY_BYTES];
    enum err_code rc = ERR_OK;

    store_key(seen->namespace, c->ref.name, key);
    if (c->ref.resource == &kube_secrets)
        return secret_take(a->store, object, err);
    if (c->is_revision) {
        revision = map_get(&a->store->revisions, key);
        return revision && !revision->is_lost
                   ? ERR_OK
                   : store_change(a->store, STORE_REVISIONS, KUBE_ADDED, object, err);
    }
    if (c->ref.resource != &kube_pods)
        return ERR_OK;
    if (!map_get(&a->store->pods, key))
        rc = store_change(a->store, STORE_PODS, KUBE_ADDED, object, err);
    if (rc == ERR_OK)
        store_trust_pod(a->store, &c->ref, json_text(object, "metadata.uid"), c->pod.image_asked);
    return rc;
}

/* A pod that is not the one we would make has its name. A worker gets another name in the next
 * revision. Others cannot: one that claims to be ours, such as that of an older operator, makes
 * way for the right one. */
static enum err_code refuse(struct apply *a, const struct observed *seen, const struct creation *c,
                            const struct json *object, bool is_owned, struct err *err)
{
    struct seen_pod due = c->pod;
    struct action event = {.reason = "NameTaken", .is_warning = true};

    JSON_COPY(due.uid, json_path(object, "metadata.uid"));
    if (due.role == POD_WORKER || !is_owned)
        return store_refuse_pod(a->store, object, seen, &due, err);
    if (json_path(object, "metadata.deletionTimestamp"))
        return ERR_OK; /* the watch reports its end */
    (void)snprintf(event.text, sizeof event.text,
                   "Pod %s is not the %s that the operator would create. It is deleted and created "
                   "anew.",
                   c->ref.name, due.role == POD_PROBE ? "probe" : "reader of the model");
    post_event(a, seen, &event);
    return delete_object(a, &c->ref, due.uid, err);
}

/* The name is taken: fine if by ourselves, from before a restart. */
static enum err_code adopt(struct apply *a, const struct observed *seen, const struct creation *c,
                           const struct buf *body, struct err *err)
{
    struct json *object = NULL;
    char uid[OBSERVED_UID_BYTES];
    char key[QUEUE_KEY_BYTES];
    struct json *made = NULL;
    bool is_owned;
    bool is_as_made = true;
    enum err_code rc = kube_get(a->client, &c->ref, &object, err);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? err_wrap(err, ERR_CONFLICT, "deleted meanwhile") : rc;
    is_owned = parse_owner(object, uid, key) && strcmp(uid, seen->uid) == 0;
    /* Labels and owner are not enough for a pod, which may end the job: it must be in every respect
     * what we were about to make. */
    if (c->ref.resource == &kube_pods)
        is_as_made = is_owned && json_parse(buf_text(body), body->len, &made, NULL) == ERR_OK &&
                     parse_is_as_made(object, made);
    json_free(made);
    if (!is_as_made)
        rc = refuse(a, seen, c, object, is_owned, err);
    else if (!is_owned)
        rc = err_set(err, ERR_CONFLICT, "%s %s/%s exists and does not belong to this SkyJob",
                     c->ref.resource->plural, seen->namespace, c->ref.name);
    else
        rc = take_in(a, seen, c, object, err);
    json_free(object);
    return rc;
}

static enum err_code create(struct apply *a, const struct observed *seen, const struct creation *c,
                            const struct buf *body, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc = kube_create(a->client, &c->ref, buf_text(body), &object, err);

    if (rc == ERR_CONFLICT)
        return adopt(a, seen, c, body, err);
    if (rc == ERR_OK) {
        LOG(LOG_INFO, "created", LOG_S("kind", c->ref.resource->plural), LOG_S("job", seen->name),
            LOG_S("name", c->ref.name));
        rc = take_in(a, seen, c, object, err);
    }
    json_free(object);
    return rc;
}

/* Before anything that needs the job's key: make it, or after a restart find it. Before the pods of
 * a revision also when we have it, as they cannot mount a Secret that was deleted: then it is made
 * again with the key that the other workers have. */
static enum err_code ensure_secret(struct apply *a, const struct observed *seen, bool for_pods,
                                   struct err *err)
{
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    struct creation c = {.is_revision = false};
    struct store_job *job = store_job_of(a->store, seen);
    enum err_code rc;

    if (!job || (job->has_secret && (!for_pods || job->secret_revision == seen->status.revision)))
        return ERR_OK;
    c.ref = ref_of(&kube_secrets, seen, c.pod.name);
    names_child(seen->name, NAMES_KEY, c.pod.name);
    if (!for_pods && adopt(a, seen, &c, &body, err) == ERR_OK)
        return ERR_OK; /* there are pods, so this is a new operator and the Secret is there */
    rc = secret_write(seen, job->has_secret ? &job->secret : NULL, &body, err);
    if (rc == ERR_OK)
        rc = create(a, seen, &c, &body, err);
    job = store_job_of(a->store, seen);
    if (rc == ERR_OK && job)
        job->secret_revision = seen->status.revision;
    if (body.data)
        OPENSSL_cleanse(body.data, body.len);
    buf_deinit(&body);
    return rc;
}

/* Where a NetworkPolicy cannot be made the job trains without it, as it does where nothing enforces
 * it; an Event reports it, once. */
static enum err_code do_without_policy(struct apply *a, const struct observed *seen,
                                       enum err_code code, const struct err *err)
{
    struct action event = {.reason = "NoNetworkPolicy", .is_warning = true};
    struct store_job *job = store_job_of(a->store, seen);

    if (code == ERR_OK || (err_is_transient(code) && code != ERR_CONFLICT))
        return code;
    if (!job || job->lacks_policy)
        return ERR_OK;
    job->lacks_policy = true;
    (void)snprintf(event.text, sizeof event.text,
                   "The job's pods have no NetworkPolicy, so others can reach their ports: %s",
                   err->text);
    post_event(a, seen, &event);
    return ERR_OK;
}

static enum err_code create_for(struct apply *a, const struct observed *seen,
                                const struct decision *d, const struct action *action,
                                struct err *err)
{
    enum action_kind kind = action->kind;
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    const struct plan_worker *worker = &seen->revision.plan.workers[action->stage];
    bool is_substitute = kind == ACTION_CREATE_SUBSTITUTE;
    bool is_worker = kind == ACTION_CREATE_WORKER_POD || is_substitute;
    struct creation c = {.is_revision =
                             kind == ACTION_CREATE_REVISION || kind == ACTION_RESTORE_REVISION,
                         .pod = {.role = kind == ACTION_CREATE_PROBE_POD   ? POD_PROBE
                                         : kind == ACTION_CREATE_MODEL_POD ? POD_MODEL
                                                                           : POD_WORKER,
                                 .slot = is_substitute ? action->slot
                                         : is_worker   ? worker->slot
                                                       : 0,
                                 .incarnation = is_substitute ? seen->revision.plan.revision
                                                : is_worker   ? worker->incarnation
                                                              : 0,
                                 .image_asked = action->image}};
    enum err_code rc = ERR_OK;

    memcpy(c.pod.node, action->node, sizeof c.pod.node);
    c.ref =
        ref_of(kind == ACTION_CREATE_POLICY ? &kube_policies : &kube_config_maps, seen, c.pod.name);
    if (is_worker || c.pod.role != POD_WORKER) {
        c.ref.resource = &kube_pods;
        rc = ensure_secret(a, seen, true, err);
        if (rc == ERR_OK) /* for all pods at once */
            rc = certificates_ensure(a->client, a->issuer, a->store, seen, d, err);
    }
    if (rc == ERR_OK)
        rc = manifest_object(seen, action, &d->revision, c.pod.name, &body, err);
    if (rc == ERR_OK)
        rc = create(a, seen, &c, &body, err);
    buf_deinit(&body);
    return kind == ACTION_CREATE_POLICY ? do_without_policy(a, seen, rc, err) : rc;
}

/* --- the other steps --- */

/* Only later jobs profit: where the operator may not patch nodes, jobs still train. */
static void patch_node(struct apply *a, const struct observed *seen, const struct action *action)
{
    struct kube_ref ref = {.resource = &kube_nodes, .name = action->node};
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    struct json *object = NULL;
    struct err err;
    enum err_code rc = action->kind == ACTION_INVALIDATE_PROBE
                           ? manifest_contradicted_patch(seen, &body, &err)
                           : manifest_node_patch(seen, action, &body, &err);

    if (rc == ERR_OK)
        rc = kube_merge(a->client, &ref, buf_text(&body), &object, &err);
    if (rc == ERR_OK)
        rc = store_change(a->store, STORE_NODES, KUBE_MODIFIED, object, &err);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "node not annotated", LOG_S("node", action->node), LOG_S("error", err.text));
    json_free(object);
    buf_deinit(&body);
}

static void check_keys(const struct json *map, const struct spec *spec, struct seen_data *out)
{
    const char *name = spec->data.config_map;
    const char *keys[SPEC_FILES_MAX];
    int n = spec_data_files(spec, keys);

    if (!map) {
        out->state = DATA_MISSING;
        (void)snprintf(out->problem, sizeof out->problem,
                       "There is no ConfigMap \"%.120s\" in the job's namespace", name);
    }
    for (int i = 0; i < n && out->state == DATA_PRESENT; i++) {
        if (json_get(json_get(map, "data"), keys[i]) ||
            json_get(json_get(map, "binaryData"), keys[i]))
            continue;
        out->state = DATA_MISSING;
        (void)snprintf(out->problem, sizeof out->problem,
                       "ConfigMap \"%.90s\" has no key \"%.90s\"", name, keys[i]);
    }
}

/* NULL, and ERR_OK, when there is none. */
static enum err_code get_if_there(struct apply *a, const struct kube_ref *ref, struct json **out,
                                  struct err *err)
{
    enum err_code rc = kube_get(a->client, ref, out, err);

    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err_code read_data(struct apply *a, const struct observed *seen, struct err *err)
{
    const struct spec *spec = seen->spec;
    const struct {
        const char *name; /* "": none */
        const char *field;
    } claims[] = {{spec->data.source == SPEC_SOURCE_CLAIM ? spec->data.volume.claim : "",
                   "spec.data.source.persistentVolumeClaim"},
                  {spec->from.claim, "spec.model.from.persistentVolumeClaim"},
                  {spec->checkpoint.volume.claim, "spec.checkpoint.store.persistentVolumeClaim"},
                  {spec->output.claim, "spec.output.persistentVolumeClaim"}};
    struct kube_ref map = ref_of(&kube_config_maps, seen, spec->data.config_map);
    struct seen_data found = {.state = DATA_PRESENT};
    struct json *object = NULL;
    struct store_job *job;
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        struct kube_ref ref = ref_of(&kube_claims, seen, claims[i].name);
        struct kube_ref to = {.resource = &kube_volumes};
        struct json *claim = NULL;
        struct json *volume = NULL;

        if (claims[i].name[0] == '\0' || rc != ERR_OK || found.state != DATA_PRESENT)
            continue;
        rc = get_if_there(a, &ref, &claim, err);
        if (rc == ERR_OK && !claim) {
            found.state = DATA_NO_CLAIM;
            (void)snprintf(
                found.problem, sizeof found.problem,
                "There is no PersistentVolumeClaim \"%.100s\" (%s) in the job's namespace",
                claims[i].name, claims[i].field);
        }
        to.name = json_text(claim, "spec.volumeName");
        if (rc == ERR_OK && i == 0 && *to.name)
            rc = get_if_there(a, &to, &volume, err);
        if (rc == ERR_OK && i == 0)
            found.is_everywhere = parse_is_everywhere(claim, volume);
        json_free(claim);
        json_free(volume);
        if (rc != ERR_DENIED)
            continue;
        /* A cluster that hides its volumes from us still trains: then lengths are a guess. */
        LOG(LOG_WARN, "claim not checked", LOG_S("claim", claims[i].name),
            LOG_S("error", err->text));
        rc = ERR_OK;
    }
    if (rc == ERR_OK && spec->data.source == SPEC_SOURCE_CONFIG_MAP &&
        found.state == DATA_PRESENT) {
        rc = get_if_there(a, &map, &object, err);
        if (rc == ERR_OK)
            check_keys(object, spec, &found);
        json_free(object);
    }
    if (rc != ERR_OK)
        return rc;
    job = store_job_of(a->store, seen);
    if (!job)
        return ERR_OK;
    job->data = found;
    job->data.checked_ms = clock_wall_ms();
    enqueue_job(a, seen);
    return ERR_OK;
}

/* The newest warning of a list, as "reason: message". */
struct newest {
    char time[CLOCK_TEXT_BYTES];
    char text[OBSERVED_TEXT_BYTES];
};

static enum err_code take_event(void *ctx, const struct json *event, struct err *err)
{
    struct newest *n = ctx;
    const char *reason = json_text(event, "reason");
    const char *time = json_text(event, "lastTimestamp");

    (void)err;
    if (strcmp(reason, "FailedScheduling") == 0 || strcmp(time, n->time) < 0)
        return ERR_OK;
    (void)snprintf(n->time, sizeof n->time, "%s", time);
    (void)snprintf(n->text, sizeof n->text, "%s: %s", reason, json_text(event, "message"));
    return ERR_OK;
}

static enum err_code read_events(struct apply *a, const struct observed *seen,
                                 const struct action *action, struct err *err)
{
    char selector[OBSERVED_UID_BYTES + 64];
    struct kube_ref ref = {
        .resource = &kube_events, .namespace = seen->namespace, .field_selector = selector};
    struct newest newest = {.time = ""};
    struct store_own *own;
    enum err_code rc;

    (void)snprintf(selector, sizeof selector, "involvedObject.uid=%s,type=Warning", action->uid);
    rc = kube_list(a->client, &ref, (struct kube_lister){.ctx = &newest, .on_item = take_event},
                   err);
    if (rc != ERR_OK && rc != ERR_DENIED) /* without that right, the pod's status has to do */
        return rc;
    own = store_find_own(a->store, seen->namespace, action->name, action->uid);
    if (own) {
        memcpy(own->event, newest.text, sizeof own->event);
        own->seen.events_ms = seen->now_ms;
    }
    return ERR_OK;
}

static enum err_code take_step(struct apply *a, const struct observed *seen,
                               const struct decision *d, const struct action *action,
                               struct err *err)
{
    char revision_name[NAMES_BYTES];
    struct kube_ref pod = ref_of(&kube_pods, seen, action->name);
    struct kube_ref job = ref_of(&apply_skyjobs, seen, seen->name);
    struct kube_ref revision = ref_of(&kube_config_maps, seen, revision_name);
    enum err_code rc;

    switch (action->kind) {
    case ACTION_READ_DATA:
        return read_data(a, seen, err);
    case ACTION_CREATE_POLICY:
    case ACTION_CREATE_REVISION:
    case ACTION_RESTORE_REVISION:
    case ACTION_CREATE_WORKER_POD:
    case ACTION_CREATE_SUBSTITUTE:
    case ACTION_CREATE_PROBE_SPEC:
    case ACTION_CREATE_PROBE_POD:
    case ACTION_CREATE_MODEL_POD:
        return create_for(a, seen, d, action, err);
    case ACTION_DELETE_REVISION:
        names_revision(seen->name, seen->uid, action->revision, revision_name);
        return delete_object(a, &revision, action->uid, err);
    case ACTION_DELETE_POD:
        return delete_object(a, &pod, action->uid, err);
    case ACTION_ANNOTATE_NODE:
    case ACTION_INVALIDATE_PROBE:
        patch_node(a, seen, action);
        return ERR_OK;
    case ACTION_READ_EVENTS:
        return read_events(a, seen, action, err);
    case ACTION_POST_REVISION:
    case ACTION_HALT:
    case ACTION_ORDER_CHECKPOINT:
    case ACTION_POST_PROBE_PEERS:
        rc = ensure_secret(a, seen, false, err);
        if (rc != ERR_OK)
            return rc;
        return action->kind == ACTION_POST_REVISION
                   ? workers_post_revision(a->workers, seen, action->name, err)
               : action->kind == ACTION_HALT
                   ? workers_post_halt(a->workers, seen, action->name, action->revision, err)
               : action->kind == ACTION_ORDER_CHECKPOINT
                   ? workers_order_checkpoint(a->workers, seen, action->name, action->order, err)
                   : workers_post_probe_peers(a->workers, seen, action->name, err);
    case ACTION_DELETE_GROUP:
        return delete_group(a, seen->namespace, seen->name, seen->uid, action->group, err);
    case ACTION_DELETE_JOB:
        return delete_object(a, &job, seen->uid, err);
    case ACTION_EVENT:
        post_event(a, seen, action);
        return ERR_OK;
    }
    return ERR_OK;
}

/* --- status --- */

static uint64_t hash_of(const struct status *status)
{
    return hash_bytes(HASH_START, status, STATUS_BYTES(status->n_stages));
}

/* Most decisions change nothing. Documents are compared once for each version, which takes long:
 * numbers are rounded in them, so a status that was read is rarely the same to the bit. */
static bool is_shown(const struct store_job *job, const struct observed *seen,
                     const struct status *status)
{
    return strcmp(job->shown_version, seen->version) == 0 && job->shown == hash_of(status);
}

static enum err_code write_status(struct apply *a, const struct observed *seen,
                                  const struct status *status, struct err *err)
{
    struct kube_ref ref = {.resource = &apply_skyjobs,
                           .namespace = seen->namespace,
                           .name = seen->name,
                           .subresource = "status"};
    struct buf before = {.max = MANIFEST_MAX_BYTES};
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    struct json *object = NULL;
    struct store_job *job = store_job_of(a->store, seen);
    enum err_code rc;

    if (job && is_shown(job, seen, status))
        return ERR_OK;
    rc = manifest_status_patch(&seen->status, seen->version, &before, err);
    if (rc == ERR_OK)
        rc = manifest_status_patch(status, seen->version, &body, err);
    if (rc == ERR_OK && strcmp(buf_text(&before), buf_text(&body)) != 0) {
        rc = kube_merge(a->client, &ref, buf_text(&body), &object, err);
        job = store_job_of(a->store, seen);
        /* Unless the watch has brought something newer meanwhile. */
        if (rc == ERR_OK && job && strcmp(job->version, seen->version) == 0)
            rc = store_change(a->store, STORE_JOBS, KUBE_MODIFIED, object, err);
        /* The watch will report that; until then the job is looked at less often. */
        if (rc == ERR_NOT_FOUND)
            rc = err_wrap(err, ERR_CONFLICT, "deleted meanwhile");
    } else if (rc == ERR_OK && job) {
        job->shown = hash_of(status);
        memcpy(job->shown_version, seen->version, sizeof job->shown_version);
    }
    json_free(object);
    buf_deinit(&before);
    buf_deinit(&body);
    return rc;
}

/* For the next decision, which shows it. That the API server is busy passes by itself. */
static void note_problem(struct apply *a, const struct observed *seen, enum err_code code,
                         const struct err *err)
{
    struct store_job *job = store_job_of(a->store, seen);

    if (!job || code == ERR_AGAIN)
        return;
    if (code != ERR_OK) {
        job->problem.n_in_a_row += job->problem.n_in_a_row < DECIDE_PROBLEM_MIN;
        job->problem.code = code;
        (void)snprintf(job->problem.text, sizeof job->problem.text, "%s", err->text);
    } else if (job->problem.n_in_a_row > 0) {
        job->problem = (struct seen_problem){.n_in_a_row = 0};
        enqueue_job(a, seen); /* the status still shows it */
    }
}

enum err_code apply_decision(struct apply *a, const struct observed *seen, const struct decision *d,
                             struct err *err)
{
    enum err_code failed = ERR_OK; /* the first error of a step */
    struct err failure = {0};
    enum err_code rc = ERR_OK;

    /* After one that is worth a retry only Events are still sent, unless the API server does not
     * answer at all. */
    for (int i = 0; i < d->n_actions && failed != ERR_TIMEOUT; i++) {
        struct err step_err = {0};

        if (err_is_transient(failed) && d->actions[i].kind != ACTION_EVENT)
            continue;
        rc = take_step(a, seen, d, &d->actions[i], &step_err);
        if (rc != ERR_OK && failed == ERR_OK)
            failed = err_set(&failure, rc, "%s", step_err.text);
    }
    rc = ERR_OK;
    if (failed == ERR_OK) { /* those of running pods may have to be renewed */
        rc = certificates_ensure(a->client, a->issuer, a->store, seen, d, &failure);
        failed = rc;
    }
    note_problem(a, seen, failed, &failure);
    rc = ERR_OK;
    if (failed == ERR_OK && (d->ask_leader_ms >= 0 || d->ask_reports_ms >= 0))
        rc = ensure_secret(a, seen, false, err);
    if (rc == ERR_OK && failed == ERR_OK && d->ask_leader_ms >= 0)
        rc = workers_ask_status(a->workers, seen, d->ask_leader_ms, err);
    if (rc == ERR_OK && failed == ERR_OK && d->ask_reports_ms >= 0)
        rc = workers_ask_reports(a->workers, seen, d->ask_reports_ms, err);
    /* No step depends on the status, so it may be written when one has failed; at the first time
     * it is not, as that is often over in a moment. */
    if (rc == ERR_OK && (!err_is_transient(failed) || seen->problem.n_in_a_row > 0))
        rc = write_status(a, seen, &d->status, err);
    return failed == ERR_OK ? rc : err_set(err, failed, "%s", failure.text);
}
