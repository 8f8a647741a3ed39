#include "run/apply.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/manifest.h"
#include "run/parse.h"
#include "run/secret.h"

const struct kube_resource apply_skyjobs = {NAMES_SKYJOBS, true};

/* NULL: gone meanwhile. */
static struct store_job *job_of(const struct apply *a, const struct observed *seen)
{
    char key[QUEUE_KEY_BYTES];

    store_key(seen->namespace, seen->name, key);
    return store_find_job(a->store, key);
}

static void touch_job(struct apply *a, const struct observed *seen)
{
    char key[QUEUE_KEY_BYTES];

    store_key(seen->namespace, seen->name, key);
    if (a->store->listener.on_touch)
        a->store->listener.on_touch(a->store->listener.ctx, key);
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

static enum err_code delete_object(struct apply *a, const struct kube_ref *ref, const char *uid,
                                   struct err *err)
{
    struct kube_delete how = {.uid = uid, .grace_seconds = -1};
    enum err_code rc = kube_delete(a->client, ref, &how, err);

    if (rc == ERR_NOT_FOUND || rc == ERR_CONFLICT) /* gone, or another one by now */
        return ERR_OK;
    if (rc == ERR_OK)
        LOG(LOG_INFO, "deleted", LOG_S("kind", ref->resource->plural), LOG_S("name", ref->name));
    return rc;
}

/* --- creating --- */

typedef enum err_code change_fn(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err);

struct creation {
    struct kube_ref ref;
    struct map *known;   /* where the store keeps such objects; NULL: it keeps none, or no list */
    change_fn *change;   /* how it takes one in; NULL: it does not */
    struct seen_pod pod; /* of a pod: what it is to be */
};

/* Into the store, unless the watch was faster. */
static enum err_code take_in(struct apply *a, const struct observed *seen, const struct creation *c,
                             const struct json *object, struct err *err)
{
    const char *uid = json_string(json_path(object, "metadata.uid"), "");
    char key[QUEUE_KEY_BYTES];
    bool is_known;
    enum err_code rc = ERR_OK;

    store_key(seen->namespace, c->ref.name, key);
    is_known = c->known && map_get(c->known, key);
    if (c->known == &a->store->plans) {
        const struct store_plan *plan = map_get(c->known, key);

        is_known = plan && !plan->is_lost;
    }
    if (c->change && !is_known)
        rc = c->change(a->store, KUBE_ADDED, object, err);
    if (rc == ERR_OK && c->ref.resource == &kube_pods)
        store_trust_pod(a->store, &c->ref, uid, c->pod.image_asked);
    return rc;
}

/* Labels and owner are not enough for a pod, which may end the job: it must be in every respect
 * what we were about to make. */
static bool is_as_made(const struct json *object, const struct buf *body)
{
    struct json *made = NULL;
    bool is_same = json_parse(buf_text(body), body->len, &made, NULL) == ERR_OK &&
                   parse_is_as_made(object, made);

    json_free(made);
    return is_same;
}

/* A pod that is not the one we would make has its name. A stage gets another name in the next
 * attempt. Others cannot: one that claims to be ours, such as that of an older operator, makes
 * way for the right one. */
static enum err_code refuse(struct apply *a, const struct observed *seen, const struct creation *c,
                            const struct json *object, bool is_owned, struct err *err)
{
    struct seen_pod due = c->pod;
    struct action event = {.reason = "NameTaken", .is_warning = true};

    memcpy(due.name, c->ref.name, sizeof due.name);
    (void)snprintf(due.uid, sizeof due.uid, "%s",
                   json_string(json_path(object, "metadata.uid"), ""));
    if (due.role == POD_STAGE || !is_owned)
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
    bool is_owned;
    enum err_code rc = kube_get(a->client, &c->ref, &object, err);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? err_wrap(err, ERR_CONFLICT, "deleted meanwhile") : rc;
    is_owned = parse_owner(object, uid, key) && strcmp(uid, seen->uid) == 0;
    if (c->ref.resource == &kube_pods && !(is_owned && is_as_made(object, body)))
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
 * an attempt also when we have it, as they cannot mount a Secret that was deleted. */
static enum err_code ensure_secret(struct apply *a, const struct observed *seen, bool for_pods,
                                   struct err *err)
{
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    char name[NAMES_BYTES];
    struct creation c = {
        .ref = {.resource = &kube_secrets, .namespace = seen->namespace, .name = name},
        .change = secret_take};
    struct store_job *job;
    enum err_code rc;

    job = job_of(a, seen);
    if (!job || (job->has_secret && (!for_pods || job->secret_attempt == seen->status.attempt)))
        return ERR_OK;
    names_key(seen->name, name);
    if (!for_pods && adopt(a, seen, &c, &body, err) == ERR_OK)
        return ERR_OK; /* there are pods, so this is a new operator and the Secret is there */
    rc = secret_write(seen, &body, err);
    if (rc == ERR_OK)
        rc = create(a, seen, &c, &body, err);
    job = job_of(a, seen);
    if (rc == ERR_OK && job)
        job->secret_attempt = seen->status.attempt;
    if (body.data)
        OPENSSL_cleanse(body.data, body.len);
    buf_deinit(&body);
    return rc;
}

static enum err_code create_for(struct apply *a, const struct observed *seen,
                                const struct decision *d, const struct action *action,
                                struct err *err)
{
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    char name[NAMES_BYTES];
    struct creation c = {
        .ref = {.resource = &kube_config_maps, .namespace = seen->namespace, .name = name}};
    enum err_code rc = ERR_OK;

    if (action->kind == ACTION_CREATE_PLAN) {
        c.known = &a->store->plans;
        c.change = store_change_plan;
        names_plan(seen->name, d->plan.attempt, name);
        rc = manifest_plan(seen, &d->plan, &body, err);
    } else if (action->kind == ACTION_CREATE_PROBE_SPEC) {
        names_probe_spec(seen->name, name);
        rc = manifest_probe_spec(seen, &body, err);
    } else {
        c.ref.resource = &kube_pods;
        c.known = &a->store->pods;
        c.change = store_change_pod;
        rc = ensure_secret(a, seen, true, err);
        if (rc != ERR_OK)
            return rc;
        c.pod.image_asked = action->image;
        if (action->kind == ACTION_CREATE_MODEL_POD) {
            c.pod.role = POD_MODEL;
            names_model_pod(seen->name, name);
            rc = manifest_model_pod(seen, &body, err);
        } else if (action->kind == ACTION_CREATE_PROBE_POD) {
            c.pod.role = POD_PROBE;
            memcpy(c.pod.node, action->node, sizeof c.pod.node);
            names_probe_pod(seen->name, action->node, name);
            rc = manifest_probe_pod(seen, action, &body, err);
        } else {
            c.pod.role = POD_STAGE;
            c.pod.stage = action->stage;
            c.pod.attempt = seen->plan.attempt;
            names_stage_pod(seen->name, action->stage, seen->plan.attempt, name);
            rc = manifest_stage_pod(seen, action->stage, &body, err);
        }
    }
    if (rc == ERR_OK)
        rc = create(a, seen, &c, &body, err);
    buf_deinit(&body);
    return rc;
}

/* Where it cannot be made the job trains without it, as it does where nothing enforces it; an Event
 * reports it, once. */
static enum err_code create_policy(struct apply *a, const struct observed *seen, struct err *err)
{
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    char name[NAMES_BYTES];
    struct creation c = {
        .ref = {.resource = &kube_policies, .namespace = seen->namespace, .name = name}};
    struct action event = {.reason = "NoNetworkPolicy", .is_warning = true};
    struct store_job *job;
    enum err_code rc;

    names_policy(seen->name, name);
    rc = manifest_policy(seen, &body, err);
    if (rc == ERR_OK)
        rc = create(a, seen, &c, &body, err);
    buf_deinit(&body);
    if (rc == ERR_OK || (err_is_transient(rc) && rc != ERR_CONFLICT))
        return rc;
    job = job_of(a, seen);
    if (!job || job->lacks_policy)
        return ERR_OK;
    job->lacks_policy = true;
    (void)snprintf(event.text, sizeof event.text,
                   "The job's pods have no NetworkPolicy, so others can reach their ports: %s",
                   err->text);
    post_event(a, seen, &event);
    return ERR_OK;
}

/* --- the other steps --- */

static enum err_code delete_plan(struct apply *a, const struct observed *seen,
                                 const struct action *action, struct err *err)
{
    char name[NAMES_BYTES];
    struct kube_ref ref = {
        .resource = &kube_config_maps, .namespace = seen->namespace, .name = name};

    names_plan(seen->name, action->attempt, name);
    return delete_object(a, &ref, action->uid, err);
}

/* Only later jobs profit: where the operator may not patch nodes, jobs still train. */
static void patch_node(struct apply *a, const struct observed *seen, const struct action *action)
{
    struct kube_ref ref = {.resource = &kube_nodes, .name = action->node};
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    struct json *object = NULL;
    struct err err;
    enum err_code rc = action->kind == ACTION_DOUBT_NODE
                           ? manifest_doubt_patch(seen, &body, &err)
                           : manifest_node_patch(seen, action, &body, &err);

    if (rc == ERR_OK)
        rc = kube_merge(a->client, &ref, buf_text(&body), &object, &err);
    if (rc == ERR_OK)
        rc = store_change_node(a->store, KUBE_MODIFIED, object, &err);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "node not annotated", LOG_S("node", action->node), LOG_S("error", err.text));
    json_free(object);
    buf_deinit(&body);
}

static void note_data(struct store_job *job, const struct json *object, const struct spec *spec)
{
    const char *name = spec->data.config_map;
    /* NULL: not needed; the model to start from may have the words. */
    const char *files[] = {spec_train_file(spec), spec_dev_file(spec),
                           spec->from.claim[0] ? NULL : SPEC_VOCAB_FILE};

    if (!object) {
        job->data = DATA_MISSING;
        (void)snprintf(job->data_problem, sizeof job->data_problem,
                       "There is no ConfigMap \"%.120s\" in the job's namespace", name);
    }
    for (int i = 0; i < 3 && job->data == DATA_PRESENT; i++) {
        if (!files[i] || json_get(json_get(object, "data"), files[i]) ||
            json_get(json_get(object, "binaryData"), files[i]))
            continue;
        job->data = DATA_MISSING;
        (void)snprintf(job->data_problem, sizeof job->data_problem,
                       "ConfigMap \"%.90s\" has no key \"%.90s\"", name, files[i]);
    }
}

/* NULL, and ERR_OK, when there is none. */
static enum err_code get_if_there(struct apply *a, const struct kube_ref *ref, struct json **out,
                                  struct err *err)
{
    enum err_code rc = kube_get(a->client, ref, out, err);

    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* What a job wants to mount. */
struct wanted_claim {
    const char *name; /* "": nothing */
    const char *field;
    bool is_data;
};

static enum err_code look_at_claim(struct apply *a, const struct observed *seen,
                                   const struct wanted_claim *wanted, struct store_job *job,
                                   struct err *err)
{
    struct kube_ref ref = {
        .resource = &kube_claims, .namespace = seen->namespace, .name = wanted->name};
    struct kube_ref to = {.resource = &kube_volumes};
    struct json *claim = NULL;
    struct json *volume = NULL;
    enum err_code rc = get_if_there(a, &ref, &claim, err);

    if (rc == ERR_OK && !claim) {
        job->data = DATA_NO_CLAIM;
        (void)snprintf(job->data_problem, sizeof job->data_problem,
                       "There is no PersistentVolumeClaim \"%.100s\" (%s) in the job's namespace",
                       wanted->name, wanted->field);
    }
    if (rc == ERR_OK && wanted->is_data)
        to.name = json_string(json_path(claim, "spec.volumeName"), NULL);
    if (rc == ERR_OK && to.name && *to.name)
        rc = get_if_there(a, &to, &volume, err);
    if (rc == ERR_OK && wanted->is_data)
        job->is_data_everywhere = parse_is_everywhere(claim, volume);
    json_free(claim);
    json_free(volume);
    return rc;
}

/* A cluster that does not let us see its volumes still trains: then lengths are a guess. */
static enum err_code look_at_claims(struct apply *a, const struct observed *seen,
                                    const struct spec *spec, struct store_job *job, struct err *err)
{
    const struct wanted_claim wanted[] = {
        {spec->data.source == SPEC_SOURCE_CLAIM ? spec->data.volume.claim : "",
         "spec.data.source.persistentVolumeClaim", true},
        {spec->from.claim, "spec.model.from.persistentVolumeClaim", false},
        {spec->output.claim, "spec.output.persistentVolumeClaim", false}};
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (wanted[i].name[0] == '\0' || rc != ERR_OK || job->data != DATA_PRESENT)
            continue;
        rc = look_at_claim(a, seen, &wanted[i], job, err);
        if (rc != ERR_DENIED)
            continue;
        LOG(LOG_WARN, "claim not checked", LOG_S("claim", wanted[i].name),
            LOG_S("error", err->text));
        rc = ERR_OK;
    }
    return rc;
}

static enum err_code read_data(struct apply *a, const struct observed *seen, struct err *err)
{
    const struct spec *spec = seen->spec;
    struct kube_ref map = {
        .resource = &kube_config_maps, .namespace = seen->namespace, .name = spec->data.config_map};
    struct store_job found = {.data = DATA_PRESENT};
    struct json *object = NULL;
    struct store_job *job;
    enum err_code rc = look_at_claims(a, seen, spec, &found, err);

    if (rc == ERR_OK && spec->data.source == SPEC_SOURCE_CONFIG_MAP && found.data == DATA_PRESENT) {
        rc = get_if_there(a, &map, &object, err);
        if (rc == ERR_OK)
            note_data(&found, object, spec);
        json_free(object);
    }
    if (rc != ERR_OK)
        return rc;
    job = job_of(a, seen);
    if (!job)
        return ERR_OK;
    job->data = found.data;
    job->is_data_everywhere = found.is_data_everywhere;
    memcpy(job->data_problem, found.data_problem, sizeof job->data_problem);
    job->data_checked_ms = clock_wall_ms();
    touch_job(a, seen);
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
    const char *reason = json_string(json_get(event, "reason"), "");
    const char *time = json_string(json_get(event, "lastTimestamp"), "");

    (void)err;
    if (strcmp(reason, "FailedScheduling") == 0 || strcmp(time, n->time) < 0)
        return ERR_OK;
    (void)snprintf(n->time, sizeof n->time, "%s", time);
    (void)snprintf(n->text, sizeof n->text, "%s: %s", reason,
                   json_string(json_get(event, "message"), ""));
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
    struct kube_ref pod = {
        .resource = &kube_pods, .namespace = seen->namespace, .name = action->name};
    enum err_code rc;

    switch (action->kind) {
    case ACTION_READ_DATA:
        return read_data(a, seen, err);
    case ACTION_CREATE_POLICY:
        return create_policy(a, seen, err);
    case ACTION_CREATE_PLAN:
    case ACTION_CREATE_STAGE_POD:
    case ACTION_CREATE_PROBE_SPEC:
    case ACTION_CREATE_PROBE_POD:
    case ACTION_CREATE_MODEL_POD:
        return create_for(a, seen, d, action, err);
    case ACTION_DELETE_PLAN:
        return delete_plan(a, seen, action, err);
    case ACTION_DELETE_POD:
        return delete_object(a, &pod, action->uid, err);
    case ACTION_LABEL_NODE:
    case ACTION_DOUBT_NODE:
        patch_node(a, seen, action);
        return ERR_OK;
    case ACTION_READ_EVENTS:
        return read_events(a, seen, action, err);
    case ACTION_POST_PEERS:
        rc = ensure_secret(a, seen, false, err);
        return rc == ERR_OK ? workers_post_peers(a->workers, seen, action->stage, err) : rc;
    case ACTION_POST_PROBE_PEERS:
        rc = ensure_secret(a, seen, false, err);
        return rc == ERR_OK ? workers_post_probe_peers(a->workers, seen, action->name, err) : rc;
    case ACTION_EVENT:
        post_event(a, seen, action);
        return ERR_OK;
    }
    return ERR_OK;
}

/* --- status --- */

static enum err_code status_text(const struct status *s, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    status_write(s, &w, NULL);
    return jsonw_finish(&w, err);
}

static enum err_code is_same_status(const struct status *a, const struct status *b, bool *out,
                                    struct err *err)
{
    struct buf text_a = {.max = STATUS_TEXT_MAX_BYTES};
    struct buf text_b = {.max = STATUS_TEXT_MAX_BYTES};
    enum err_code rc = status_text(a, &text_a, err);

    if (rc == ERR_OK)
        rc = status_text(b, &text_b, err);
    *out = strcmp(buf_text(&text_a), buf_text(&text_b)) == 0;
    buf_deinit(&text_a);
    buf_deinit(&text_b);
    return rc;
}

static enum err_code write_status(struct apply *a, const struct observed *seen,
                                  const struct status *status, const char *version, struct err *err)
{
    struct kube_ref ref = {.resource = &apply_skyjobs,
                           .namespace = seen->namespace,
                           .name = seen->name,
                           .subresource = "status"};
    struct buf body = {.max = MANIFEST_MAX_BYTES};
    struct json *object = NULL;
    struct store_job *job;
    bool is_same = false;
    enum err_code rc = is_same_status(&seen->status, status, &is_same, err);

    if (rc != ERR_OK || is_same)
        return rc;
    rc = manifest_status_patch(status, version, &body, err);
    if (rc == ERR_OK)
        rc = kube_merge(a->client, &ref, buf_text(&body), &object, err);
    job = job_of(a, seen);
    /* Unless the watch has brought something newer meanwhile. */
    if (rc == ERR_OK && job && strcmp(job->version, version) == 0)
        rc = store_change_job(a->store, KUBE_MODIFIED, object, err);
    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK; /* deleted, as the watch will report */
    json_free(object);
    buf_deinit(&body);
    return rc;
}

/* For the next decision, which shows it. That the API server is busy passes by itself. */
static void note_problem(struct apply *a, const struct observed *seen, enum err_code code,
                         const struct err *err)
{
    struct store_job *job;

    job = job_of(a, seen);
    if (!job || code == ERR_AGAIN)
        return;
    if (code != ERR_OK) {
        job->problem.n_in_a_row += job->problem.n_in_a_row < DECIDE_PROBLEM_MIN;
        job->problem.code = code;
        (void)snprintf(job->problem.text, sizeof job->problem.text, "%s", err->text);
    } else if (job->problem.n_in_a_row > 0) {
        job->problem = (struct seen_problem){.n_in_a_row = 0};
        touch_job(a, seen); /* the status still shows it */
    }
}

/* Returns the first error. After one that is worth a retry only Events are still sent, unless the
 * API server does not answer at all. */
static enum err_code take_steps(struct apply *a, const struct observed *seen,
                                const struct decision *d, struct err *err)
{
    enum err_code failed = ERR_OK;

    for (int i = 0; i < d->n_actions && failed != ERR_TIMEOUT; i++) {
        struct err step_err = {0};
        enum err_code rc = ERR_OK;

        if (!err_is_transient(failed) || d->actions[i].kind == ACTION_EVENT)
            rc = take_step(a, seen, d, &d->actions[i], &step_err);
        if (rc != ERR_OK && failed == ERR_OK)
            failed = err_set(err, rc, "%s", step_err.text);
    }
    return failed;
}

enum err_code apply_decision(struct apply *a, const struct observed *seen, const struct decision *d,
                             const char *version, struct err *err)
{
    struct err failure = {0};
    enum err_code failed = take_steps(a, seen, d, &failure);
    enum err_code rc = ERR_OK;

    note_problem(a, seen, failed, &failure);
    if (failed == ERR_OK && d->ask_leader_ms >= 0) {
        rc = ensure_secret(a, seen, false, err);
        if (rc == ERR_OK)
            rc = workers_ask_status(a->workers, seen, d->ask_leader_ms, err);
    }
    /* No step depends on the status, so it may be written when one has failed; at the first time
     * it is not, as that is often over in a moment. */
    if (rc == ERR_OK && (!err_is_transient(failed) || seen->problem.n_in_a_row > 0))
        rc = write_status(a, seen, &d->status, version, err);
    return failed == ERR_OK ? rc : err_set(err, failed, "%s", failure.text);
}
