#include "run/store.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/parse.h"

void store_key(const char *namespace, const char *name, char out[static QUEUE_KEY_BYTES])
{
    (void)snprintf(out, QUEUE_KEY_BYTES, "%s/%s", namespace, name);
}

/* --- freeing --- */

static void free_job(void *value)
{
    struct store_job *j = value;

    if (!j)
        return;
    parse_drop_job(j);
    OPENSSL_cleanse(&j->secret, sizeof j->secret);
    free(j);
}

static void free_own(struct store_own *own)
{
    if (!own)
        return;
    store_drop_key(own);
    free(own->calls.report);
    free(own);
}

static void free_pod(void *value)
{
    struct store_pod *p = value;

    if (!p)
        return;
    free(p->node);
    free_own(p->own);
    free(p);
}

static void drop_document(struct store_revision *r)
{
    free(r->parsed);
    r->parsed = NULL;
    buf_deinit(&r->text);
}

static void free_revision(void *value)
{
    struct store_revision *r = value;

    if (!r)
        return;
    drop_document(r);
    free(r);
}

static void free_node(void *value)
{
    if (value)
        node_object_deinit(value);
    free(value);
}

static void empty(struct map *t, void (*free_value)(void *value))
{
    size_t place = 0;
    void *v;

    while ((v = map_next(t, &place, NULL)) != NULL)
        free_value(v);
    map_deinit(t);
}

void store_deinit(struct store *s)
{
    empty(&s->jobs, free_job);
    empty(&s->pods, free_pod);
    empty(&s->nodes, free_node);
    empty(&s->revisions, free_revision);
    *s = (struct store){0};
}

void store_view_deinit(struct store_view *v)
{
    parse_release_spec(&v->spec);
    free(v->nodes);
    free(v->node_texts);
    free(v->pods);
    free(v->reports);
    buf_deinit(&v->revision);
    *v = (struct store_view){0};
}

/* --- changes --- */

void store_enqueue(const struct store *s, const char *job_key, int64_t delay_ms)
{
    if (s->listener.on_enqueue && map_get(&s->jobs, job_key))
        s->listener.on_enqueue(s->listener.ctx, job_key, delay_ms);
}

void store_enqueue_orphan(const struct store *s, const struct store_own *own, int64_t delay_ms)
{
    if (s->listener.on_enqueue)
        s->listener.on_enqueue(s->listener.ctx, own->job_key, delay_ms);
}

/* Nodes have changed: reconcile the jobs that wait for some. */
static void enqueue_waiting(struct store *s)
{
    size_t place = 0;
    const char *key;
    struct store_job *j;

    while ((j = map_next(&s->jobs, &place, &key)) != NULL)
        if (j->waits_for_nodes && s->listener.on_capacity)
            s->listener.on_capacity(s->listener.ctx, key);
}

/* A zeroed value at a key that is free; NULL when there is no memory for it. */
static void *add(struct map *t, const char *key, size_t bytes, struct err *err)
{
    void *value = calloc(1, bytes);

    if (!value) {
        (void)err_set(err, ERR_NO_MEMORY, "no memory for %s", key);
        return NULL;
    }
    if (map_put(t, key, value, err) == ERR_OK)
        return value;
    free(value);
    return NULL;
}

/* The job is gone or over. No watch reports the end of a revision that is lost. */
static void drop_revisions(struct store *s, const char *job_key)
{
    struct store_revision *r;
    const char *key;
    size_t place = 0;

    while ((r = map_next(&s->revisions, &place, &key)) != NULL) {
        if (strcmp(r->job_key, job_key) != 0)
            continue;
        drop_document(r);
        if (r->is_lost)
            free_revision(map_take(&s->revisions, key));
    }
}

/* The job is gone or being deleted. The garbage collector deletes its pods with the grace period of
 * workers that are drained, for which there is no reason any more. A kubelet that has begun with it
 * takes no shorter one, so the workers are ordered to end as well, which takes the job's key. */
static void end_pods(struct store *s, const char *key, const struct store_job *job, bool is_gone)
{
    size_t place = 0;
    struct store_pod *p;

    while ((p = map_next(&s->pods, &place, NULL)) != NULL) {
        struct store_own *own = p->own;

        if (!own || strcmp(own->job_uid, job->uid) != 0)
            continue;
        own->is_orphan = is_gone;
        if (!job->has_secret || own->seen.role != POD_WORKER || own->calls.is_ended)
            continue;
        own->is_to_end = true;
        own->key = job->secret;
    }
    if (s->listener.on_enqueue)
        s->listener.on_enqueue(s->listener.ctx, key, 0);
}

static enum err_code take_job(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_job *j = map_get(&s->jobs, key);
    bool was_final = j && j->is_final;
    enum err_code rc;

    if (!object || (j && strcmp(j->uid, json_string(json_path(object, "metadata.uid"), "")) != 0)) {
        if (j)
            end_pods(s, key, j, true);
        free_job(map_take(&s->jobs, key)); /* gone, or another one of the same name */
        drop_revisions(s, key);
        j = NULL;
    }
    if (!object) {
        enqueue_waiting(s); /* what its plan promised is free again */
        return ERR_OK;
    }
    if (!j)
        j = add(&s->jobs, key, sizeof *j, err);
    if (!j)
        return ERR_NO_MEMORY;
    if (j->generation != json_i64(json_path(object, "metadata.generation"), 0))
        j->data.state = DATA_UNKNOWN; /* it may be other claims now */
    rc = parse_job(object, j, err);
    if (rc == ERR_OK && j->is_deleting)
        end_pods(s, key, j, false);
    if (j->is_final && !was_final)
        drop_revisions(s, key);
    store_enqueue(s, key, 0);
    return rc;
}

/* What we know ourselves of the pod stays with it. */
static void keep_own(struct store_pod *to, struct store_pod *from)
{
    if (!from || !from->own || strcmp(to->uid, from->uid) != 0)
        return;
    if (from->own->trust == TRUST_REFUSED) { /* whatever its labels are */
        free_own(to->own);
        to->own = from->own;
        from->own = NULL;
        return;
    }
    if (!to->own)
        return;
    to->own->trust = from->own->trust;
    to->own->first_seen_ms = from->own->first_seen_ms;
    to->own->is_orphan = from->own->is_orphan;
    to->own->is_to_end = from->own->is_to_end;
    to->own->key = from->own->key;
    if (from->own->end_seen_ms > 0)
        to->own->end_seen_ms = from->own->end_seen_ms;
    if (from->own->deleting_seen_ms > 0)
        to->own->deleting_seen_ms = from->own->deleting_seen_ms;
    to->own->seen.events_ms = from->own->seen.events_ms;
    memcpy(to->own->event, from->own->event, sizeof to->own->event);
    to->own->seen.image_asked = from->own->seen.image_asked;
    to->own->contact = from->own->contact;
    to->own->calls = from->own->calls;
    from->own->calls.report = NULL;
    if (to->own->seen.is_ready && !from->own->seen.is_ready) { /* it listens now */
        to->own->contact.n_unanswered = 0;
        to->own->contact.call_after_ms = 0;
    }
}

static enum err_code take_pod(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_pod *old;
    struct store_pod *pod = NULL;
    const struct store_own *own;
    bool frees_capacity;
    enum err_code rc = ERR_OK;

    if (object) {
        pod = calloc(1, sizeof *pod);
        rc = pod ? parse_pod(object, pod, err) : err_set(err, ERR_NO_MEMORY, "no memory for a pod");
        if (rc != ERR_OK) {
            free_pod(pod);
            return rc;
        }
    }
    if (pod && pod->own) {
        pod->own->first_seen_ms = clock_now_ms();
        if (pod->own->seen.phase == POD_SUCCEEDED || pod->own->seen.phase == POD_FAILED)
            pod->own->end_seen_ms = pod->own->first_seen_ms;
        if (pod->own->seen.is_deleting)
            pod->own->deleting_seen_ms = pod->own->first_seen_ms;
    }
    old = map_take(&s->pods, key);
    if (pod) {
        keep_own(pod, old);
        rc = map_put(&s->pods, key, pod, err);
        if (rc != ERR_OK) {
            free_pod(pod);
            pod = NULL;
        }
    }
    frees_capacity = old && old->node && !old->has_ended && (!pod || pod->has_ended);
    own = pod && pod->own ? pod->own : old ? old->own : NULL;
    if (own)
        store_enqueue(s, own->job_key, 0);
    if (frees_capacity)
        enqueue_waiting(s);
    free_pod(old);
    return rc;
}

static enum err_code take_node(struct store *s, const char *key, const struct json *object,
                               struct err *err)
{
    struct node_object *n = map_get(&s->nodes, key);
    struct node_object now;
    enum err_code rc;

    if (object) {
        rc = node_object_read(object, EXCLUDED_NOT_READY, &now, err);
        if (rc != ERR_OK)
            return rc;
        if (n && node_object_equal(n, &now)) { /* heartbeats change nothing that matters here */
            node_object_deinit(&now);
            return ERR_OK;
        }
        if (!n)
            n = add(&s->nodes, key, sizeof *n, err);
        if (!n) {
            node_object_deinit(&now);
            return ERR_NO_MEMORY;
        }
        node_object_deinit(n);
        *n = now;
    } else {
        free_node(map_take(&s->nodes, key));
    }
    enqueue_waiting(s);
    return ERR_OK;
}

static enum err_code add_revision(struct store *s, const char *key, const struct json *object,
                                  struct err *err)
{
    struct store_revision *r = calloc(1, sizeof *r);
    const struct store_job *job;
    char name[NAMES_BYTES] = "";
    bool is_ours = r && parse_owner(object, r->job_uid, r->job_key);
    enum err_code rc = r ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for %s", key);

    if (is_ours)
        rc = parse_revision(object, r, err);
    if (is_ours && rc == ERR_OK && r->number > 0)
        names_revision(strrchr(r->job_key, '/') + 1, r->job_uid, r->number, name);
    if (!is_ours || rc != ERR_OK || strcmp(strrchr(key, '/') + 1, name) != 0) {
        free_revision(r); /* it may only look like one of ours */
        return rc;
    }
    job = map_get(&s->jobs, r->job_key);
    if (job && job->is_final)
        drop_document(r);
    rc = map_put(&s->revisions, key, r, err);
    if (rc == ERR_OK)
        store_enqueue(s, r->job_key, 0);
    else
        free_revision(r);
    return rc;
}

static bool is_newest(const struct store *s, const struct store_revision *of)
{
    size_t place = 0;
    const struct store_revision *r;

    while ((r = map_next(&s->revisions, &place, NULL)) != NULL)
        if (strcmp(r->job_uid, of->job_uid) == 0 && r->number > of->number)
            return false;
    return true;
}

static enum err_code take_revision(struct store *s, const char *key, const struct json *object,
                                   struct err *err)
{
    struct store_revision *old = map_get(&s->revisions, key);
    const struct store_job *job = old ? map_get(&s->jobs, old->job_key) : NULL;

    if (old)
        store_enqueue(s, old->job_key, 0);
    if (!object && job && old->parsed && strcmp(job->uid, old->job_uid) == 0 && !job->is_deleting &&
        !job->is_final && is_newest(s, old)) {
        old->is_lost = true; /* the job needs it: it is made again from what is known of it */
        return ERR_OK;
    }
    free_revision(map_take(&s->revisions, key));
    if (object)
        return add_revision(s, key, object, err);
    enqueue_waiting(s);
    return ERR_OK;
}

/* `object` is NULL when it has been deleted. */
typedef enum err_code take_fn(struct store *s, const char *key, const struct json *object,
                              struct err *err);

enum err_code store_change(struct store *s, enum store_kind kind, enum kube_change change,
                           const struct json *object, struct err *err)
{
    static take_fn *const take[STORE_KINDS] = {take_job, take_pod, take_node, take_revision};
    const char *namespace = json_string(json_path(object, "metadata.namespace"), "");
    const char *name = json_string(json_path(object, "metadata.name"), "");
    char key[QUEUE_KEY_BYTES];

    if (change == KUBE_SYNCED)
        return ERR_OK;
    if (*name == '\0' || strlen(namespace) >= OBSERVED_WORD_BYTES || strlen(name) > 253)
        return err_set(err, ERR_INVALID, "an object without a usable name");
    (void)snprintf(key, sizeof key, "%s%s%s", namespace, *namespace ? "/" : "", name);
    return take[kind](s, key, change == KUBE_DELETED ? NULL : object, err);
}

/* --- looking --- */

struct store_job *store_find_job(const struct store *s, const char *key)
{
    return map_get(&s->jobs, key);
}

struct store_job *store_job_of(const struct store *s, const struct observed *seen)
{
    char key[QUEUE_KEY_BYTES];

    store_key(seen->namespace, seen->name, key);
    return map_get(&s->jobs, key);
}

struct store_own *store_find_own(const struct store *s, const char *namespace, const char *name,
                                 const char *uid)
{
    char key[QUEUE_KEY_BYTES];
    struct store_pod *p;

    store_key(namespace, name, key);
    p = map_get(&s->pods, key);
    return p && strcmp(p->uid, uid) == 0 ? p->own : NULL;
}

struct store_own *store_find_orphan(const struct store *s, const char *key)
{
    size_t place = 0;
    struct store_pod *p;

    while ((p = map_next(&s->pods, &place, NULL)) != NULL)
        if (p->own && p->own->is_orphan && strcmp(p->own->job_key, key) == 0)
            return p->own;
    return NULL;
}

void store_drop_key(struct store_own *own)
{
    own->is_to_end = false;
    OPENSSL_cleanse(&own->key, sizeof own->key);
}

enum err_code store_set_report(struct store_own *own, const struct report *report, struct err *err)
{
    struct sparse *kept;
    enum err_code rc = sparse_new(report, sizeof *report, &kept, err);

    if (rc != ERR_OK)
        return rc;
    free(own->calls.report);
    own->calls.report = kept;
    own->calls.report_revision = report->revision;
    if (report->session == REPORT_NONE || report->session == REPORT_RUNNING)
        own->calls.ended_ms = 0;
    else if (own->calls.ended_ms == 0)
        own->calls.ended_ms = clock_now_ms();
    return ERR_OK;
}

void store_drop_report(struct store_own *own)
{
    free(own->calls.report);
    own->calls.report = NULL;
    own->calls.ended_ms = 0;
}

/* --- whose pods are whose --- */

void store_trust_pod(struct store *s, const struct kube_ref *pod, const char *uid, uint64_t image)
{
    struct store_own *own = store_find_own(s, pod->namespace, pod->name, uid);

    if (!own || own->trust == TRUST_CREATED)
        return;
    own->trust = TRUST_CREATED;
    own->seen.image_asked = image;
    store_enqueue(s, own->job_key, 0);
}

enum err_code store_refuse_pod(struct store *s, const struct json *object,
                               const struct observed *job, const struct seen_pod *due,
                               struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    struct store_pod *p;
    struct store_own *own;
    enum err_code rc = store_change(s, STORE_PODS, KUBE_MODIFIED, object, err);

    if (rc != ERR_OK)
        return rc;
    store_key(job->namespace, due->name, key);
    p = map_get(&s->pods, key);
    own = calloc(1, sizeof *own);
    if (!p || !own) {
        free(own);
        return err_set(err, ERR_NO_MEMORY, "no memory for pod %s", key);
    }
    memcpy(own->job_uid, job->uid, sizeof own->job_uid);
    store_key(job->namespace, job->name, own->job_key);
    own->trust = TRUST_REFUSED;
    own->seen = *due;
    own->seen.role = POD_FOREIGN;
    free_own(p->own);
    p->own = own;
    store_enqueue(s, own->job_key, 0);
    return ERR_OK;
}
