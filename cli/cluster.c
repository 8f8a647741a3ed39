#include "cli/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/buf.h"
#include "cluster/node_object.h"

#define KEY_BYTES 320

const struct kube_resource cluster_skyjobs = {NAMES_SKYJOBS, true};

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
        rc = node_object_read(node, unseen, &c->nodes[c->n_nodes], err);
    c->n_nodes += rc == ERR_OK;
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
    const char *namespace = json_text(pod, "metadata.namespace");
    const char *job = json_string(json_get(json_path(pod, "metadata.labels"), LABEL_JOB), "");
    const char *node = json_text(pod, "spec.nodeName");
    struct pod_requests requests = pod_requests_read(pod);
    bool has_ended = pod_has_ended(pod);
    char key[KEY_BYTES];
    struct map_entry *entry;
    enum err_code rc;

    if (*node == '\0' && !has_ended)
        return ERR_OK;
    pod_key(namespace, json_text(pod, "metadata.name"), key);
    rc = map_add(&c->settled, key, strlen(key), &entry, err);
    if (rc == ERR_OK && !has_ended &&
        (strcmp(job, c->job->name) != 0 || strcmp(namespace, c->job->namespace) != 0))
        node_objects_use(c->nodes, c->n_nodes, node, requests.cpu_milli, requests.memory_bytes);
    return rc;
}

enum err_code cluster_add_job(void *cluster, const struct json *skyjob, struct err *err)
{
    struct cluster *c = cluster;
    const char *uid = json_text(skyjob, "metadata.uid");
    int revision = json_int(json_path(skyjob, "status.revision"), 0);
    struct map_entry *entry;
    enum err_code rc;

    if (promise_job_is_final(skyjob) || json_path(skyjob, "metadata.deletionTimestamp"))
        return ERR_OK;
    rc = map_add(&c->jobs, uid, strlen(uid), &entry, err);
    if (rc == ERR_OK)
        entry->value.number = revision > 0 ? (uint64_t)revision : 0;
    return rc;
}

static bool is_settled(void *ctx, const char *namespace, const char *pod)
{
    const struct cluster *c = ctx;
    char key[KEY_BYTES];

    pod_key(namespace, pod, key);
    return map_find(&c->settled, key, strlen(key)) != NULL;
}

enum err_code cluster_add_plan(void *cluster, const struct json *config_map, struct err *err)
{
    struct cluster *c = cluster;
    struct revision revision;
    const struct plan *plan = &revision.plan;
    const struct map_entry *job;
    enum err_code rc = promise_read(config_map, &revision, err);

    if (rc != ERR_OK) /* another error: it only looks like a revision */
        return rc == ERR_NO_MEMORY ? rc : ERR_OK;
    job = map_find(&c->jobs, plan->uid, strlen(plan->uid));
    if (job && promise_is_open(plan, plan->uid, (int)job->value.number, false) &&
        (strcmp(plan->job, c->job->name) != 0 || strcmp(plan->namespace, c->job->namespace) != 0))
        promise_use(plan, (struct promise_pods){c, is_settled}, c->nodes, c->n_nodes);
    return ERR_OK;
}

enum err_code cluster_load(struct kube_client *client, struct cluster *c, struct err *err)
{
    const struct kube_ref nodes = {.resource = &kube_nodes};
    const struct kube_ref pods = {.resource = &kube_pods};
    const struct kube_ref jobs = {.resource = &cluster_skyjobs};
    const struct kube_ref plans = {.resource = &kube_config_maps, .label_selector = LABEL_REVISION};
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
    return rc == ERR_DENIED ? ERR_OK : rc;
}

/* --- from a file --- */

static enum err_code take_node(const struct json *json, struct cluster *c, struct err *err)
{
    if (json_text(json, "metadata.name")[0] == '\0')
        return err_set(err, ERR_INVALID, "a Node has no metadata.name");
    return add_node(c, json, EXCLUDED_NOT, err);
}

static enum err_code take_object(void *ctx, struct json **root, struct err *err)
{
    const char *kind = json_text(*root, "kind");
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
                                     .worker = json_get(c->job->spec_json, "worker"),
                                     .nodes = c->nodes,
                                     .n_nodes = (int)c->n_nodes};

    return survey_make(&request, &c->survey, err);
}

void cluster_deinit(struct cluster *c)
{
    survey_deinit(&c->survey);
    map_deinit(&c->jobs);
    map_deinit(&c->settled);
    for (size_t i = 0; i < c->n_nodes; i++)
        node_object_deinit(&c->nodes[i]);
    free(c->nodes);
    *c = (struct cluster){.job = c->job};
}
