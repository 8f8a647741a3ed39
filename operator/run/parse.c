#include "run/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bert_config.h"
#include "base/clock.h"
#include "cluster/quantity.h"
#include "control/manifest.h"

#define COPY(array, value) (void)snprintf((array), sizeof(array), "%s", json_string((value), ""))

static const struct json *metadata(const struct json *object, const char *key)
{
    return json_get(json_get(object, "metadata"), key);
}

static const char *label(const struct json *object, const char *key)
{
    return json_string(json_get(metadata(object, "labels"), key), "");
}

/* A whole number from 0 to NAMES_ATTEMPT_MAX; -1 when the label is anything else. */
static int read_number(const struct json *object, const char *key)
{
    const char *text = label(object, key);
    char *end;
    long n = strtol(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && n <= NAMES_ATTEMPT_MAX ? (int)n : -1;
}

static int64_t read_time(const struct json *v)
{
    int64_t ms;

    return clock_parse(json_string(v, ""), &ms, NULL) == ERR_OK ? ms : 0;
}

bool parse_owner(const struct json *object, char out_uid[static OBSERVED_UID_BYTES],
                 char out_key[static QUEUE_KEY_BYTES])
{
    const struct json *owner = promise_owner(object);

    if (!owner)
        return false;
    (void)snprintf(out_uid, OBSERVED_UID_BYTES, "%s", json_string(json_get(owner, "uid"), ""));
    store_key(json_string(metadata(object, "namespace"), ""),
              json_string(json_get(owner, "name"), ""), out_key);
    return true;
}

/* --- SkyJobs --- */

/* With the sizes that the status has of its model. Where those contradict the spec, or are of an
 * older one, decide() reports that or has them read anew. */
static enum err_code take_spec(const struct json *spec, int64_t generation, struct store_job *out,
                               struct err *err)
{
    struct json *filled = NULL;
    struct spec *parsed = malloc(sizeof *parsed);
    char *text = json_print(spec);
    struct json *copy = NULL;
    struct err problem;
    enum err_code rc = parsed && text ? json_parse(text, strlen(text), &copy, err)
                                      : err_set(err, ERR_NO_MEMORY, "no memory for a SkyJob");

    free(text);
    if (rc != ERR_OK) {
        free(parsed);
        return rc;
    }
    if (out->status->generation == generation && out->status->model.hidden > 0 &&
        bert_config_fill("", &out->status->model, copy, &filled, NULL) == ERR_OK) {
        json_free(copy);
        copy = filled;
    }
    json_free(out->spec_json);
    free(out->spec);
    out->spec_json = copy;
    out->spec = parsed;
    if (spec_parse(copy, parsed, &problem) != ERR_OK) {
        (void)snprintf(out->spec_problem, sizeof out->spec_problem, "%s", problem.text);
        free(parsed);
        out->spec = NULL;
    }
    return ERR_OK;
}

static enum err_code take_status(const struct json *json, struct store_job *out, struct err *err)
{
    struct status status;
    struct status *kept;

    status_read(json, &status);
    kept = realloc(out->status, STATUS_BYTES(status.n_stages));
    if (!kept)
        return err_set(err, ERR_NO_MEMORY, "no memory for a SkyJob");
    memcpy(kept, &status, STATUS_BYTES(status.n_stages));
    out->status = kept;
    return ERR_OK;
}

static void drop_documents(struct store_job *job)
{
    json_free(job->spec_json);
    free(job->spec);
    free(job->status);
    job->spec_json = NULL;
    job->spec = NULL;
    job->status = NULL;
}

enum err_code parse_job(const struct json *object, struct store_job *out, struct err *err)
{
    const struct json *status = json_get(object, "status");
    int64_t generation = json_i64(metadata(object, "generation"), 0);
    bool is_new_spec = !out->spec_json || out->generation != generation ||
                       (out->spec && !spec_has_sizes(out->spec));
    enum err_code rc = ERR_OK;

    out->is_final = promise_job_is_final(object);
    if (out->is_final)
        drop_documents(out);
    else
        rc = take_status(status, out, err);
    if (rc == ERR_OK && !out->is_final && is_new_spec)
        rc = take_spec(json_get(object, "spec"), generation, out, err);
    if (rc != ERR_OK)
        return rc;
    COPY(out->namespace, metadata(object, "namespace"));
    COPY(out->name, metadata(object, "name"));
    COPY(out->uid, metadata(object, "uid"));
    COPY(out->version, metadata(object, "resourceVersion"));
    out->generation = generation;
    out->created_ms = read_time(metadata(object, "creationTimestamp"));
    out->is_deleting = metadata(object, "deletionTimestamp") != NULL;
    out->attempt = json_int(json_get(status, "attempt"), 0);
    return ERR_OK;
}

/* --- pods --- */

static enum pod_phase phase_of(const struct json *pod)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed"};
    const char *phase = json_string(json_path(pod, "status.phase"), "");

    for (int i = 0; i < 4; i++)
        if (strcmp(phase, names[i]) == 0)
            return (enum pod_phase)i;
    return POD_PENDING;
}

static void read_conditions(const struct json *pod, struct seen_pod *out)
{
    const struct json *c = json_first(json_path(pod, "status.conditions"));

    for (; c; c = json_next(c)) {
        const char *type = json_string(json_get(c, "type"), "");
        bool is_true = strcmp(json_string(json_get(c, "status"), ""), "True") == 0;

        if (strcmp(type, "Ready") == 0)
            out->is_ready = is_true;
        else if (strcmp(type, "DisruptionTarget") == 0)
            out->is_disrupted = is_true;
        else if (strcmp(type, "PodScheduled") == 0 && !is_true &&
                 strcmp(json_string(json_get(c, "reason"), ""), "Unschedulable") == 0) {
            out->is_unschedulable = true;
            COPY(out->message, json_get(c, "message"));
        }
    }
}

static bool read_model(const char *message, struct model *out)
{
    return fields_parse(bert_config_sizes, message, strlen(message), FIELDS_STRICT, out, NULL) ==
           ERR_OK;
}

/* The worker's last words or the probe's result, whichever the pod is; else text for people. */
static void read_termination(const struct json *ended, struct seen_pod *out)
{
    const char *message = json_string(json_get(ended, "message"), "");

    out->has_exit_code = json_is_i64(json_get(ended, "exitCode"));
    out->exit_code = json_int(json_get(ended, "exitCode"), 0);
    out->finished_ms = read_time(json_get(ended, "finishedAt"));
    COPY(out->reason, json_get(ended, "reason"));
    out->is_out_of_memory = strcmp(out->reason, "OOMKilled") == 0;
    /* The kubelet lost the container, as when its node was reset: not the worker's doing. */
    if (strcmp(out->reason, "ContainerStatusUnknown") == 0 || strcmp(out->reason, "Unknown") == 0)
        out->is_disrupted = true;
    if (out->role == POD_PROBE)
        out->has_probe =
            out->exit_code == 0 && node_probe_read(message, &out->probe, NULL) == ERR_OK;
    else if (out->role == POD_MODEL)
        out->has_model = out->exit_code == 0 && read_model(message, &out->model);
    else
        out->has_progress =
            progress_parse(message, strlen(message), &out->progress, NULL) == ERR_OK;
    if (!out->has_probe && !out->has_model && !out->has_progress)
        (void)snprintf(out->message, sizeof out->message, "%s", message);
}

static void read_container(const struct json *pod, struct seen_pod *out)
{
    const struct json *status = json_first(json_path(pod, "status.containerStatuses"));
    const struct json *state = json_get(status, "state");
    const struct json *waiting = json_get(state, "waiting");

    annotation_digest(json_string(json_get(status, "imageID"), ""), out->digest);
    out->started_ms = read_time(json_path(state, "running.startedAt"));
    if (json_get(state, "terminated")) {
        read_termination(json_get(state, "terminated"), out);
    } else if (waiting) {
        COPY(out->reason, json_get(waiting, "reason"));
        COPY(out->message, json_get(waiting, "message"));
    }
}

/* Reasons of a whole pod for which its node, not its worker, ended it. */
static void read_pod_reason(const struct json *pod, struct seen_pod *out)
{
    static const char *const not_ours[] = {"Evicted",    "Preempting",   "NodeLost",
                                           "Terminated", "NodeShutdown", "Shutdown"};
    const char *reason = json_string(json_path(pod, "status.reason"), "");

    for (size_t i = 0; i < sizeof not_ours / sizeof not_ours[0]; i++)
        if (strcmp(reason, not_ours[i]) == 0)
            out->is_disrupted = true;
    if (out->reason[0] == '\0' && *reason)
        COPY(out->reason, json_path(pod, "status.reason"));
    if (out->message[0] == '\0')
        COPY(out->message, json_path(pod, "status.message"));
}

/* The one node that a pod of ours may run on. */
static const struct json *affinity_node(const struct json *pod)
{
    const struct json *terms =
        json_path(pod, "spec.affinity.nodeAffinity."
                       "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    const struct json *field = json_first(json_get(json_first(terms), "matchFields"));

    return json_first(json_get(field, "values"));
}

static void read_own(const struct json *pod, struct seen_pod *out)
{
    const char *role = label(pod, LABEL_ROLE);
    const struct json *container = json_first(json_path(pod, "spec.containers"));

    COPY(out->name, metadata(pod, "name"));
    COPY(out->uid, metadata(pod, "uid"));
    out->role = strcmp(role, "probe") == 0   ? POD_PROBE
                : strcmp(role, "model") == 0 ? POD_MODEL
                                             : POD_STAGE;
    if (out->role == POD_STAGE) {
        out->stage = read_number(pod, LABEL_STAGE);
        out->attempt = read_number(pod, LABEL_ATTEMPT);
    }
    COPY(out->node, out->role == POD_PROBE ? affinity_node(pod) : json_path(pod, "spec.nodeName"));
    out->phase = phase_of(pod);
    out->is_deleting = metadata(pod, "deletionTimestamp") != NULL;
    out->cpu_milli = (int)quantity_read(json_path(container, "resources.limits.cpu"), true);
    COPY(out->ip, json_path(pod, "status.podIP"));
    out->created_ms = read_time(metadata(pod, "creationTimestamp"));
    read_conditions(pod, out);
    read_container(pod, out);
    read_pod_reason(pod, out);
}

enum err_code parse_pod(const struct json *object, struct store_pod *out, struct err *err)
{
    const char *node = json_string(json_path(object, "spec.nodeName"), "");
    char uid[OBSERVED_UID_BYTES];
    char key[QUEUE_KEY_BYTES];

    COPY(out->uid, metadata(object, "uid"));
    COPY(out->version, metadata(object, "resourceVersion"));
    out->requests = pod_requests_read(object);
    out->has_ended = pod_has_ended(object);
    if (*node) {
        out->node = strdup(node);
        if (!out->node)
            return err_set(err, ERR_NO_MEMORY, "no memory for a pod");
    }
    if (label(object, LABEL_ROLE)[0] == '\0' || !parse_owner(object, uid, key))
        return ERR_OK;
    out->own = calloc(1, sizeof *out->own);
    if (!out->own)
        return err_set(err, ERR_NO_MEMORY, "no memory for a pod");
    memcpy(out->own->job_uid, uid, sizeof uid);
    memcpy(out->own->job_key, key, sizeof key);
    read_own(object, &out->own->seen);
    return ERR_OK;
}

/* --- is a pod what we would have made? --- */

/* What the API server adds to a pod that leaves it out. */
static bool is_default(const char *key)
{
    static const char *const keys[] = {"apiVersion",       "defaultMode",        "dnsPolicy",
                                       "nodeName",         "preemptionPolicy",   "priority",
                                       "resizePolicy",     "schedulerName",      "scheme",
                                       "serviceAccount",   "serviceAccountName", "successThreshold",
                                       "imagePullSecrets", "priorityClassName"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* The API server writes 1000m as 1. */
static bool is_same_value(const struct json *a, const struct json *b)
{
    int64_t n;
    int64_t m;

    return json_equal(a, b) || (quantity_milli(json_string(a, ""), &n, NULL) == ERR_OK &&
                                quantity_milli(json_string(b, ""), &m, NULL) == ERR_OK && n == m);
}

static bool is_same(const struct json *object, const struct json *made)
{
    const struct json *v = json_first(object);

    if (json_kind_of(made) == JSON_OBJECT) {
        for (; v; v = json_next(v))
            if (!json_get(made, json_key(v)) && !is_default(json_key(v)))
                return false;
        for (const struct json *m = json_first(made); m; m = json_next(m))
            if (!is_same(json_get(object, json_key(m)), m))
                return false;
        return json_kind_of(object) == JSON_OBJECT;
    }
    if (json_kind_of(made) != JSON_ARRAY)
        return is_same_value(object, made);
    if (json_kind_of(object) != JSON_ARRAY || json_count(object) != json_count(made))
        return false;
    for (const struct json *m = json_first(made); m; m = json_next(m), v = json_next(v))
        if (!is_same(v, m))
            return false;
    return true;
}

bool parse_is_as_made(const struct json *object, const struct json *made)
{
    const struct json *labels = metadata(object, "labels");

    for (const struct json *m = json_first(metadata(made, "labels")); m; m = json_next(m))
        if (!json_equal(json_get(labels, json_key(m)), m))
            return false;
    return json_equal(metadata(object, "name"), metadata(made, "name")) &&
           is_same(json_get(object, "spec"), json_get(made, "spec"));
}

/* --- volumes --- */

bool parse_is_everywhere(const struct json *claim, const struct json *volume)
{
    bool is_for_many = false;

    for (const struct json *m = json_first(json_path(claim, "spec.accessModes")); m;
         m = json_next(m)) {
        const char *mode = json_string(m, "");

        is_for_many =
            is_for_many || strcmp(mode, "ReadOnlyMany") == 0 || strcmp(mode, "ReadWriteMany") == 0;
    }
    return is_for_many && strcmp(json_string(json_path(claim, "status.phase"), ""), "Bound") == 0 &&
           volume && !json_path(volume, "spec.nodeAffinity");
}

/* --- plans --- */

enum err_code parse_plan(const struct json *object, struct store_plan *out, struct err *err)
{
    out->plan = malloc(sizeof *out->plan);
    if (!out->plan)
        return err_set(err, ERR_NO_MEMORY, "no memory for a plan");
    out->attempt = read_number(object, LABEL_ATTEMPT);
    COPY(out->uid, metadata(object, "uid"));
    if (promise_read_plan(object, out->plan, err) == ERR_OK)
        return promise_of(object, out->plan, &out->promise, err);
    free(out->plan);
    out->plan = NULL;
    return ERR_OK;
}
