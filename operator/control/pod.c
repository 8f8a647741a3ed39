/* The pods of stages and probes: what they run, what they may use, and what they must not. */
#include <stdio.h>
#include <string.h>

#include "control/manifest.h"
#include "control/manifest_parts.h"

#define USER_ID          65532
#define NODE_GONE_S      30 /* how long a pod stays on a node that does not answer */
#define TERMINATION_S    10
#define PLAN_FOLDER      "/etc/skyjob"
#define DATA_FOLDER      "/data"
#define KEY_FOLDER       "/etc/skyjob-key"
#define KEY_FILE         KEY_FOLDER "/" MANIFEST_KEY_KEY
#define KEY_MODE         0440 /* for the group that fsGroup gives it to */
#define TERMINATION_FILE "/dev/termination-log"
#define COMMAND_MAX      24 /* words, with the NULL behind them */

static const char *pull_policy(const struct observed *seen, const struct spec *spec)
{
    bool is_ours = spec->worker.image[0] == '\0' && seen->settings.pull_policy[0] != '\0';

    return is_ours ? seen->settings.pull_policy : spec->worker.pull_policy;
}

struct container {
    const char *const *command; /* closed by NULL */
    int cpu_milli;
    int64_t memory_bytes;
    const char *config_map; /* mounted at PLAN_FOLDER */
    bool is_stage;
    bool reads_data; /* the head, and probes, which look at how long its sequences are */
};

static void write_affinity(struct jsonw *w, const char *node)
{
    /* Not spec.nodeName: that would skip the scheduler, and with it taints and free resources. */
    jsonw_open_object(w, "affinity");
    jsonw_open_object(w, "nodeAffinity");
    jsonw_open_object(w, "requiredDuringSchedulingIgnoredDuringExecution");
    jsonw_open_array(w, "nodeSelectorTerms");
    jsonw_open_object(w, NULL);
    jsonw_open_array(w, "matchFields");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "key", "metadata.name");
    jsonw_string(w, "operator", "In");
    jsonw_open_array(w, "values");
    jsonw_string(w, NULL, node);
    for (int i = 0; i < 8; i++)
        jsonw_close(w);
}

static void write_tolerations(struct jsonw *w)
{
    static const char *const keys[] = {TAINT_NOT_READY, TAINT_UNREACHABLE};

    jsonw_open_array(w, "tolerations");
    for (int i = 0; i < 2; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "key", keys[i]);
        jsonw_string(w, "operator", "Exists");
        jsonw_string(w, "effect", "NoExecute");
        jsonw_int(w, "tolerationSeconds", NODE_GONE_S);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_pod_security(struct jsonw *w)
{
    jsonw_open_object(w, "securityContext");
    jsonw_bool(w, "runAsNonRoot", true);
    jsonw_int(w, "runAsUser", USER_ID);
    jsonw_int(w, "runAsGroup", USER_ID);
    jsonw_int(w, "fsGroup", USER_ID);
    jsonw_open_object(w, "seccompProfile");
    jsonw_string(w, "type", "RuntimeDefault");
    jsonw_close(w);
    jsonw_close(w);
}

static void write_container_security(struct jsonw *w)
{
    jsonw_open_object(w, "securityContext");
    jsonw_bool(w, "allowPrivilegeEscalation", false);
    jsonw_bool(w, "readOnlyRootFilesystem", true);
    jsonw_open_object(w, "capabilities");
    jsonw_open_array(w, "drop");
    jsonw_string(w, NULL, "ALL");
    for (int i = 0; i < 3; i++)
        jsonw_close(w);
}

/* Requests equal limits, so that the pod gets what it was planned with. */
static void write_resources(struct jsonw *w, const struct container *c)
{
    static const char *const both[] = {"requests", "limits"};

    jsonw_open_object(w, "resources");
    for (int i = 0; i < 2; i++) {
        jsonw_open_object(w, both[i]);
        jsonw_stringf(w, "cpu", "%dm", c->cpu_milli);
        jsonw_stringf(w, "memory", "%lld", (long long)c->memory_bytes);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_environment(struct jsonw *w, const struct container *c)
{
    static const char *const fields[][2] = {{"SKYJOB_NODE", "spec.nodeName"},
                                            {"SKYJOB_POD", "metadata.name"}};

    jsonw_open_array(w, "env");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "SKYJOB_CPU_MILLI");
    jsonw_stringf(w, "value", "%d", c->cpu_milli);
    jsonw_close(w);
    for (int i = 0; i < 2; i++) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "name", fields[i][0]);
        jsonw_open_object(w, "valueFrom");
        jsonw_open_object(w, "fieldRef");
        jsonw_string(w, "fieldPath", fields[i][1]);
        for (int k = 0; k < 3; k++)
            jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_health(struct jsonw *w, const char *key, const char *path, int period_s)
{
    jsonw_open_object(w, key);
    jsonw_open_object(w, "httpGet");
    jsonw_string(w, "path", path);
    jsonw_int(w, "port", PORT_HEALTH);
    jsonw_close(w);
    jsonw_int(w, "periodSeconds", period_s);
    jsonw_int(w, "timeoutSeconds", 5);
    jsonw_int(w, "failureThreshold", 6);
    jsonw_close(w);
}

static void write_ports(struct jsonw *w, bool has_health)
{
    jsonw_open_array(w, "ports");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "control");
    jsonw_int(w, "containerPort", PORT_CONTROL);
    jsonw_close(w);
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "tensor");
    jsonw_int(w, "containerPort", PORT_TENSOR);
    jsonw_close(w);
    if (has_health) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "name", "health");
        jsonw_int(w, "containerPort", PORT_HEALTH);
        jsonw_close(w);
    }
    jsonw_close(w);
}

static void write_mount(struct jsonw *w, const char *name, const char *path, const char *sub_path,
                        bool is_read_only)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", name);
    jsonw_string(w, "mountPath", path);
    if (sub_path[0])
        jsonw_string(w, "subPath", sub_path);
    jsonw_bool(w, "readOnly", is_read_only);
    jsonw_close(w);
}

static bool has_data_volume(const struct container *c, const struct spec *spec)
{
    return c->reads_data && spec->data.source != SPEC_SOURCE_SAMPLE;
}

static void write_mounts(struct jsonw *w, const struct container *c, const struct spec *spec)
{
    jsonw_open_array(w, "volumeMounts");
    write_mount(w, "job", PLAN_FOLDER, "", true);
    write_mount(w, "key", KEY_FOLDER, "", true);
    write_mount(w, "tmp", "/tmp", "", false);
    if (has_data_volume(c, spec))
        write_mount(w, "data", DATA_FOLDER,
                    spec->data.source == SPEC_SOURCE_CLAIM ? spec->data.volume.path : "", true);
    if (c->is_stage && spec->from.claim[0])
        write_mount(w, "model", "/model", spec->from.path, true);
    if (c->is_stage && spec->output.claim[0])
        write_mount(w, "output", "/output", spec->output.path, false);
    jsonw_close(w);
}

/* Where a volume comes from, and what a manifest calls it. */
struct volume_source {
    const char *kind;
    const char *key;
};
static const struct volume_source config_map_source = {"configMap", "name"};
static const struct volume_source claim_source = {"persistentVolumeClaim", "claimName"};

static void write_volume(struct jsonw *w, const char *name, const struct volume_source *from,
                         const char *source)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", name);
    jsonw_open_object(w, from->kind);
    jsonw_string(w, from->key, source);
    jsonw_close(w);
    jsonw_close(w);
}

static void write_key_volume(struct jsonw *w, const char *job)
{
    char name[NAMES_BYTES];

    names_key(job, name);
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "key");
    jsonw_open_object(w, "secret");
    jsonw_string(w, "secretName", name);
    jsonw_int(w, "defaultMode", KEY_MODE);
    jsonw_close(w);
    jsonw_close(w);
}

static void write_volumes(struct jsonw *w, const struct container *c, const char *job,
                          const struct spec *spec)
{
    jsonw_open_array(w, "volumes");
    write_volume(w, "job", &config_map_source, c->config_map);
    write_key_volume(w, job);
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "tmp");
    jsonw_open_object(w, "emptyDir");
    jsonw_close(w);
    jsonw_close(w);
    if (has_data_volume(c, spec) && spec->data.source == SPEC_SOURCE_CONFIG_MAP)
        write_volume(w, "data", &config_map_source, spec->data.config_map);
    if (has_data_volume(c, spec) && spec->data.source == SPEC_SOURCE_CLAIM)
        write_volume(w, "data", &claim_source, spec->data.volume.claim);
    if (c->is_stage && spec->from.claim[0])
        write_volume(w, "model", &claim_source, spec->from.claim);
    if (c->is_stage && spec->output.claim[0])
        write_volume(w, "output", &claim_source, spec->output.claim);
    jsonw_close(w);
}

static void write_container(struct jsonw *w, const struct container *c, const struct observed *seen,
                            const struct spec *spec)
{
    jsonw_open_array(w, "containers");
    jsonw_open_object(w, NULL);
    jsonw_string(w, "name", "worker");
    jsonw_string(w, "image", manifest_image(seen, spec));
    jsonw_string(w, "imagePullPolicy", pull_policy(seen, spec));
    jsonw_open_array(w, "command");
    for (int i = 0; c->command[i]; i++)
        jsonw_string(w, NULL, c->command[i]);
    jsonw_close(w);
    write_environment(w, c);
    write_resources(w, c);
    write_ports(w, c->is_stage);
    if (c->is_stage) {
        write_health(w, "readinessProbe", "/readyz", 1);
        write_health(w, "livenessProbe", "/healthz", 10);
    }
    jsonw_string(w, "terminationMessagePath", TERMINATION_FILE);
    jsonw_string(w, "terminationMessagePolicy", "File");
    write_container_security(w);
    write_mounts(w, c, spec);
    jsonw_close(w);
    jsonw_close(w);
}

/* What is the same for every pod. The caller closes the spec. */
static void open_pod_spec(struct jsonw *w, const struct container *c, const struct observed *seen,
                          const struct spec *spec, const char *node)
{
    jsonw_open_object(w, "spec");
    jsonw_string(w, "restartPolicy", "Never");
    jsonw_bool(w, "automountServiceAccountToken", false);
    jsonw_bool(w, "enableServiceLinks", false);
    jsonw_int(w, "terminationGracePeriodSeconds", TERMINATION_S);
    write_affinity(w, node);
    write_tolerations(w);
    write_pod_security(w);
    write_container(w, c, seen, spec);
    write_volumes(w, c, seen->name, spec);
}

/* What every command of a worker ends with: where it listens, and where its last words go. */
static void end_command(const char *command[static 9])
{
    static const char *const tail[] = {"--control",         "0.0.0.0:7070",   "--tensor",
                                       "0.0.0.0:7071",      "--key",          KEY_FILE,
                                       "--termination-log", TERMINATION_FILE, NULL};

    memcpy(command, tail, sizeof tail);
}

static void fill_stage_command(const struct plan *plan, int stage, char number[static 12],
                               const char *command[static COMMAND_MAX])
{
    int n = 0;

    (void)snprintf(number, 12, "%d", stage);
    command[n++] = "skyjob-worker";
    command[n++] = "stage";
    command[n++] = "--plan";
    command[n++] = PLAN_FOLDER "/" MANIFEST_PLAN_KEY;
    command[n++] = "--stage";
    command[n++] = number;
    if (stage == 0) {
        command[n++] = "--data";
        command[n++] = plan->spec.data.source == SPEC_SOURCE_SAMPLE ? SAMPLE_DIR : DATA_FOLDER;
    }
    if (plan->spec.from.claim[0]) {
        command[n++] = "--model";
        command[n++] = "/model";
    }
    if (plan->spec.output.claim[0]) {
        command[n++] = "--output";
        command[n++] = "/output";
    }
    command[n++] = "--health";
    command[n++] = "0.0.0.0:7072";
    end_command(command + n);
}

_Static_assert(PORT_CONTROL == 7070 && PORT_TENSOR == 7071 && PORT_HEALTH == 7072,
               "the command line above says so too");

enum err_code manifest_stage_pod(const struct observed *seen, int stage, struct buf *out,
                                 struct err *err)
{
    const struct plan *plan = &seen->plan;
    const struct plan_stage *s = &plan->stages[stage];
    char number[12];
    const char *command[COMMAND_MAX];
    char name[NAMES_BYTES];
    char plan_name[NAMES_BYTES];
    struct container c = {.command = command,
                          .cpu_milli = s->cpu_milli,
                          .memory_bytes = s->memory_bytes,
                          .config_map = plan_name,
                          .is_stage = true,
                          .reads_data = stage == 0};
    struct jsonw w;

    names_stage_pod(seen->name, stage, plan->attempt, name);
    names_plan(seen->name, plan->attempt, plan_name);
    fill_stage_command(plan, stage, number, command);
    jsonw_init(&w, out);
    manifest_open(&w, seen, "Pod", name, "worker");
    jsonw_string(&w, LABEL_ROLE, "stage");
    jsonw_stringf(&w, LABEL_STAGE, "%d", stage);
    jsonw_stringf(&w, LABEL_ATTEMPT, "%d", plan->attempt);
    jsonw_close(&w);
    jsonw_close(&w);
    open_pod_spec(&w, &c, seen, &plan->spec, s->node);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}

/* A volume may be bound to one node, and a probe that waits for it on another one would cost the
 * job that node. Lengths of data in such a volume stay unknown. */
static bool can_probes_read(const struct observed *seen, const struct spec *spec)
{
    return spec->data.source != SPEC_SOURCE_CLAIM || seen->is_data_everywhere;
}

static void fill_probe_command(const struct spec *spec, bool reads_data,
                               const char *command[static COMMAND_MAX])
{
    int n = 0;

    command[n++] = "skyjob-worker";
    command[n++] = "probe";
    command[n++] = "--spec";
    command[n++] = PLAN_FOLDER "/" MANIFEST_SPEC_KEY;
    if (reads_data) {
        command[n++] = "--data";
        command[n++] = spec->data.source == SPEC_SOURCE_SAMPLE ? SAMPLE_DIR : DATA_FOLDER;
    }
    end_command(command + n);
}

enum err_code manifest_probe_pod(const struct observed *seen, const struct action *action,
                                 struct buf *out, struct err *err)
{
    const char *command[COMMAND_MAX];
    char name[NAMES_BYTES];
    char spec_name[NAMES_BYTES];
    struct container c = {.command = command,
                          .cpu_milli = action->cpu_milli,
                          .memory_bytes = action->memory_bytes,
                          .config_map = spec_name};
    struct spec spec;
    struct jsonw w;
    enum err_code rc = spec_parse(seen->spec, &spec, err);

    if (rc != ERR_OK)
        return rc;
    c.reads_data = can_probes_read(seen, &spec);
    fill_probe_command(&spec, c.reads_data, command);
    names_probe_pod(seen->name, action->node, name);
    names_probe_spec(seen->name, spec_name);
    jsonw_init(&w, out);
    manifest_open(&w, seen, "Pod", name, "probe");
    jsonw_string(&w, LABEL_ROLE, "probe");
    jsonw_close(&w);
    jsonw_close(&w);
    open_pod_spec(&w, &c, seen, &spec, action->node);
    jsonw_int(&w, "activeDeadlineSeconds", MANIFEST_PROBE_SECONDS);
    if (seen->settings.probe_priority_class[0])
        jsonw_string(&w, "priorityClassName", seen->settings.probe_priority_class);
    jsonw_close(&w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}
