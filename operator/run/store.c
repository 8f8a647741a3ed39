#include "run/store.h"

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
    json_free(j->spec_json);
    free(j->spec);
    free(j->status);
    free(j);
}

static void free_pod(void *value)
{
    struct store_pod *p = value;

    if (!p)
        return;
    free(p->node);
    free(p->own);
    free(p);
}

static void free_plan_documents(struct store_plan *p)
{
    free(p->plan);
    p->plan = NULL;
    promise_deinit(&p->promise);
}

static void free_plan(void *value)
{
    struct store_plan *p = value;

    if (!p)
        return;
    free_plan_documents(p);
    free(p);
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
    empty(&s->nodes, free);
    empty(&s->plans, free_plan);
    free(s->scratch);
    free(s->seen_pods);
    *s = (struct store){0};
}

/* --- changes --- */

static void touch(struct store *s, const char *job_key)
{
    if (s->listener.on_touch && map_get(&s->jobs, job_key))
        s->listener.on_touch(s->listener.ctx, job_key);
}

/* Nodes have changed: reconcile the jobs that wait for some. */
static void touch_waiting(struct store *s)
{
    size_t place = 0;
    const char *key;
    struct store_job *j;

    while ((j = map_next(&s->jobs, &place, &key)) != NULL)
        if (j->waits_for_nodes && s->listener.on_room)
            s->listener.on_room(s->listener.ctx, key);
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

/* The job is gone or over. No watch reports the end of a plan that is lost. */
static void drop_plans(struct store *s, const char *job_key)
{
    struct store_plan *p;
    const char *key;
    size_t place = 0;

    while ((p = map_next(&s->plans, &place, &key)) != NULL) {
        if (strcmp(p->job_key, job_key) != 0)
            continue;
        free_plan_documents(p);
        if (p->is_lost)
            free_plan(map_take(&s->plans, key));
    }
}

static enum err_code take_job(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_job *j = map_get(&s->jobs, key);
    bool was_final = j && j->is_final;
    enum err_code rc;

    if (!object) {
        free_job(map_take(&s->jobs, key));
        drop_plans(s, key);
        touch_waiting(s); /* what its plan promised is free again */
        return ERR_OK;
    }
    if (j && strcmp(j->uid, json_string(json_path(object, "metadata.uid"), "")) != 0) {
        free_job(map_take(&s->jobs, key)); /* another one of the same name */
        drop_plans(s, key);
        j = NULL;
    }
    if (!j)
        j = add(&s->jobs, key, sizeof *j, err);
    if (!j)
        return ERR_NO_MEMORY;
    if (j->generation != json_i64(json_path(object, "metadata.generation"), 0))
        j->data = DATA_UNKNOWN; /* it may be other claims now */
    rc = parse_job(object, j, err);
    if (j->is_final && !was_final)
        drop_plans(s, key);
    touch(s, key);
    return rc;
}

/* What we know ourselves of the pod stays with it. */
static void keep_own(struct store_pod *to, struct store_pod *from)
{
    if (!from || !from->own || strcmp(to->uid, from->uid) != 0)
        return;
    if (from->own->trust == TRUST_REFUSED) { /* whatever its labels are */
        free(to->own);
        to->own = from->own;
        from->own = NULL;
        return;
    }
    if (!to->own)
        return;
    to->own->trust = from->own->trust;
    to->own->first_seen_ms = from->own->first_seen_ms;
    if (from->own->end_seen_ms > 0)
        to->own->end_seen_ms = from->own->end_seen_ms;
    to->own->seen.events_ms = from->own->seen.events_ms;
    memcpy(to->own->event, from->own->event, sizeof to->own->event);
    to->own->seen.image_asked = from->own->seen.image_asked;
    to->own->contact = from->own->contact;
    if (to->own->seen.is_ready && !from->own->seen.is_ready) { /* it listens now */
        to->own->contact.n_unanswered = 0;
        to->own->contact.call_after_ms = 0;
    }
}

static void note_times(struct store_own *own)
{
    if (!own)
        return;
    own->first_seen_ms = clock_now_ms();
    if (own->seen.phase == POD_SUCCEEDED || own->seen.phase == POD_FAILED)
        own->end_seen_ms = own->first_seen_ms;
}

static enum err_code take_pod(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_pod *old;
    struct store_pod *new = NULL;
    bool frees_room;
    enum err_code rc = ERR_OK;

    if (object) {
        new = calloc(1, sizeof *new);
        rc = new ? parse_pod(object, new, err) : err_set(err, ERR_NO_MEMORY, "no memory for a pod");
        if (rc != ERR_OK) {
            free_pod(new);
            return rc;
        }
    }
    old = map_take(&s->pods, key);
    if (new) {
        note_times(new->own);
        keep_own(new, old);
        rc = map_put(&s->pods, key, new, err);
        if (rc != ERR_OK) {
            free_pod(new);
            new = NULL;
        }
    }
    frees_room = old && old->node && !old->has_ended && (!new || new->has_ended);
    if (new &&new->own)
        touch(s, new->own->job_key);
    else if (old && old->own)
        touch(s, old->own->job_key);
    if (frees_room)
        touch_waiting(s);
    free_pod(old);
    return rc;
}

/* Heartbeats change nothing that matters here. */
static bool is_same_node(const struct node_object *a, const struct node_object *b)
{
    return a->excluded == b->excluded && a->cpu_milli == b->cpu_milli &&
           a->memory_bytes == b->memory_bytes &&
           memcmp(&a->annotations, &b->annotations, sizeof a->annotations) == 0;
}

static enum err_code take_node(struct store *s, const char *key, const struct json *object,
                               struct err *err)
{
    struct node_object *n = map_get(&s->nodes, key);
    struct node_object new;

    if (object) {
        node_object_read(object, EXCLUDED_NOT_READY, &new);
        if (n && is_same_node(n, &new))
            return ERR_OK;
        if (!n)
            n = add(&s->nodes, key, sizeof *n, err);
        if (!n)
            return ERR_NO_MEMORY;
        *n = new;
    } else {
        free(map_take(&s->nodes, key));
    }
    touch_waiting(s);
    return ERR_OK;
}

static bool has_its_name(const char *key, const struct store_plan *p)
{
    char name[NAMES_BYTES];

    names_plan(strrchr(p->job_key, '/') + 1, p->attempt, name);
    return p->attempt > 0 && strcmp(strrchr(key, '/') + 1, name) == 0;
}

static enum err_code add_plan(struct store *s, const char *key, const struct json *object,
                              struct err *err)
{
    struct store_plan *p = calloc(1, sizeof *p);
    const struct store_job *job;
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory for plan %s", key);
    if (!parse_owner(object, p->job_uid, p->job_key)) {
        free_plan(p);
        return ERR_OK; /* only looks like one of ours */
    }
    rc = parse_plan(object, p, err);
    if (rc == ERR_OK && !has_its_name(key, p)) {
        free_plan(p);
        return ERR_OK;
    }
    job = map_get(&s->jobs, p->job_key);
    if (job && job->is_final)
        free_plan_documents(p);
    if (rc == ERR_OK)
        rc = map_put(&s->plans, key, p, err);
    if (rc == ERR_OK)
        touch(s, p->job_key);
    else
        free_plan(p);
    return rc;
}

/* Is this the plan of an attempt that goes on? */
static bool is_needed(const struct store *s, const struct store_plan *p)
{
    const struct store_job *job = map_get(&s->jobs, p->job_key);

    return p->plan && job && strcmp(job->uid, p->job_uid) == 0 && !job->is_deleting &&
           !job->is_final && job->attempt == p->attempt;
}

static enum err_code take_plan(struct store *s, const char *key, const struct json *object,
                               struct err *err)
{
    struct store_plan *old = map_get(&s->plans, key);

    if (old)
        touch(s, old->job_key);
    if (old && !object && is_needed(s, old)) {
        old->is_lost = true; /* it is made again from what is known of it */
        return ERR_OK;
    }
    free_plan(map_take(&s->plans, key));
    if (object)
        return add_plan(s, key, object, err);
    touch_waiting(s);
    return ERR_OK;
}

/* "namespace/name", or the name alone of what has no namespace. */
static enum err_code key_of(const struct json *object, char out[static QUEUE_KEY_BYTES],
                            struct err *err)
{
    const struct json *metadata = json_get(object, "metadata");
    const char *namespace = json_string(json_get(metadata, "namespace"), "");
    const char *name = json_string(json_get(metadata, "name"), "");

    if (*name == '\0' || strlen(namespace) >= OBSERVED_WORD_BYTES || strlen(name) > 253)
        return err_set(err, ERR_INVALID, "an object without a usable name");
    if (*namespace)
        store_key(namespace, name, out);
    else
        memcpy(out, name, strlen(name) + 1);
    return ERR_OK;
}

/* The same for every kind; `take` gets NULL for an object that has been deleted. */
static enum err_code take_over(struct store *s, enum kube_change change, const struct json *object,
                               enum err_code (*take)(struct store *s, const char *key,
                                                     const struct json *object, struct err *err),
                               struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    enum err_code rc;

    if (change == KUBE_SYNCED)
        return ERR_OK;
    rc = key_of(object, key, err);
    if (rc != ERR_OK)
        return rc;
    return take(s, key, change == KUBE_DELETED ? NULL : object, err);
}

enum err_code store_change_job(struct store *s, enum kube_change change, const struct json *object,
                               struct err *err)
{
    return take_over(s, change, object, take_job, err);
}

enum err_code store_change_pod(struct store *s, enum kube_change change, const struct json *object,
                               struct err *err)
{
    return take_over(s, change, object, take_pod, err);
}

enum err_code store_change_node(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err)
{
    return take_over(s, change, object, take_node, err);
}

enum err_code store_change_plan(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err)
{
    return take_over(s, change, object, take_plan, err);
}

/* --- looking --- */

struct store_job *store_find_job(const struct store *s, const char *key)
{
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

/* --- whose pods are whose --- */

void store_trust_pod(struct store *s, const struct kube_ref *pod, const char *uid, uint64_t image)
{
    struct store_own *own = store_find_own(s, pod->namespace, pod->name, uid);

    if (!own || own->trust == TRUST_CREATED)
        return;
    own->trust = TRUST_CREATED;
    own->seen.image_asked = image;
    touch(s, own->job_key);
}

enum err_code store_refuse_pod(struct store *s, const struct json *object,
                               const struct observed *job, const struct seen_pod *due,
                               struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    struct store_pod *p;
    struct store_own *own;
    enum err_code rc = store_change_pod(s, KUBE_MODIFIED, object, err);

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
    own->seen.role = POD_TAKEN;
    free(p->own);
    p->own = own;
    touch(s, own->job_key);
    return ERR_OK;
}
