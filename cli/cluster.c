#include "cli/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/yaml.h"
#include "cluster/pod_requests.h"

static const char *text_of(const struct json *object, const char *path)
{
    return json_string(json_path(object, path), "");
}

static uint64_t key_of(const char *namespace, const char *name)
{
    return hash_bytes(hash_bytes(HASH_START, namespace, strlen(namespace) + 1), name, strlen(name));
}

static uint64_t key_of_object(const struct json *object)
{
    return key_of(text_of(object, "metadata.namespace"), text_of(object, "metadata.name"));
}

/* The array with room for one element more; NULL when there is no memory for it. */
static void *grow(void *array, size_t n, size_t *cap, size_t bytes, struct err *err)
{
    size_t more = *cap ? 2 * *cap : 64;
    void *bigger = array;

    if (n == *cap) {
        bigger = realloc(array, more * bytes);
        *cap = bigger ? more : *cap;
    }
    if (!bigger)
        (void)err_set(err, ERR_NO_MEMORY, "no memory for %zu objects", more);
    return bigger;
}

static enum err_code add_node(struct cluster *c, const struct json *node, enum exclusion unseen,
                              struct err *err)
{
    void *nodes = grow(c->nodes, c->n_nodes, &c->cap_nodes, sizeof *c->nodes, err);

    if (!nodes)
        return ERR_NO_MEMORY;
    c->nodes = nodes;
    node_object_read(node, unseen, &c->nodes[c->n_nodes++]);
    return ERR_OK;
}

enum err_code cluster_add_node(struct cluster *c, const struct json *node, struct err *err)
{
    return add_node(c, node, EXCLUDED_NOT_READY, err);
}

void cluster_close_nodes(struct cluster *c)
{
    node_objects_sort(c->nodes, c->n_nodes);
}

static bool is_of_job(const struct job *job, const struct json *pod)
{
    const char *name = json_string(json_get(json_path(pod, "metadata.labels"), LABEL_JOB), "");

    return strcmp(name, job->name) == 0 &&
           strcmp(text_of(pod, "metadata.namespace"), job->namespace) == 0;
}

enum err_code cluster_add_pod(struct cluster *c, const struct job *job, const struct json *pod,
                              struct err *err)
{
    const char *node = text_of(pod, "spec.nodeName");
    struct pod_requests requests = pod_requests_read(pod);
    bool has_ended = pod_has_ended(pod);
    void *settled;

    if (*node == '\0' && !has_ended)
        return ERR_OK;
    settled = grow(c->settled, c->n_settled, &c->cap_settled, sizeof *c->settled, err);
    if (!settled)
        return ERR_NO_MEMORY;
    c->settled = settled;
    c->settled[c->n_settled++] = key_of_object(pod);
    if (!has_ended && !is_of_job(job, pod))
        node_objects_use(c->nodes, c->n_nodes, node, requests.cpu_milli, requests.memory_bytes);
    return ERR_OK;
}

enum err_code cluster_add_job(struct cluster *c, const struct json *skyjob, struct err *err)
{
    void *jobs = grow(c->jobs, c->n_jobs, &c->cap_jobs, sizeof *c->jobs, err);
    struct cluster_job *to;

    if (!jobs)
        return ERR_NO_MEMORY;
    c->jobs = jobs;
    to = &c->jobs[c->n_jobs++];
    to->key = key_of_object(skyjob);
    (void)snprintf(to->uid, sizeof to->uid, "%s", text_of(skyjob, "metadata.uid"));
    to->attempt = json_int(json_path(skyjob, "status.attempt"), 0);
    to->is_over =
        promise_job_is_final(skyjob) || json_path(skyjob, "metadata.deletionTimestamp") != NULL;
    return ERR_OK;
}

enum err_code cluster_add_plan(struct cluster *c, const struct job *job,
                               const struct json *config_map, struct err *err)
{
    void *promises = grow(c->promises, c->n_promises, &c->cap_promises, sizeof *c->promises, err);
    struct promise p;
    enum err_code rc;

    if (!promises)
        return ERR_NO_MEMORY;
    c->promises = promises;
    rc = promise_read(config_map, &p, err);
    if (rc == ERR_NO_MEMORY)
        return rc;
    if (rc != ERR_OK)
        return ERR_OK; /* only looks like a plan */
    if (strcmp(p.job, job->name) == 0 && strcmp(p.namespace, job->namespace) == 0)
        promise_deinit(&p);
    else
        c->promises[c->n_promises++] = p;
    return ERR_OK;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool is_settled(const struct cluster *c, const struct promise *p, int stage)
{
    char name[NAMES_BYTES];
    uint64_t key;

    names_stage_pod(p->job, stage, p->attempt, name);
    key = key_of(p->namespace, name);
    return c->n_settled > 0 &&
           bsearch(&key, c->settled, c->n_settled, sizeof key, compare_keys) != NULL;
}

static bool is_open(const struct cluster *c, const struct promise *p)
{
    uint64_t key = key_of(p->namespace, p->job);

    for (size_t i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].key == key)
            return promise_is_open(p, c->jobs[i].uid, c->jobs[i].attempt, c->jobs[i].is_over);
    return false;
}

void cluster_close(struct cluster *c)
{
    if (c->n_settled > 0)
        qsort(c->settled, c->n_settled, sizeof *c->settled, compare_keys);
    for (size_t i = 0; i < c->n_promises; i++) {
        const struct promise *p = &c->promises[i];

        for (int s = 0; is_open(c, p) && s < p->n_shares; s++)
            if (!is_settled(c, p, s))
                node_objects_use(c->nodes, c->n_nodes, p->shares[s].node, p->shares[s].cpu_milli,
                                 p->shares[s].memory_bytes);
    }
}

/* --- from the API server --- */

struct load {
    struct cluster *cluster;
    const struct job *job;
};

static enum err_code on_node(void *ctx, const struct json *object, struct err *err)
{
    return cluster_add_node(((struct load *)ctx)->cluster, object, err);
}

static enum err_code on_pod(void *ctx, const struct json *object, struct err *err)
{
    struct load *l = ctx;

    return cluster_add_pod(l->cluster, l->job, object, err);
}

static enum err_code on_job(void *ctx, const struct json *object, struct err *err)
{
    return cluster_add_job(((struct load *)ctx)->cluster, object, err);
}

static enum err_code on_plan(void *ctx, const struct json *object, struct err *err)
{
    struct load *l = ctx;

    return cluster_add_plan(l->cluster, l->job, object, err);
}

enum err_code cluster_load(struct kube_client *client, const struct job *job, struct cluster *c,
                           struct err *err)
{
    static const struct kube_resource skyjobs = {NAMES_SKYJOBS, true};
    const struct kube_ref nodes = {.resource = &kube_nodes};
    const struct kube_ref pods = {.resource = &kube_pods};
    const struct kube_ref jobs = {.resource = &skyjobs};
    const struct kube_ref plans = {.resource = &kube_config_maps, .label_selector = LABEL_ATTEMPT};
    struct load load = {c, job};
    enum err_code rc = kube_list(client, &nodes, (struct kube_lister){&load, on_node}, err);

    cluster_close_nodes(c);
    if (rc == ERR_OK)
        rc = kube_list(client, &pods, (struct kube_lister){&load, on_pod}, err);
    if (rc != ERR_OK)
        return rc;
    rc = kube_list(client, &jobs, (struct kube_lister){&load, on_job}, err);
    if (rc == ERR_OK)
        rc = kube_list(client, &plans, (struct kube_lister){&load, on_plan}, err);
    if (rc == ERR_DENIED)
        (void)snprintf(c->unread, sizeof c->unread, "%s", err->text);
    cluster_close(c);
    return rc == ERR_DENIED ? ERR_OK : rc;
}

/* --- from a file --- */

static enum err_code take_node(const struct json *json, struct cluster *c, struct err *err)
{
    if (text_of(json, "metadata.name")[0] == '\0')
        return err_set(err, ERR_INVALID, "a Node has no metadata.name");
    return add_node(c, json, EXCLUDED_NOT, err);
}

static enum err_code take_object(const struct json *json, struct cluster *c, struct err *err)
{
    const char *kind = text_of(json, "kind");
    enum err_code rc = ERR_OK;

    if (strcmp(kind, "Node") == 0)
        return take_node(json, c, err);
    if (strcmp(kind, "List") != 0 && strcmp(kind, "NodeList") != 0)
        return ERR_OK;
    /* Lists hold no lists, so one level is enough. */
    for (const struct json *v = json_first(json_get(json, "items")); v && rc == ERR_OK;
         v = json_next(v))
        if (strcmp(json_string(json_get(v, "kind"), "Node"), "Node") == 0)
            rc = take_node(v, c, err);
    return rc;
}

static enum err_code read_documents(const struct buf *text, struct cluster *c, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK; i++) {
        struct buf json = {.max = CLUSTER_FILE_MAX_BYTES};
        struct json *root = NULL;

        rc = yaml_to_json(buf_text(text), text->len, i, &json, err);
        if (rc == ERR_OK)
            rc = json_parse(buf_text(&json), json.len, &root, err);
        if (rc == ERR_OK)
            rc = take_object(root, c, err);
        json_free(root);
        buf_deinit(&json);
    }
    if (rc != ERR_NOT_FOUND) /* which means that all documents have been read */
        return rc;
    if (c->n_nodes == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "holds no Node; `kubectl get nodes -o yaml` prints them");
    node_objects_sort(c->nodes, c->n_nodes);
    for (size_t i = 1; i < c->n_nodes; i++)
        if (strcmp(c->nodes[i].name, c->nodes[i - 1].name) == 0)
            return err_set(err, ERR_INVALID, "node %.60s is listed twice", c->nodes[i].name);
    return ERR_OK;
}

enum err_code cluster_load_file(const char *path, struct cluster *c, struct err *err)
{
    struct buf text = {.max = CLUSTER_FILE_MAX_BYTES};
    enum err_code rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, err);

    if (rc == ERR_OK) {
        rc = read_documents(&text, c, err);
        if (rc != ERR_OK)
            (void)err_wrap(err, rc, "%s", path);
    }
    buf_deinit(&text);
    return rc;
}

/* The job need not exist yet, so that whatever was measured is older. */
enum err_code cluster_survey(struct cluster *c, const struct job *job, int64_t now_ms,
                             struct err *err)
{
    struct survey_request request = {.spec = &job->spec,
                                     .namespace = job->namespace,
                                     .image = job->spec.worker.image,
                                     .created_ms = INT64_MAX,
                                     .now_ms = now_ms,
                                     .nodes = c->nodes,
                                     .n_nodes = (int)c->n_nodes};

    return survey_make(&request, &c->survey, err);
}

void cluster_deinit(struct cluster *c)
{
    survey_deinit(&c->survey);
    for (size_t i = 0; i < c->n_promises; i++)
        promise_deinit(&c->promises[i]);
    free(c->promises);
    free(c->jobs);
    free(c->settled);
    free(c->nodes);
    *c = (struct cluster){.n_nodes = 0};
}
