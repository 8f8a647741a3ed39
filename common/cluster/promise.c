#include "cluster/promise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/plan.h"

#define COPY(array, text) (void)snprintf((array), sizeof(array), "%s", (text))

static const char *text_of(const struct json *object, const char *path)
{
    return json_string(json_path(object, path), "");
}

const struct json *promise_owner(const struct json *object)
{
    const struct json *owner = json_first(json_path(object, "metadata.ownerReferences"));

    for (; owner; owner = json_next(owner))
        if (strcmp(text_of(owner, "kind"), "SkyJob") == 0 &&
            json_bool(json_get(owner, "controller"), false) &&
            strncmp(text_of(owner, "apiVersion"), NAMES_GROUP "/", strlen(NAMES_GROUP "/")) == 0)
            return owner;
    return NULL;
}

bool promise_job_is_final(const struct json *skyjob)
{
    const struct json *c = json_first(json_path(skyjob, "status.conditions"));

    for (; c; c = json_next(c)) {
        const char *type = text_of(c, "type");

        if (strcmp(text_of(c, "status"), "True") == 0 &&
            (strcmp(type, "Complete") == 0 || strcmp(type, "Failed") == 0))
            return true;
    }
    return false;
}

/* Is the plan that of the object's owner, under the name and label that belong to it? */
static bool is_owners(const struct json *config_map, const struct json *owner,
                      const struct plan *plan)
{
    char name[NAMES_BYTES];
    char attempt[16];

    names_plan(text_of(owner, "name"), plan->attempt, name);
    (void)snprintf(attempt, sizeof attempt, "%d", plan->attempt);
    return strcmp(name, text_of(config_map, "metadata.name")) == 0 &&
           strcmp(plan->uid, text_of(owner, "uid")) == 0 &&
           strcmp(attempt,
                  json_string(json_get(json_path(config_map, "metadata.labels"), LABEL_ATTEMPT),
                              "")) == 0;
}

enum err_code promise_read_plan(const struct json *config_map, struct plan *out, struct err *err)
{
    const struct json *owner = promise_owner(config_map);
    const char *text = json_string(json_get(json_get(config_map, "data"), PLAN_FILE), "");
    enum err_code rc = plan_parse(text, strlen(text), out, err);

    if (rc == ERR_OK && (!owner || !is_owners(config_map, owner, out)))
        rc = err_set(err, ERR_INVALID, "%.60s is not a plan of its owner",
                     text_of(config_map, "metadata.name"));
    return rc;
}

enum err_code promise_of(const struct json *config_map, const struct plan *plan,
                         struct promise *out, struct err *err)
{
    struct promise p = {.attempt = plan->attempt, .n_shares = plan->n_stages};

    p.shares = calloc((size_t)plan->n_stages, sizeof *p.shares);
    if (!p.shares)
        return err_set(err, ERR_NO_MEMORY, "no memory for a plan");
    COPY(p.namespace, text_of(config_map, "metadata.namespace"));
    COPY(p.job, text_of(promise_owner(config_map), "name"));
    COPY(p.uid, plan->uid);
    for (int i = 0; i < plan->n_stages; i++) {
        memcpy(p.shares[i].node, plan->stages[i].node, sizeof p.shares[i].node);
        p.shares[i].cpu_milli = plan->stages[i].cpu_milli;
        p.shares[i].memory_bytes = plan->stages[i].memory_bytes;
    }
    *out = p;
    return ERR_OK;
}

enum err_code promise_read(const struct json *config_map, struct promise *out, struct err *err)
{
    struct plan *plan = malloc(sizeof *plan);
    enum err_code rc = plan ? promise_read_plan(config_map, plan, err)
                            : err_set(err, ERR_NO_MEMORY, "no memory for a plan");

    if (rc == ERR_OK)
        rc = promise_of(config_map, plan, out, err);
    free(plan);
    return rc;
}

void promise_deinit(struct promise *p)
{
    free(p->shares);
    *p = (struct promise){.attempt = 0};
}

bool promise_is_open(const struct promise *p, const char *job_uid, int job_attempt, bool is_over)
{
    return !is_over && strcmp(job_uid, p->uid) == 0 && job_attempt <= p->attempt;
}

void promise_use(const struct promise *p, struct promise_pods pods, struct node_object *nodes,
                 size_t n)
{
    for (int i = 0; i < p->n_shares; i++) {
        char pod[NAMES_BYTES];

        names_stage_pod(p->job, i, p->attempt, pod);
        if (!pods.is_settled(pods.ctx, p->namespace, pod))
            node_objects_use(nodes, n, p->shares[i].node, p->shares[i].cpu_milli,
                             p->shares[i].memory_bytes);
    }
}
