#include "run/store.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/decide.h"
#include "run/parse.h"

void store_key(const char *namespace, const char *name, char out[static QUEUE_KEY_BYTES])
{
    (void)snprintf(out, QUEUE_KEY_BYTES, "%s/%s", namespace, name);
}

/* --- freeing --- */

void store_forget_certificates(struct store_certificates *c)
{
    free(c->list);
    *c = (struct store_certificates){.n = 0};
}

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
    free(own->left);
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
    struct node_object n;

    if (!value)
        return;
    sparse_read(value, &n);
    node_object_deinit(&n);
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
    empty(&s->families, free);
    empty(&s->jobs, free_job);
    empty(&s->pods, free_pod);
    empty(&s->nodes, free_node);
    empty(&s->revisions, free_revision);
    *s = (struct store){0};
}

void store_view_drop_nodes(struct store_view *v)
{
    free(v->nodes);
    free(v->node_texts);
    v->nodes = NULL;
    v->node_texts = NULL;
    v->n_nodes = v->n_node_texts = 0;
}

void store_view_deinit(struct store_view *v)
{
    parse_release_spec(&v->spec);
    store_view_drop_nodes(v);
    free(v->pods);
    free(v->reports);
    free(v->left);
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

/* --- families --- */

static struct store_family *add_family(struct store *s, const char *job_key, struct err *err)
{
    struct store_family *f = map_get(&s->families, job_key);

    return f ? f : add(&s->families, job_key, sizeof *f, err);
}

static void link_to(struct store_list *list, struct store_link *link)
{
    *link = (struct store_link){.before = list->last};
    *(list->last ? &list->last->next : &list->first) = link;
    list->last = link;
}

static void unlink_from(struct store_list *list, struct store_link *link)
{
    *(link->before ? &link->before->next : &list->first) = link->next;
    *(link->next ? &link->next->before : &list->last) = link->before;
}

static void drop_if_empty(struct store *s, const struct store_family *f, const char *job_key)
{
    if (!f->pods.first && !f->revisions.first)
        free(map_take(&s->families, job_key));
}

static void unlink_pod(struct store *s, struct store_own *own)
{
    struct store_family *f = map_get(&s->families, own->job_key);

    unlink_from(&f->pods, &own->link);
    drop_if_empty(s, f, own->job_key);
}

/* And free it; there may be none. */
static void take_revision_out(struct store *s, const char *key)
{
    struct store_revision *r = map_take(&s->revisions, key);
    struct store_family *f = r ? map_get(&s->families, r->job_key) : NULL;

    if (!r)
        return;
    unlink_from(&f->revisions, &r->link);
    drop_if_empty(s, f, r->job_key);
    free_revision(r);
}

struct store_own *store_pods(const struct store *s, const char *job_key)
{
    const struct store_family *f = map_get(&s->families, job_key);

    return f ? (struct store_own *)f->pods.first : NULL;
}

struct store_own *store_next_pod(const struct store_own *own)
{
    return (struct store_own *)own->link.next;
}

struct store_revision *store_revisions(const struct store *s, const char *job_key)
{
    const struct store_family *f = map_get(&s->families, job_key);

    return f ? (struct store_revision *)f->revisions.first : NULL;
}

struct store_revision *store_next_revision(const struct store_revision *r)
{
    return (struct store_revision *)r->link.next;
}

/* --- changes of objects --- */

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
            take_revision_out(s, key);
    }
}

/* The job is gone or being deleted. The garbage collector deletes its pods with the grace period of
 * workers that are drained, for which there is no reason any more. A kubelet that has begun with it
 * takes no shorter one, so the workers are ordered to end as well, which takes the job's key. */
static void end_pods(struct store *s, const char *key, const struct store_job *job, bool is_gone)
{
    for (struct store_own *own = store_pods(s, key); own; own = store_next_pod(own)) {
        if (strcmp(own->job_uid, job->uid) != 0)
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

/* `by` is 1 or -1. */
static void count_job(struct store *s, const struct store_job *j, int by)
{
    s->n_jobs_in[j->state] += (size_t)by;
    s->n_stalled += j->is_stalled ? (size_t)by : 0;
    s->n_training += j->trains ? by : 0;
}

static enum err_code take_job(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_job *j = map_get(&s->jobs, key);
    bool was_final = j && j->is_final;
    enum err_code rc;

    if (j)
        count_job(s, j, -1);
    if (!object || (j && strcmp(j->uid, json_text(object, "metadata.uid")) != 0)) {
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
    count_job(s, j, 1);
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
    if (!from->own->seen.is_gated) /* else its time to start begins now */
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

static enum err_code put_pod(struct store *s, const char *key, struct store_pod *pod,
                             struct err *err)
{
    struct store_family *f = NULL;
    enum err_code rc;

    if (pod->own) {
        f = add_family(s, pod->own->job_key, err);
        if (!f)
            return ERR_NO_MEMORY;
    }
    rc = map_put(&s->pods, key, pod, err);
    if (f && rc == ERR_OK)
        link_to(&f->pods, &pod->own->link);
    else if (f)
        drop_if_empty(s, f, pod->own->job_key);
    return rc;
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
    if (old && old->own)
        unlink_pod(s, old->own);
    if (pod) {
        keep_own(pod, old);
        rc = put_pod(s, key, pod, err);
        if (rc != ERR_OK) {
            free_pod(pod);
            pod = NULL;
        }
    }
    frees_capacity = old && old->node && !old->has_ended && (!pod || pod->has_ended);
    own = pod && pod->own ? pod->own : old ? old->own : NULL;
    if (own && group_holds(&own->seen))
        store_enqueue_orphan(s, own, 0); /* whether its job is there or not */
    else if (own)
        store_enqueue(s, own->job_key, 0);
    if (frees_capacity)
        enqueue_waiting(s);
    free_pod(old);
    return rc;
}

static enum err_code take_node(struct store *s, const char *key, const struct json *object,
                               struct err *err)
{
    struct sparse *old = map_get(&s->nodes, key);
    struct sparse *kept;
    struct node_object was, now;
    enum err_code rc;

    if (object) {
        rc = node_object_read(object, EXCLUDED_NOT_READY, &now, err);
        if (rc != ERR_OK)
            return rc;
        if (old)
            sparse_read(old, &was);
        if (old && node_object_equal(&was, &now)) { /* heartbeats change nothing that matters */
            node_object_deinit(&now);
            return ERR_OK;
        }
        rc = sparse_new(&now, sizeof now, &kept, err);
        if (rc == ERR_OK) {
            rc = map_put(&s->nodes, key, kept, err);
            if (rc != ERR_OK)
                free(kept);
        }
        if (rc != ERR_OK) {
            node_object_deinit(&now);
            return rc;
        }
        free_node(old);
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
    struct store_family *f;
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
    f = add_family(s, r->job_key, err);
    rc = f ? map_put(&s->revisions, key, r, err) : ERR_NO_MEMORY;
    if (rc == ERR_OK) {
        link_to(&f->revisions, &r->link);
        store_enqueue(s, r->job_key, 0);
        return ERR_OK;
    }
    if (f)
        drop_if_empty(s, f, r->job_key);
    free_revision(r);
    return rc;
}

static bool is_newest(const struct store *s, const struct store_revision *of)
{
    for (const struct store_revision *r = store_revisions(s, of->job_key); r;
         r = store_next_revision(r))
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
    take_revision_out(s, key);
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
    const char *namespace = json_text(object, "metadata.namespace");
    const char *name = json_text(object, "metadata.name");
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
    struct store_own *own = store_pods(s, key);

    while (own && !own->is_orphan)
        own = store_next_pod(own);
    return own;
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
    struct store_family *f;
    enum err_code rc = store_change(s, STORE_PODS, KUBE_MODIFIED, object, err);

    if (rc != ERR_OK)
        return rc;
    store_key(job->namespace, due->name, key);
    p = map_get(&s->pods, key);
    if (p && p->own) {
        unlink_pod(s, p->own);
        free_own(p->own);
        p->own = NULL;
    }
    own = calloc(1, sizeof *own);
    store_key(job->namespace, job->name, key);
    f = p && own ? add_family(s, key, err) : NULL;
    if (!f) {
        free(own);
        return err_set(err, ERR_NO_MEMORY, "no memory for pod %s of %s", due->name, key);
    }
    memcpy(own->job_uid, job->uid, sizeof own->job_uid);
    memcpy(own->job_key, key, sizeof own->job_key);
    own->trust = TRUST_REFUSED;
    own->seen = *due;
    own->seen.role = POD_FOREIGN;
    p->own = own;
    link_to(&f->pods, &own->link);
    store_enqueue(s, own->job_key, 0);
    return ERR_OK;
}
