#include "cli/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/array.h"
#include "cluster/pod_requests.h"

#define KEY_BYTES 320

static const char *text_of(const struct json *object, const char *path)
{
    return json_string(json_path(object, path), "");
}

static void pod_key(const char *namespace, const char *name, char out[static KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "%s/%s", namespace, name);
}

static enum err_code add_node(struct cluster *c, const struct json *node, enum exclusion unseen,
                              struct err *err)
{
    enum err_code rc =
        array_reserve(&c->nodes, sizeof *c->nodes, &c->nodes_max, c->n_nodes + 1, err);

    if (rc == ERR_OK)
        node_object_read(node, unseen, &c->nodes[c->n_nodes++]);
    return rc;
}

enum err_code cluster_add_node(void *cluster, const struct json *node, struct err *err)
{
    return add_node(cluster, node, EXCLUDED_NOT_READY, err);
}

void cluster_close_nodes(struct cluster *c)
{
    node_objects_sort(c->nodes, c->n_nodes);
}

enum err_code cluster_add_pod(void *cluster, const struct json *pod, struct err *err)
{
    struct cluster *c = cluster;
    const char *namespace = text_of(pod, "metadata.namespace");
    const char *job = json_string(json_get(json_path(pod, "metadata.labels"), LABEL_JOB), "");
    const char *node = text_of(pod, "spec.nodeName");
    struct pod_requests requests = pod_requests_read(pod);
    bool has_ended = pod_has_ended(pod);
    char key[KEY_BYTES];
    struct map_entry *entry;
    enum err_code rc;

    if (*node == '\0' && !has_ended)
        return ERR_OK;
    pod_key(namespace, text_of(pod, "metadata.name"), key);
    rc = map_add(&c->settled, key, strlen(key), &entry, err);
    if (rc == ERR_OK && !has_ended &&
        (strcmp(job, c->job->name) != 0 || strcmp(namespace, c->job->namespace) != 0))
        node_objects_use(c->nodes, c->n_nodes, node, requests.cpu_milli, requests.memory_bytes);
    return rc;
}

enum err_code cluster_add_job(void *cluster, const struct json *skyjob, struct err *err)
{
    struct cluster *c = cluster;
    const char *uid = text_of(skyjob, "metadata.uid");
    int attempt = json_int(json_path(skyjob, "status.attempt"), 0);
    struct map_entry *entry;
    enum err_code rc;

    if (promise_job_is_final(skyjob) || json_path(skyjob, "metadata.deletionTimestamp"))
        return ERR_OK;
    rc = map_add(&c->jobs, uid, strlen(uid), &entry, err);
    if (rc == ERR_OK)
        entry->value.number = attempt > 0 ? (uint64_t)attempt : 0;
    return rc;
}

enum err_code cluster_add_plan(void *cluster, const struct json *config_map, struct err *err)
{
    struct cluster *c = cluster;
    struct promise p;
    enum err_code rc =
        array_reserve(&c->promises, sizeof *c->promises, &c->promises_max, c->n_promises + 1, err);

    if (rc != ERR_OK)
        return rc;
    rc = promise_read(config_map, &p, err);
    if (rc != ERR_OK) /* another error: it only looks like a plan */
        return rc == ERR_NO_MEMORY ? rc : ERR_OK;
    if (strcmp(p.job, c->job->name) == 0 && strcmp(p.namespace, c->job->namespace) == 0)
        promise_deinit(&p);
    else
        c->promises[c->n_promises++] = p;
    return ERR_OK;
}

static bool is_settled(void *ctx, const char *namespace, const char *pod)
{
    const struct cluster *c = ctx;
    char key[KEY_BYTES];

    pod_key(namespace, pod, key);
    return map_find(&c->settled, key, strlen(key)) != NULL;
}

void cluster_close(struct cluster *c)
{
    for (size_t i = 0; i < c->n_promises; i++) {
        const struct promise *p = &c->promises[i];
        const struct map_entry *job = map_find(&c->jobs, p->uid, strlen(p->uid));

        if (job && promise_is_open(p, p->uid, (int)job->value.number, false))
            promise_use(p, (struct promise_pods){c, is_settled}, c->nodes, c->n_nodes);
    }
}

enum err_code cluster_load(struct kube_client *client, struct cluster *c, struct err *err)
{
    static const struct kube_resource skyjobs = {NAMES_SKYJOBS, true};
    const struct kube_ref nodes = {.resource = &kube_nodes};
    const struct kube_ref pods = {.resource = &kube_pods};
    const struct kube_ref jobs = {.resource = &skyjobs};
    const struct kube_ref plans = {.resource = &kube_config_maps, .label_selector = LABEL_ATTEMPT};
    enum err_code rc = kube_list(client, &nodes, (struct kube_lister){c, cluster_add_node}, err);

    cluster_close_nodes(c);
    if (rc == ERR_OK)
        rc = kube_list(client, &pods, (struct kube_lister){c, cluster_add_pod}, err);
    if (rc != ERR_OK)
        return rc;
    rc = kube_list(client, &jobs, (struct kube_lister){c, cluster_add_job}, err);
    if (rc == ERR_OK)
        rc = kube_list(client, &plans, (struct kube_lister){c, cluster_add_plan}, err);
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

static enum err_code take_object(void *ctx, struct json **root, struct err *err)
{
    const char *kind = text_of(*root, "kind");
    enum err_code rc = ERR_OK;

    if (strcmp(kind, "Node") == 0)
        return take_node(*root, ctx, err);
    if (strcmp(kind, "List") != 0 && strcmp(kind, "NodeList") != 0)
        return ERR_OK;
    /* Lists hold no lists, so one level is enough. */
    for (const struct json *v = json_first(json_get(*root, "items")); v && rc == ERR_OK;
         v = json_next(v))
        if (strcmp(json_string(json_get(v, "kind"), "Node"), "Node") == 0)
            rc = take_node(v, ctx, err);
    return rc;
}

enum err_code cluster_load_file(const char *path, struct cluster *c, struct err *err)
{
    enum err_code rc =
        document_each(path, CLUSTER_FILE_MAX_BYTES, (struct document_taker){c, take_object}, err);

    if (rc != ERR_OK)
        return rc;
    if (c->n_nodes == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "%s: contains no Node; `kubectl get nodes -o yaml` prints them", path);
    cluster_close_nodes(c);
    for (size_t i = 1; i < c->n_nodes; i++)
        if (strcmp(c->nodes[i].name, c->nodes[i - 1].name) == 0)
            return err_set(err, ERR_INVALID, "%s: node %.60s is listed twice", path,
                           c->nodes[i].name);
    return ERR_OK;
}

/* The job need not exist yet, so all measurements are older. */
enum err_code cluster_survey(struct cluster *c, int64_t now_ms, struct err *err)
{
    struct survey_request request = {.spec = &c->job->spec,
                                     .namespace = c->job->namespace,
                                     .image = c->job->spec.worker.image,
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
    map_deinit(&c->jobs);
    map_deinit(&c->settled);
    free(c->nodes);
    *c = (struct cluster){.job = c->job};
}
