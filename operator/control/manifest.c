#include "control/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/manifest_parts.h"
#include "control/parts.h"

const char *manifest_image(const struct observed *seen, const struct spec *spec)
{
    return spec->worker.image[0] ? spec->worker.image : seen->settings.worker_image;
}

static void write_owner(struct jsonw *w, const struct observed *seen)
{
    jsonw_open_array(w, "ownerReferences");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "apiVersion", NAMES_GROUP "/" NAMES_VERSION);
    jsonw_string(w, "kind", "SkyJob");
    jsonw_string(w, "name", seen->name);
    jsonw_string(w, "uid", seen->uid);
    jsonw_bool(w, "controller", true);
    jsonw_bool(w, "blockOwnerDeletion", true);
    jsonw_close(w);
    jsonw_close(w);
}

static void write_labels(struct jsonw *w, const struct observed *seen, const char *component)
{
    jsonw_string(w, "app.kubernetes.io/name", "skyjob");
    jsonw_string(w, "app.kubernetes.io/instance", seen->name);
    jsonw_string(w, "app.kubernetes.io/component", component);
    jsonw_string(w, "app.kubernetes.io/managed-by", "skyjob-operator");
    jsonw_string(w, LABEL_JOB, seen->name);
    jsonw_string(w, LABEL_JOB_UID, seen->uid);
}

static void open_object(struct jsonw *w, const struct observed *seen, const char *const type[2],
                        const char *name, const char *component)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "apiVersion", type[0]);
    jsonw_string(w, "kind", type[1]);
    jsonw_open_object(w, "metadata");
    jsonw_string(w, "name", name);
    jsonw_string(w, "namespace", seen->namespace);
    write_owner(w, seen);
    jsonw_open_object(w, "labels");
    write_labels(w, seen, component);
}

void manifest_open(struct jsonw *w, const struct observed *seen, const char *kind, const char *name,
                   const char *component)
{
    open_object(w, seen, (const char *const[]){"v1", kind}, name, component);
}

static void write_job_pods(struct jsonw *w, const struct observed *seen, const char *key)
{
    jsonw_open_object(w, key);
    jsonw_open_object(w, "matchLabels");
    jsonw_string(w, LABEL_JOB_UID, seen->uid);
    jsonw_close(w);
    jsonw_close(w);
}

/* "key=value,key=value" */
static void write_pairs(struct jsonw *w, const char *pairs)
{
    while (*pairs) {
        char key[SETTINGS_LABELS_BYTES];
        char value[SETTINGS_LABELS_BYTES];
        size_t n = strcspn(pairs, ",");
        size_t n_key = strcspn(pairs, "=");

        if (n_key < n) {
            (void)snprintf(key, sizeof key, "%.*s", (int)n_key, pairs);
            (void)snprintf(value, sizeof value, "%.*s", (int)(n - n_key - 1), pairs + n_key + 1);
            jsonw_string(w, key, value);
        }
        pairs += n + (pairs[n] == ',');
    }
}

static void write_operator_pods(struct jsonw *w, const struct settings *s)
{
    jsonw_open_object(w, "namespaceSelector");
    jsonw_open_object(w, "matchLabels");
    jsonw_string(w, "kubernetes.io/metadata.name", s->operator_namespace);
    jsonw_close(w);
    jsonw_close(w);
    jsonw_open_object(w, "podSelector");
    jsonw_open_object(w, "matchLabels");
    write_pairs(w, s->operator_labels);
    jsonw_close(w);
    jsonw_close(w);
}

/* Who may reach a port of the job's pods. */
static void write_rule(struct jsonw *w, const struct observed *seen, int port)
{
    bool is_open = port == PORT_HEALTH ||
                   (port == PORT_CONTROL && seen->settings.operator_namespace[0] == '\0');

    jsonw_open_object(w, NULL);
    if (!is_open) {
        jsonw_open_array(w, "from");
        jsonw_open_object(w, NULL);
        if (port == PORT_TENSOR)
            write_job_pods(w, seen, "podSelector");
        else
            write_operator_pods(w, &seen->settings);
        jsonw_close(w);
        jsonw_close(w);
    }
    jsonw_open_array(w, "ports");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "protocol", "TCP");
    jsonw_int(w, "port", port);
    for (int i = 0; i < 3; i++)
        jsonw_close(w);
}

enum err_code manifest_policy(const struct observed *seen, struct buf *out, struct err *err)
{
    static const char *const type[] = {"networking.k8s.io/v1", "NetworkPolicy"};
    char name[NAMES_BYTES];
    struct jsonw w;

    names_policy(seen->name, name);
    jsonw_init(&w, out);
    open_object(&w, seen, type, name, "worker");
    jsonw_close(&w);
    jsonw_close(&w);
    jsonw_open_object(&w, "spec");
    write_job_pods(&w, seen, "podSelector");
    jsonw_open_array(&w, "policyTypes");
    jsonw_string(&w, NULL, "Ingress");
    jsonw_close(&w);
    jsonw_open_array(&w, "ingress");
    write_rule(&w, seen, PORT_TENSOR);
    write_rule(&w, seen, PORT_CONTROL);
    write_rule(&w, seen, PORT_HEALTH);
    for (int i = 0; i < 3; i++)
        jsonw_close(&w);
    return jsonw_finish(&w, err);
}

enum err_code manifest_key(const struct observed *seen, const char *key, struct buf *out,
                           struct err *err)
{
    char name[NAMES_BYTES];
    struct jsonw w;

    names_key(seen->name, name);
    jsonw_init(&w, out);
    manifest_open(&w, seen, "Secret", name, "key");
    jsonw_close(&w);
    jsonw_close(&w);
    jsonw_bool(&w, "immutable", true);
    jsonw_string(&w, "type", "Opaque");
    jsonw_open_object(&w, "stringData");
    jsonw_string(&w, MANIFEST_KEY_KEY, key);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

struct config_map {
    const char *name;
    const char *component;
    const char *key;
    const char *text;
    int attempt; /* label; 0: none */
    bool is_immutable;
};

static enum err_code write_config_map(const struct observed *seen, const struct config_map *m,
                                      struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    manifest_open(&w, seen, "ConfigMap", m->name, m->component);
    if (m->attempt > 0)
        jsonw_stringf(&w, LABEL_ATTEMPT, "%d", m->attempt);
    jsonw_close(&w);
    jsonw_close(&w);
    if (m->is_immutable)
        jsonw_bool(&w, "immutable", true);
    jsonw_open_object(&w, "data");
    jsonw_string(&w, m->key, m->text);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

enum err_code manifest_plan(const struct observed *seen, const struct plan *plan, struct buf *out,
                            struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    char name[NAMES_BYTES];
    enum err_code rc = plan_write(plan, seen->spec, &text, err);

    names_plan(seen->name, plan->attempt, name);
    if (rc == ERR_OK)
        rc = write_config_map(seen,
                              &(struct config_map){.name = name,
                                                   .component = "plan",
                                                   .key = MANIFEST_PLAN_KEY,
                                                   .text = buf_text(&text),
                                                   .attempt = plan->attempt,
                                                   .is_immutable = true},
                              out, err);
    buf_deinit(&text);
    return rc;
}

enum err_code manifest_probe_spec(const struct observed *seen, struct buf *out, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    char name[NAMES_BYTES];
    struct jsonw w;
    enum err_code rc;

    names_probe_spec(seen->name, name);
    jsonw_init(&w, &text);
    jsonw_value(&w, NULL, seen->spec);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = write_config_map(seen,
                              &(struct config_map){.name = name,
                                                   .component = "probe",
                                                   .key = MANIFEST_SPEC_KEY,
                                                   .text = buf_text(&text)},
                              out, err);
    buf_deinit(&text);
    return rc;
}

static enum err_code mark_of(const struct observed *seen, const struct action *action,
                             struct mark_probe *out, struct err *err)
{
    struct spec spec;
    const struct seen_node *node = NULL;
    const struct seen_pod *pod = NULL;
    enum err_code rc = spec_parse(seen->spec, &spec, err);

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < seen->n_nodes; i++)
        if (strcmp(seen->nodes[i].name, action->node) == 0)
            node = &seen->nodes[i];
    for (int i = 0; i < seen->n_pods; i++)
        if (strcmp(seen->pods[i].name, action->name) == 0)
            pod = &seen->pods[i];
    if (!node || !pod)
        return err_set(err, ERR_NOT_FOUND, "node %.60s or its probe is gone", action->node);
    nodes_mark(seen, &spec, node, pod, out);
    return ERR_OK;
}

enum err_code manifest_node_patch(const struct observed *seen, const struct action *action,
                                  struct buf *out, struct err *err)
{
    struct buf text = {.max = MARK_TEXT_MAX_BYTES};
    struct mark_probe mark;
    struct jsonw w;
    enum err_code rc = mark_of(seen, action, &mark, err);

    if (rc == ERR_OK)
        rc = mark_probe_write(&mark, &text, err);
    if (rc == ERR_OK) {
        jsonw_init(&w, out);
        jsonw_open_object(&w, NULL);
        jsonw_open_object(&w, "metadata");
        jsonw_open_object(&w, "labels");
        jsonw_stringf(&w, LABEL_MEASURED_GFLOPS, "%.3f", mark_gflops(&mark));
        jsonw_close(&w);
        jsonw_open_object(&w, "annotations");
        jsonw_string(&w, ANNOTATION_PROBE, buf_text(&text));
        jsonw_null(&w, ANNOTATION_DOUBTED);
        jsonw_close(&w);
        jsonw_close(&w);
        jsonw_close(&w);
        rc = jsonw_finish(&w, err);
    }
    buf_deinit(&text);
    return rc;
}

enum err_code manifest_doubt_patch(const struct observed *seen, struct buf *out, struct err *err)
{
    char time[CLOCK_TEXT_BYTES];
    struct jsonw w;

    clock_format(seen->now_ms, time);
    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_open_object(&w, "annotations");
    jsonw_string(&w, ANNOTATION_DOUBTED, time);
    jsonw_close(&w);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

enum err_code manifest_status_patch(const struct status *status, const char *resource_version,
                                    struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_string(&w, "resourceVersion", resource_version);
    jsonw_close(&w);
    status_write(status, &w, "status");
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}
