#include "run/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/bert_config.h"
#include "base/clock.h"
#include "cluster/node_object.h"
#include "control/manifest.h"

static const struct json *metadata(const struct json *object, const char *key)
{
    return json_get(json_get(object, "metadata"), key);
}

static const char *label(const struct json *object, const char *key)
{
    return json_string(json_get(metadata(object, "labels"), key), "");
}

/* A whole number from 0 to PLAN_REVISION_MAX; -1 when the text is anything else. */
static int whole_number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && n <= PLAN_REVISION_MAX ? (int)n : -1;
}

static int read_number(const struct json *object, const char *key)
{
    return whole_number(label(object, key));
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
    (void)snprintf(out_uid, OBSERVED_UID_BYTES, "%s", json_text(owner, "uid"));
    store_key(json_string(metadata(object, "namespace"), ""), json_text(owner, "name"), out_key);
    return true;
}

/* --- SkyJobs --- */

void parse_release_spec(struct store_spec **spec)
{
    if (*spec && --(*spec)->n_users == 0) {
        json_free((*spec)->json);
        free((*spec)->parsed);
        free(*spec);
    }
    *spec = NULL;
}

/* With the sizes that the status has of its model. Where those contradict the spec, or are of an
 * older one, decide() reports that or has them read anew. */
static enum err_code take_spec(const struct json *json, int64_t generation,
                               const struct status *status, struct store_job *out, struct err *err)
{
    struct json *filled = NULL;
    struct store_spec *spec = calloc(1, sizeof *spec);
    char *text = json_print(json);
    struct spec parsed = {0};
    struct err problem;
    enum err_code rc = spec && text ? json_parse(text, strlen(text), &spec->json, err)
                                    : err_set(err, ERR_NO_MEMORY, "no memory for a SkyJob");

    free(text);
    if (rc != ERR_OK) {
        free(spec);
        return rc;
    }
    if (status->generation == generation && status->model.hidden > 0 &&
        bert_config_fill("", &status->model, spec->json, &filled, NULL) == ERR_OK) {
        json_free(spec->json);
        spec->json = filled;
    }
    spec->n_users = 1;
    rc = spec_parse(spec->json, &parsed, &problem);
    if (rc == ERR_OK)
        rc = spec_check_best(&parsed, parsed.output.claim[0], &problem);
    if (rc == ERR_OK)
        rc = sparse_new(&parsed, sizeof parsed, &spec->parsed, &problem);
    if (rc == ERR_NO_MEMORY) { /* which says nothing about the spec */
        parse_release_spec(&spec);
        return err_set(err, rc, "%s", problem.text);
    }
    spec->is_valid = rc == ERR_OK;
    spec->has_sizes = spec->is_valid && spec_has_sizes(&parsed);
    if (!spec->is_valid)
        (void)snprintf(spec->problem, sizeof spec->problem, "%s", problem.text);
    parse_release_spec(&out->spec);
    out->spec = spec;
    return ERR_OK;
}

void parse_drop_job(struct store_job *job)
{
    parse_release_spec(&job->spec);
    free(job->status);
    job->status = NULL;
    job->trains = false;
    store_forget_certificates(&job->certificates);
}

/* A job without a status is about to get the first state. */
static int state_of(const struct json *status)
{
    const char *word = json_string(json_get(status, "state"), status_states[0]);
    int i = 0;

    while (i < STATUS_STATES && strcmp(word, status_states[i]) != 0)
        i++;
    return i;
}

enum err_code parse_job(const struct json *object, struct store_job *out, struct err *err)
{
    const struct json *json = json_get(object, "status");
    const struct json *annotations = metadata(object, "annotations");
    const char *asked = json_string(json_get(annotations, ANNOTATION_REPLAN), "");
    const char *manager = json_string(json_path(object, "spec.managedBy"), SPEC_MANAGER);
    int64_t ttl_s = json_i64(json_path(object, "spec.ttlSecondsAfterFinished"), -1);
    int64_t ended_ms = read_time(json_get(json, "completionTime"));
    struct status status;
    struct sparse *kept;
    int64_t generation = json_i64(metadata(object, "generation"), 0);
    bool is_new_spec = !out->spec || out->generation != generation ||
                       (out->spec->is_valid && !out->spec->has_sizes);
    enum err_code rc = ERR_OK;

    out->is_final = promise_job_is_final(object);
    out->state = state_of(json);
    if (out->is_final) {
        out->is_stalled = false;
        parse_drop_job(out);
    } else {
        status_read(json, &status);
        rc = sparse_new(&status, STATUS_BYTES(status.n_stages), &kept, err);
        if (rc != ERR_OK)
            return rc;
        free(out->status);
        out->status = kept;
        out->trains = status_is(&status, CONDITION_RUNNING);
        out->is_stalled = status_is(&status, CONDITION_STALLED);
        if (is_new_spec)
            rc = take_spec(json_get(object, "spec"), generation, &status, out, err);
    }
    if (rc != ERR_OK)
        return rc;
    JSON_COPY(out->namespace, metadata(object, "namespace"));
    JSON_COPY(out->name, metadata(object, "name"));
    JSON_COPY(out->uid, metadata(object, "uid"));
    JSON_COPY(out->version, metadata(object, "resourceVersion"));
    (void)snprintf(out->asked, sizeof out->asked, "%s",
                   strlen(asked) < sizeof out->asked ? asked : "");
    out->generation = generation;
    out->created_ms = read_time(metadata(object, "creationTimestamp"));
    out->is_deleting = metadata(object, "deletionTimestamp") != NULL;
    out->is_foreign = strcmp(manager, SPEC_MANAGER) != 0;
    out->expires_ms = out->is_final && ttl_s >= 0 && ended_ms > 0 ? ended_ms + 1000 * ttl_s : 0;
    JSON_COPY(out->checkpoint_time, json_get(annotations, ANNOTATION_CHECKPOINT));
    out->revision = json_int(json_get(json, "revision"), 0);
    return ERR_OK;
}

/* --- pods --- */

static void read_conditions(const struct json *pod, struct seen_pod *out)
{
    const struct json *c = json_first(json_path(pod, "status.conditions"));

    for (; c; c = json_next(c)) {
        const char *type = json_text(c, "type");
        bool is_true = strcmp(json_text(c, "status"), "True") == 0;

        if (strcmp(type, "Ready") == 0)
            out->is_ready = is_true;
        else if (strcmp(type, "DisruptionTarget") == 0)
            out->is_disrupted = is_true;
        else if (strcmp(type, "PodScheduled") == 0 && !is_true &&
                 strcmp(json_text(c, "reason"), "Unschedulable") == 0) {
            out->is_unschedulable = true;
            JSON_COPY(out->message, json_get(c, "message"));
        }
    }
}

/* A worker's final report, a probe's result or a model's sizes; any other text is for people. */
static enum err_code read_termination(const struct json *ended, struct store_own *own,
                                      struct err *err)
{
    const char *message = json_text(ended, "message");
    struct seen_pod *out = &own->seen;
    union store_left left;
    enum err_code rc;

    out->has_exit_code = json_is_i64(json_get(ended, "exitCode"));
    out->exit_code = json_int(json_get(ended, "exitCode"), 0);
    out->finished_ms = read_time(json_get(ended, "finishedAt"));
    JSON_COPY(out->reason, json_get(ended, "reason"));
    out->is_out_of_memory = strcmp(out->reason, "OOMKilled") == 0;
    /* The kubelet lost the container, as when its node was reset: not the worker's fault. */
    if (strcmp(out->reason, "ContainerStatusUnknown") == 0 || strcmp(out->reason, "Unknown") == 0)
        out->is_disrupted = true;
    memset(&left, 0, sizeof left);
    if (out->role == POD_WORKER)
        rc = progress_parse(message, strlen(message), &left.progress, NULL);
    else if (out->exit_code != 0)
        rc = ERR_INVALID;
    else if (out->role == POD_PROBE)
        rc = node_probe_read(message, &left.probe, NULL);
    else
        rc = fields_parse(bert_config_sizes, message, strlen(message), FIELDS_STRICT, &left.model,
                          NULL);
    if (rc == ERR_OK)
        return sparse_new(&left, sizeof left, &own->left, err);
    (void)snprintf(out->message, sizeof out->message, "%s", message);
    return ERR_OK;
}

/* Is this member of its Secret in the volume? */
static bool has_item(const struct json *volume, const char *key)
{
    const struct json *item = json_first(json_path(volume, "secret.items"));

    while (item && strcmp(json_text(item, "key"), key) != 0)
        item = json_next(item);
    return item;
}

static enum err_code read_own(const struct json *pod, struct store_own *own, struct err *err)
{
    struct seen_pod *out = &own->seen;
    /* Reasons of a whole pod for which its node, not its worker, ended it. */
    static const char *const not_ours[] = {"Evicted",    "Preempting",   "NodeLost",
                                           "Terminated", "NodeShutdown", "Shutdown"};
    const char *role = label(pod, LABEL_ROLE);
    const char *reason = json_text(pod, "status.reason");
    const struct json *gate = json_first(json_path(pod, "spec.schedulingGates"));
    const char *group = strrchr(label(pod, KUEUE_GROUP), 'g'); /* names_group() */
    const char *group_size = json_string(json_get(metadata(pod, "annotations"), KUEUE_SIZE), "0");
    const struct json *container = json_first(json_path(pod, "spec.containers"));
    const struct json *status = json_first(json_path(pod, "status.containerStatuses"));
    const struct json *state = json_get(status, "state");
    /* The one node that a pod of ours may run on. */
    const struct json *terms =
        json_path(pod, "spec.affinity.nodeAffinity."
                       "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    const struct json *field = json_first(json_get(json_first(terms), "matchFields"));
    const struct json *volume = json_first(json_path(pod, "spec.volumes"));
    char metrics_file[NAMES_BYTES];
    enum err_code rc = ERR_OK;

    manifest_certificate_file(MANIFEST_METRICS, "crt", metrics_file);
    JSON_COPY(out->name, metadata(pod, "name"));
    JSON_COPY(out->uid, metadata(pod, "uid"));
    out->role = strcmp(role, "probe") == 0   ? POD_PROBE
                : strcmp(role, "model") == 0 ? POD_MODEL
                                             : POD_WORKER;
    if (out->role == POD_WORKER) {
        out->slot = read_number(pod, LABEL_SLOT);
        out->incarnation = read_number(pod, LABEL_INCARNATION);
        out->group = group ? whole_number(group + 1) : 0;
        out->group_size = whole_number(group_size);
    }
    JSON_COPY(out->node, out->role == POD_PROBE ? json_first(json_get(field, "values"))
                                                : json_path(pod, "spec.nodeName"));
    for (int i = 0; i < POD_PHASES; i++) /* Pending while it is none of them */
        if (strcmp(json_text(pod, "status.phase"), pod_phase_names[i]) == 0)
            out->phase = (enum pod_phase)i;
    out->is_deleting = metadata(pod, "deletionTimestamp") != NULL;
    out->grace_ms = json_i64(metadata(pod, "deletionGracePeriodSeconds"), 0) * 1000;
    out->cpu_milli = (int)quantity_read(json_path(container, "resources.limits.cpu"), true);
    out->memory_bytes = quantity_read(json_path(container, "resources.limits.memory"), false);
    for (; volume; volume = json_next(volume))
        if (strcmp(json_text(volume, "name"), MANIFEST_TLS_VOLUME) == 0) {
            out->has_tls = true;
            out->has_metrics = has_item(volume, metrics_file);
        }
    JSON_COPY(out->ip, json_path(pod, "status.podIP"));
    out->created_ms = read_time(metadata(pod, "creationTimestamp"));
    read_conditions(pod, out);
    if (gate) {
        out->is_gated = true;
        (void)snprintf(out->reason, sizeof out->reason, "SchedulingGated");
        JSON_COPY(out->message, json_get(gate, "name"));
    }
    annotation_digest(json_text(status, "imageID"), out->digest);
    out->started_ms = read_time(json_path(state, "running.startedAt"));
    if (json_get(state, "terminated")) {
        rc = read_termination(json_get(state, "terminated"), own, err);
    } else if (json_get(state, "waiting")) {
        JSON_COPY(out->reason, json_path(state, "waiting.reason"));
        JSON_COPY(out->message, json_path(state, "waiting.message"));
    }
    for (size_t i = 0; i < sizeof not_ours / sizeof not_ours[0]; i++)
        if (strcmp(reason, not_ours[i]) == 0)
            out->is_disrupted = true;
    if (out->reason[0] == '\0')
        JSON_COPY(out->reason, json_path(pod, "status.reason"));
    if (out->message[0] == '\0')
        JSON_COPY(out->message, json_path(pod, "status.message"));
    return rc;
}

enum err_code parse_pod(const struct json *object, struct store_pod *out, struct err *err)
{
    const char *node = json_text(object, "spec.nodeName");
    bool is_ours = label(object, LABEL_ROLE)[0] != '\0';
    char uid[OBSERVED_UID_BYTES];
    char key[QUEUE_KEY_BYTES];

    JSON_COPY(out->uid, metadata(object, "uid"));
    JSON_COPY(out->version, metadata(object, "resourceVersion"));
    out->requests = pod_requests_read(object);
    out->has_ended = pod_has_ended(object);
    is_ours = is_ours && parse_owner(object, uid, key);
    if (*node)
        out->node = strdup(node);
    if (is_ours)
        out->own = calloc(1, sizeof *out->own);
    if ((*node && !out->node) || (is_ours && !out->own))
        return err_set(err, ERR_NO_MEMORY, "no memory for a pod");
    if (!is_ours)
        return ERR_OK;
    memcpy(out->own->job_uid, uid, sizeof uid);
    memcpy(out->own->job_key, key, sizeof key);
    return read_own(object, out->own, err);
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

/* What a platform adds to a pod without a user, such as OpenShift. */
static bool is_of_user(const char *key)
{
    return strcmp(key, "runAsUser") == 0 || strcmp(key, "fsGroup") == 0 ||
           strcmp(key, "seLinuxOptions") == 0;
}

static bool is_same(const struct json *object, const struct json *made, bool lacks_user)
{
    const struct json *v = json_first(object);
    int64_t n;
    int64_t m;

    if (json_kind_of(made) == JSON_OBJECT) {
        for (; v; v = json_next(v))
            if (!json_get(made, json_key(v)) && !is_default(json_key(v)) &&
                !(lacks_user && is_of_user(json_key(v))))
                return false;
        for (v = json_first(made); v; v = json_next(v))
            if (!is_same(json_get(object, json_key(v)), v, lacks_user))
                return false;
        return json_kind_of(object) == JSON_OBJECT;
    }
    if (json_kind_of(made) != JSON_ARRAY) /* the API server writes 1000m as 1 */
        return json_equal(object, made) ||
               (quantity_parse(json_string(object, ""), true, &n, NULL) == ERR_OK &&
                quantity_parse(json_string(made, ""), true, &m, NULL) == ERR_OK && n == m);
    if (json_kind_of(object) != JSON_ARRAY || json_count(object) != json_count(made))
        return false;
    for (made = json_first(made); made; made = json_next(made), v = json_next(v))
        if (!is_same(v, made, lacks_user))
            return false;
    return true;
}

bool parse_is_as_made(const struct json *object, const struct json *made)
{
    const struct json *labels = metadata(object, "labels");
    const struct json *security = json_path(made, "spec.securityContext");
    bool lacks_user = security && !json_get(security, "runAsUser");

    for (const struct json *m = json_first(metadata(made, "labels")); m; m = json_next(m))
        if (!json_equal(json_get(labels, json_key(m)), m))
            return false;
    return json_equal(metadata(object, "name"), metadata(made, "name")) &&
           is_same(json_get(object, "spec"), json_get(made, "spec"), lacks_user);
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
    return is_for_many && strcmp(json_text(claim, "status.phase"), "Bound") == 0 && volume &&
           !json_path(volume, "spec.nodeAffinity");
}

/* --- revisions --- */

enum err_code parse_revision(const struct json *object, struct store_revision *out, struct err *err)
{
    const char *text = json_string(json_get(json_get(object, "data"), REVISION_FILE), "");
    size_t n = strlen(text);
    struct revision parsed = {0};
    enum err_code rc;

    out->number = read_number(object, LABEL_REVISION);
    JSON_COPY(out->uid, metadata(object, "uid"));
    rc = promise_read(object, &parsed, err);
    if (rc != ERR_OK)
        return rc == ERR_NO_MEMORY ? rc : ERR_OK;
    rc = sparse_new(&parsed, sizeof parsed, &out->parsed, err);
    if (rc != ERR_OK)
        return rc;
    if (n > REVISION_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "a revision of more than %d bytes", REVISION_TEXT_MAX_BYTES);
    /* Without room for more: there are many. */
    out->text = (struct buf){.data = strdup(text), .len = n, .cap = n + 1, .max = n};
    return out->text.data ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for a revision");
}
