#include "run/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/parse.h"

void store_key(const char *namespace, const char *name, char out[static QUEUE_KEY_BYTES])
{
    (void)snprintf(out, QUEUE_KEY_BYTES, "%s/%s", namespace, name);
}

/* --- freeing --- */

static void free_job(struct store_job *j)
{
    if (!j)
        return;
    free(j->spec);
    free(j->status);
    free(j);
}

static void free_pod(struct store_pod *p)
{
    if (!p)
        return;
    free(p->node);
    free(p->own);
    free(p);
}

static void free_plan(struct store_plan *p)
{
    if (!p)
        return;
    free(p->text);
    free(p->shares);
    free(p);
}

void store_deinit(struct store *s)
{
    size_t place = 0;
    void *v;

    while ((v = table_next(&s->jobs, &place, NULL)) != NULL)
        free_job(v);
    for (place = 0; (v = table_next(&s->pods, &place, NULL)) != NULL;)
        free_pod(v);
    for (place = 0; (v = table_next(&s->nodes, &place, NULL)) != NULL;)
        free(v);
    for (place = 0; (v = table_next(&s->plans, &place, NULL)) != NULL;)
        free_plan(v);
    table_deinit(&s->jobs);
    table_deinit(&s->pods);
    table_deinit(&s->nodes);
    table_deinit(&s->plans);
    free(s->scratch);
    *s = (struct store){0};
}

/* --- changes --- */

static void touch(struct store *s, const char *job_key)
{
    if (s->listener.on_touch && table_find(&s->jobs, job_key))
        s->listener.on_touch(s->listener.ctx, job_key);
}

/* Something about nodes is another now: whoever waits for some should look again. */
static void touch_waiting(struct store *s)
{
    size_t place = 0;
    const char *key;
    struct store_job *j;

    while ((j = table_next(&s->jobs, &place, &key)) != NULL)
        if (j->wants_nodes)
            touch(s, key);
}

static enum err_code key_of(const struct json *object, char out[static QUEUE_KEY_BYTES],
                            struct err *err)
{
    const struct json *metadata = json_get(object, "metadata");
    const char *namespace = json_string(json_get(metadata, "namespace"), "");
    const char *name = json_string(json_get(metadata, "name"), "");

    if (*name == '\0' || strlen(namespace) >= OBSERVED_WORD_BYTES || strlen(name) > 253)
        return err_set(err, ERR_INVALID, "an object without a usable name");
    store_key(namespace, name, out);
    return ERR_OK;
}

enum err_code store_change_job(struct store *s, enum kube_change change, const struct json *object,
                               struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    struct store_job *j;
    enum err_code rc;

    if (change == KUBE_SYNCED)
        return ERR_OK;
    rc = key_of(object, key, err);
    if (rc != ERR_OK)
        return rc;
    if (change == KUBE_DELETED) {
        free_job(table_take(&s->jobs, key));
        touch_waiting(s); /* what its plan promised is free again */
        return ERR_OK;
    }
    j = table_find(&s->jobs, key);
    if (j && strcmp(j->uid, json_string(json_path(object, "metadata.uid"), "")) != 0) {
        free_job(table_take(&s->jobs, key)); /* another one of the same name */
        j = NULL;
    }
    if (!j) {
        j = calloc(1, sizeof *j);
        if (!j)
            return err_set(err, ERR_NO_MEMORY, "no memory for SkyJob %s", key);
        rc = table_put(&s->jobs, key, j, err);
        if (rc != ERR_OK) {
            free_job(j);
            return rc;
        }
    }
    rc = parse_job(object, j, err);
    touch(s, key);
    return rc;
}

/* What we know ourselves of the pod stays with it. */
static void keep_own(struct store_pod *to, const struct store_pod *from)
{
    if (!to->own || !from || !from->own || strcmp(to->uid, from->uid) != 0)
        return;
    to->own->is_being_told = from->own->is_being_told;
    to->own->seen.knows_peers = from->own->seen.knows_peers;
}

enum err_code store_change_pod(struct store *s, enum kube_change change, const struct json *object,
                               struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    struct store_pod *old;
    struct store_pod *new = NULL;
    bool frees_room;
    enum err_code rc;

    if (change == KUBE_SYNCED)
        return ERR_OK;
    rc = key_of(object, key, err);
    if (rc != ERR_OK)
        return rc;
    if (change != KUBE_DELETED) {
        new = calloc(1, sizeof *new);
        rc = new ? parse_pod(object, new, err) : err_set(err, ERR_NO_MEMORY, "no memory for a pod");
        if (rc != ERR_OK) {
            free_pod(new);
            return rc;
        }
    }
    old = table_take(&s->pods, key);
    if (new) {
        keep_own(new, old);
        rc = table_put(&s->pods, key, new, err);
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
static bool is_same_node(const struct seen_node *a, const struct seen_node *b)
{
    return a->is_ready == b->is_ready && a->is_unschedulable == b->is_unschedulable &&
           a->is_deleting == b->is_deleting && a->has_pressure == b->has_pressure &&
           a->cpu_milli == b->cpu_milli && a->memory_bytes == b->memory_bytes &&
           a->declared_gflops == b->declared_gflops && a->measured_gflops == b->measured_gflops &&
           a->measured_unit_ms == b->measured_unit_ms && strcmp(a->taint, b->taint) == 0 &&
           strcmp(a->measured_for, b->measured_for) == 0;
}

enum err_code store_change_node(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err)
{
    const char *name = json_string(json_path(object, "metadata.name"), "");
    struct seen_node new;
    struct seen_node *n;

    if (change == KUBE_SYNCED)
        return ERR_OK;
    if (*name == '\0' || strlen(name) >= NODE_NAME_BYTES)
        return err_set(err, ERR_INVALID, "a node without a usable name");
    if (change == KUBE_DELETED) {
        free(table_take(&s->nodes, name));
        touch_waiting(s);
        return ERR_OK;
    }
    parse_node(object, &new);
    n = table_find(&s->nodes, name);
    if (n && is_same_node(n, &new))
        return ERR_OK;
    if (!n) {
        enum err_code rc;

        n = malloc(sizeof *n);
        if (!n)
            return err_set(err, ERR_NO_MEMORY, "no memory for node %s", name);
        rc = table_put(&s->nodes, name, n, err);
        if (rc != ERR_OK) {
            free(n);
            return rc;
        }
    }
    *n = new;
    touch_waiting(s);
    return ERR_OK;
}

enum err_code store_change_plan(struct store *s, enum kube_change change, const struct json *object,
                                struct err *err)
{
    char key[QUEUE_KEY_BYTES];
    struct store_plan *p;
    enum err_code rc;

    if (change == KUBE_SYNCED)
        return ERR_OK;
    rc = key_of(object, key, err);
    if (rc != ERR_OK)
        return rc;
    p = table_take(&s->plans, key);
    if (p)
        touch(s, p->job_key);
    free_plan(p);
    if (change == KUBE_DELETED) {
        touch_waiting(s);
        return ERR_OK;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        return err_set(err, ERR_NO_MEMORY, "no memory for plan %s", key);
    if (!parse_owner(object, p->job_uid, p->job_key)) {
        free_plan(p);
        return ERR_OK; /* only looks like one of ours */
    }
    rc = parse_plan(object, p, err);
    if (rc == ERR_OK)
        rc = table_put(&s->plans, key, p, err);
    if (rc != ERR_OK) {
        free_plan(p);
        return rc;
    }
    touch(s, p->job_key);
    return ERR_OK;
}

/* --- looking --- */

struct store_job *store_find_job(const struct store *s, const char *key)
{
    return table_find(&s->jobs, key);
}

struct store_own *store_find_own(const struct store *s, const char *namespace, const char *name,
                                 const char *uid)
{
    char key[QUEUE_KEY_BYTES];
    struct store_pod *p;

    store_key(namespace, name, key);
    p = table_find(&s->pods, key);
    return p && strcmp(p->uid, uid) == 0 ? p->own : NULL;
}
