/* Every object is a template that reads like the object. */
#include "control/manifest.h"

#include <stdio.h>
#include <string.h>

#include "balance/cost.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "control/context.h"

/* ISO C promises 4095 bytes; the compilers that we use have no limit. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Kueue counts a pod as one of its role, and with the requests of the first one; without a role of
 * its own a replacement on another node would be a stranger. 8 roles are the most that it takes;
 * a slot and its substitute have the same one. */
#define KUEUE_ROLES 8

#define VALUES_MAX       80
#define BUCKET_URL_BYTES (SPEC_BUCKET_BYTES + SPEC_PATH_BYTES + NAMES_BYTES + 8)

/* For a worker whose node is drained: another pod is started, its image pulled if need be, and a
 * gigabyte moved. Pods that the operator deletes itself are not given as much. */
#define WORKER_GRACE_S  60
#define ONESHOT_GRACE_S 10

/* It reads a few kilobytes, and maps the headers of the weights. */
#define READER_CPU_MILLI    100
#define READER_MEMORY_BYTES (256 * MIB)

#define SPARE_DISK_PERCENT  15 /* a kubelet evicts pods when less of its node's disk is free */
#define SAVED_RECORDS_BYTES (64 * MIB) /* beside the weights and moments of a checkpoint */

/* What all of them share. */
#define METADATA                                                                                   \
    "'metadata': {"                                                                                \
    "  'name': $name, 'namespace': $namespace,"                                                    \
    "  'ownerReferences': [{"                                                                      \
    "    'apiVersion': '" NAMES_GROUP "/" NAMES_VERSION "', 'kind': 'SkyJob', 'name': $job,"       \
    "    'uid': $job_uid, 'controller': true, 'blockOwnerDeletion': true}],"                       \
    "  'labels': {"                                                                                \
    "    'app.kubernetes.io/name': 'skyjob', 'app.kubernetes.io/instance': $job,"                  \
    "    'app.kubernetes.io/component': $component,"                                               \
    "    'app.kubernetes.io/managed-by': 'skyjob-operator',"                                       \
    "    '" LABEL_JOB "': $job, '" LABEL_JOB_UID "': $job_uid,"                                    \
    "    '" LABEL_ROLE "': $role,"                                                                 \
    "    '" LABEL_SLOT "': ?is_worker '$slot', '" LABEL_INCARNATION                                \
    "': ?is_worker '$incarnation',"                                                                \
    "    '" LABEL_REVISION "': ?revision '$revision', '" KUEUE_GROUP "': ?group $group,"           \
    "    *pod_labels},"                                                                            \
    "  'annotations': ?has_annotations {"                                                          \
    "    '" KUEUE_SIZE "': ?group '$group_size', '" KUEUE_ROLE "': ?group 'w$group_role',"         \
    "    '" KUEUE_RETRY "': ?group 'false',"                                                       \
    "    *pod_annotations}}"

struct object {
    const char *name;
    const char *component;
    const char *role;          /* of a pod, else NULL */
    struct revision_worker id; /* of a worker's pod */
    int revision;              /* of a revision's ConfigMap; 0: another object */
    int group;                 /* of a worker's pod; 0: none */
    int group_size;
};

static bool has_role(const struct object *o, const char *role)
{
    return o->role && strcmp(o->role, role) == 0;
}

static enum err_code write_template(const char *text, const struct jsont_value *values,
                                    size_t n_values, struct buf *out, struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsont_write(&w, NULL, text, values, n_values);
    return jsonw_finish(&w, err);
}

/* Fill in a template with what all objects have and with `own`. */
static enum err_code write_object(const char *text, const struct observed *seen,
                                  const struct object *o, const struct jsont_value *own,
                                  size_t n_own, struct buf *out, struct err *err)
{
    const struct json *worker = o->role ? json_get(seen->spec_json, "worker") : NULL;
    const struct json *annotations = json_get(worker, "annotations");
    char group[NAMES_BYTES];
    struct jsont_value values[VALUES_MAX] = {
        JSONT_S("name", o->name),
        JSONT_V("pod_labels", json_get(worker, "labels")),
        JSONT_V("pod_annotations", annotations),
        JSONT_IF("has_annotations", annotations || o->group > 0),
        JSONT_S("group", o->group > 0 ? group : NULL),
        JSONT_I("group_size", o->group_size),
        JSONT_I("group_role", o->id.slot % KUEUE_ROLES),
        JSONT_S("namespace", seen->namespace),
        JSONT_S("job", seen->name),
        JSONT_S("job_uid", seen->uid),
        JSONT_S("component", o->component),
        JSONT_S("role", o->role),
        JSONT_IF("is_worker", has_role(o, "worker")),
        JSONT_IF("is_probe", has_role(o, "probe")),
        JSONT_IF("is_model", has_role(o, "model")),
        JSONT_IF("has_peers", !has_role(o, "model")),
        JSONT_I_IF("slot", has_role(o, "worker"), o->id.slot),
        JSONT_I_IF("incarnation", has_role(o, "worker"), o->id.incarnation),
        JSONT_I_IF("revision", o->revision > 0, o->revision),
    };
    size_t n = 0;

    names_group(seen->name, seen->uid, o->group, group);
    while (values[n].name)
        n++;
    for (size_t i = 0; i < n_own && n < VALUES_MAX; i++)
        values[n++] = own[i];
    return write_template(text, values, n, out, err);
}

/* --- pods --- */

const char *manifest_image(const struct observed *seen, const struct spec *spec)
{
    const char *first = seen->status.placement.image;

    if (spec->worker.image[0])
        return spec->worker.image;
    return first[0] ? first : seen->settings.worker_image;
}

/* Requests equal limits, so that a pod gets what it was planned with. The node is chosen by
 * affinity and not by spec.nodeName, which would skip the scheduler and with it taints and free
 * resources; the pod that reads the model leaves it to the scheduler, which knows where its volume
 * can be mounted. The key's mode is 0440, for the group that fsGroup gives it to. After a restart
 * the operator compares its pods with this text (parse_is_as_made), so it has what the API server
 * would add ('protocol') and not what it would leave out ('readOnly': false). */
static const char pod_template[] =
    "{'apiVersion': 'v1', 'kind': 'Pod'," METADATA ","
    " 'spec': {"
    "   'restartPolicy': 'Never',"
    "   'automountServiceAccountToken': false,"
    "   'enableServiceLinks': false,"
    "   'terminationGracePeriodSeconds': $grace_seconds,"
    "   'activeDeadlineSeconds': $deadline_seconds,"
    "   'priorityClassName': $priority_class,"
    "   'imagePullSecrets': $pull_secrets,"
    "   'nodeSelector': $node_selector,"
    "   'affinity': ?node {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {"
    "     'nodeSelectorTerms': [{'matchFields': ["
    "       {'key': 'metadata.name', 'operator': 'In', 'values': [$node]}]}]}}},"
    "   'tolerations': ["
    "     {'key': '" TAINT_NOT_READY "', 'operator': 'Exists', 'effect': 'NoExecute',"
    "      'tolerationSeconds': 30},"
    "     {'key': '" TAINT_UNREACHABLE "', 'operator': 'Exists', 'effect': 'NoExecute',"
    "      'tolerationSeconds': 30},"
    "     *tolerations],"
    "   'securityContext': {"
    "     'runAsNonRoot': true, 'runAsUser': $user, 'runAsGroup': $user, 'fsGroup': $user,"
    "     'seccompProfile': {'type': 'RuntimeDefault'}},"
    "   'containers': [{"
    "     'name': 'worker',"
    "     'image': $image,"
    "     'imagePullPolicy': $pull_policy,"
    "     'command': ['skyjob-worker',"
    "       ?is_worker 'stage', ?is_worker '--slot', '$slot',"
    "       ?is_worker '--incarnation', '$incarnation',"
    "       ?is_probe 'probe', ?is_probe '--spec', ?is_probe '/etc/skyjob/" MANIFEST_SPEC_KEY "',"
    "       ?is_model 'inspect',"
    "       ?data_folder '--data', $data_folder,"
    "       ?model_claim '--model', ?model_claim '/model',"
    "       ?save_claim '--checkpoints', ?save_claim '/checkpoints/$save_folder',"
    "       ?resume_from '--resume-from', ?resume_from $resume_from,"
    "       ?bucket_url '--checkpoints', $bucket_url,"
    "       ?saves_own '--own-checkpoints', ?saves_own '/checkpoints/$save_folder',"
    "       ?saves_own '--spare-disk', ?saves_own '$spare_percent',"
    "       ?output_claim '--output', ?output_claim '/output',"
    "       ?is_worker '--health', ?is_worker '0.0.0.0:$health_port',"
    "       ?has_peers '--control', ?has_peers '0.0.0.0:$control_port',"
    "       ?has_peers '--tensor', ?has_peers '0.0.0.0:$tensor_port',"
    "       ?has_peers '--key', ?has_peers '/etc/skyjob-key/" MANIFEST_KEY_KEY "',"
    "       ?tls_name '--certificates', ?tls_name '/etc/skyjob-tls',"
    "       ?metrics_port '--metrics-address', '0.0.0.0:$metrics_port',"
    "       '--termination-log', '/dev/termination-log'],"
    "     'env': ["
    "       {'name': 'SKYJOB_CPU_MILLI', 'value': '$cpu_milli'},"
    "       {'name': 'SKYJOB_NODE', 'valueFrom': {'fieldRef': {'fieldPath': 'spec.nodeName'}}},"
    "       {'name': 'SKYJOB_POD', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}},"
    "       ?bucket_endpoint {'name': 'AWS_ENDPOINT_URL', 'value': $bucket_endpoint},"
    "       ?bucket_region {'name': 'AWS_REGION', 'value': $bucket_region},"
    "       ?bucket_url {'name': 'AWS_ACCESS_KEY_ID', 'valueFrom': {'secretKeyRef': {"
    "         'name': $bucket_secret, 'key': 'AWS_ACCESS_KEY_ID'}}},"
    "       ?bucket_url {'name': 'AWS_SECRET_ACCESS_KEY', 'valueFrom': {'secretKeyRef': {"
    "         'name': $bucket_secret, 'key': 'AWS_SECRET_ACCESS_KEY'}}},"
    "       ?bucket_url {'name': 'AWS_SESSION_TOKEN', 'valueFrom': {'secretKeyRef': {"
    "         'name': $bucket_secret, 'key': 'AWS_SESSION_TOKEN', 'optional': true}}},"
    "       ?bucket_url {'name': 'SKYJOB_S3_CA', 'valueFrom': {'secretKeyRef': {"
    "         'name': $bucket_secret, 'key': 'ca.crt', 'optional': true}}}],"
    "     'resources': {"
    "       'requests': {'cpu': '${cpu_milli}m', 'memory': '$memory_bytes'},"
    "       'limits': {'cpu': '${cpu_milli}m', 'memory': '$memory_bytes'}},"
    "     'ports': ?has_peers ["
    "       {'name': 'control', 'containerPort': $control_port, 'protocol': 'TCP'},"
    "       {'name': 'tensor', 'containerPort': $tensor_port, 'protocol': 'TCP'},"
    "       ?is_worker {"
    "         'name': 'health', 'containerPort': $health_port, 'protocol': 'TCP'},"
    "       ?metrics_port {"
    "         'name': 'metrics', 'containerPort': $metrics_port, 'protocol': 'TCP'}],"
    "     'readinessProbe': ?is_worker {"
    "       'httpGet': {'path': '/readyz', 'port': $health_port},"
    "       'periodSeconds': 1, 'timeoutSeconds': 5, 'failureThreshold': 6},"
    "     'livenessProbe': ?is_worker {"
    "       'httpGet': {'path': '/healthz', 'port': $health_port},"
    "       'periodSeconds': 10, 'timeoutSeconds': 5, 'failureThreshold': 6},"
    "     'terminationMessagePath': '/dev/termination-log',"
    "     'terminationMessagePolicy': 'File',"
    "     'securityContext': {"
    "       'allowPrivilegeEscalation': false, 'readOnlyRootFilesystem': true,"
    "       'capabilities': {'drop': ['ALL']}},"
    "     'volumeMounts': ["
    "       ?config_map {'name': 'job', 'mountPath': '/etc/skyjob', 'readOnly': true},"
    "       ?has_peers {'name': 'key', 'mountPath': '/etc/skyjob-key', 'readOnly': true},"
    "       ?tls_name {'name': '" MANIFEST_TLS_VOLUME
    "', 'mountPath': '/etc/skyjob-tls', 'readOnly': true},"
    "       {'name': 'tmp', 'mountPath': '/tmp'},"
    "       ?data_config_map {'name': 'data', 'mountPath': '/data', 'readOnly': true},"
    "       ?data_claim {"
    "         'name': $data_volume, 'mountPath': '/data', 'subPath': $data_path, 'readOnly': true},"
    "       ?model_claim {"
    "         'name': $model_volume, 'mountPath': '/model', 'subPath': $model_path, 'readOnly': "
    "true},"
    "       ?save_claim {"
    "         'name': $save_volume, 'mountPath': '/checkpoints', 'subPath': $save_path},"
    "       ?saves_own {'name': 'checkpoints', 'mountPath': '/checkpoints'},"
    "       ?output_claim {"
    "         'name': $output_volume, 'mountPath': '/output', 'subPath': $output_path}]}],"
    "   'volumes': ["
    "     ?config_map {'name': 'job', 'configMap': {'name': $config_map}},"
    "     ?has_peers {'name': 'key', 'secret': {'secretName': $key_name, 'defaultMode': 288}},"
    "     ?tls_name {'name': '" MANIFEST_TLS_VOLUME
    "', 'secret': {'secretName': $tls_name, 'items': ["
    "       {'key': '" MANIFEST_CA_FILE "', 'path': 'ca.crt'},"
    "       {'key': $tls_crt, 'path': 'tls.crt'}, {'key': $tls_key, 'path': 'tls.key'},"
    "       ?metrics_port {'key': $metrics_crt, 'path': 'metrics.crt'},"
    "       ?metrics_port {'key': $metrics_key, 'path': 'metrics.key'}],"
    "       'defaultMode': 288}},"
    "     {'name': 'tmp', 'emptyDir': {'sizeLimit': '64Mi'}},"
    "     ?data_config_map {'name': 'data', 'configMap': {'name': $data_config_map}},"
    "     ?data_new {'name': 'data', 'persistentVolumeClaim': {'claimName': $data_new}},"
    "     ?model_new {'name': 'model', 'persistentVolumeClaim': {'claimName': $model_new}},"
    "     ?save_new {"
    "       'name': 'checkpoints', 'persistentVolumeClaim': {'claimName': $save_new}},"
    "     ?saves_own {'name': 'checkpoints', 'emptyDir': {'sizeLimit': '$saves_bytes'}},"
    "     ?output_new {"
    "       'name': 'output', 'persistentVolumeClaim': {'claimName': $output_new}}]}}";

/* Where the pods differ. */
struct pod {
    struct object object;
    const struct spec *spec;
    const char *node;       /* NULL: any */
    const char *config_map; /* NULL: none */
    int cpu_milli;
    int64_t memory_bytes;
    bool reads_data; /* the first stage, and probes, which look at how long its sequences are */
};

/* NULL for "" and unless `is_used`. */
static const char *used(bool is_used, const char *text)
{
    return is_used && text[0] ? text : NULL;
}

/* A claim that a pod mounts. */
struct mount {
    const char *volume;
    const char *claim; /* NULL: not mounted */
};

/* The first mount of the same claim: a pod that has two volumes of one claim never starts. */
static const struct mount *first_of_claim(const struct mount *mounts, const struct mount *m)
{
    while (m->claim && (!mounts->claim || strcmp(mounts->claim, m->claim) != 0))
        mounts++;
    return m->claim ? mounts : m;
}

static const char *volume_of(const struct mount *mounts, const struct mount *m)
{
    return first_of_claim(mounts, m)->volume;
}

/* The claim, if this is its first mount. */
static const char *new_claim(const struct mount *mounts, const struct mount *m)
{
    return first_of_claim(mounts, m) == m ? m->claim : NULL;
}

/* The most that checkpoints take on a worker's own disk, whatever its units and those that it keeps
 * copies of or has fetched from a bucket: the newest ones that are safe, as many that are not, and
 * the one being written. */
static int64_t saves_max_bytes(const struct spec *spec)
{
    int64_t n = 2 * (int64_t)spec->checkpoint.keep + 2;

    return spec_has_sizes(spec) ? n * (cost_checkpoint_bytes(spec) + SAVED_RECORDS_BYTES) : 0;
}

/* Where the workers find the checkpoints in this folder of the store that they share. */
static void locate_checkpoints(const struct spec *spec, const char *folder,
                               char out[static BUCKET_URL_BYTES])
{
    const struct spec_bucket *bucket = &spec->checkpoint.s3;

    if (bucket->bucket[0])
        (void)snprintf(out, BUCKET_URL_BYTES, "s3://%s/%s%s%s", bucket->bucket, bucket->prefix,
                       bucket->prefix[0] ? "/" : "", folder);
    else
        (void)snprintf(out, BUCKET_URL_BYTES, "/checkpoints/%s", folder);
}

static enum err_code write_pod(const struct observed *seen, const struct pod *p, struct buf *out,
                               struct err *err)
{
    const struct spec *spec = p->spec;
    const struct settings *settings = &seen->settings;
    bool is_worker = has_role(&p->object, "worker");
    bool is_our_image = spec->worker.image[0] == '\0';
    bool has_claim = p->reads_data && spec->data.source == SPEC_SOURCE_CLAIM;
    bool has_map = p->reads_data && spec->data.source == SPEC_SOURCE_CONFIG_MAP;
    const char *folder = spec->data.source == SPEC_SOURCE_SAMPLE ? SAMPLE_DIR : "/data";
    const struct mount mounts[] = {
        {"data", used(has_claim, spec->data.volume.claim)},
        {"model", used(!has_role(&p->object, "probe"), spec->from.claim)},
        {"checkpoints", used(is_worker, spec->checkpoint.volume.claim)},
        {"output", used(is_worker, spec->output.claim)},
    };
    bool has_tls = !has_role(&p->object, "model") &&
                   manifest_has_tls(seen, is_worker ? POD_WORKER : POD_PROBE);
    char key[NAMES_BYTES];
    char tls[NAMES_BYTES] = "-"; /* filled in below, as are the next */
    char files[4][NAMES_BYTES];
    char saves[NAMES_BYTES];
    char url[BUCKET_URL_BYTES] = "-"; /* filled in below, as is the next */
    char other[BUCKET_URL_BYTES] = "-";
    const struct spec_bucket *bucket = &spec->checkpoint.s3;
    const struct json *worker = json_get(seen->spec_json, "worker");
    const struct json *pull_secrets = json_get(worker, "imagePullSecrets");
    const struct jsont_value values[] = {
        JSONT_I("grace_seconds", is_worker ? WORKER_GRACE_S : ONESHOT_GRACE_S),
        JSONT_I_IF("deadline_seconds", !is_worker, MANIFEST_ONESHOT_SECONDS),
        JSONT_S("priority_class", used(true, is_worker ? spec->worker.priority_class
                                                       : settings->probe_priority_class)),
        JSONT_V("pull_secrets", pull_secrets ? pull_secrets : settings->pull_secrets),
        JSONT_V("node_selector", json_get(worker, "nodeSelector")),
        JSONT_V("tolerations", json_get(worker, "tolerations")),
        JSONT_I_IF("user", settings->worker_user > 0, settings->worker_user),
        JSONT_S("node", p->node),
        JSONT_S("image", manifest_image(seen, spec)),
        JSONT_S("pull_policy", is_our_image && settings->pull_policy[0] ? settings->pull_policy
                                                                        : spec->worker.pull_policy),
        JSONT_S("data_folder", used(p->reads_data, folder)),
        JSONT_S("data_claim", mounts[0].claim),
        JSONT_S("data_volume", volume_of(mounts, &mounts[0])),
        JSONT_S("data_new", new_claim(mounts, &mounts[0])),
        JSONT_S("model_claim", mounts[1].claim),
        JSONT_S("model_volume", volume_of(mounts, &mounts[1])),
        JSONT_S("model_new", new_claim(mounts, &mounts[1])),
        JSONT_S("save_claim", mounts[2].claim),
        JSONT_S("save_volume", volume_of(mounts, &mounts[2])),
        JSONT_S("save_new", new_claim(mounts, &mounts[2])),
        JSONT_IF("saves_own", is_worker && (spec->checkpoint.is_peers || bucket->bucket[0])),
        JSONT_S("bucket_url", used(is_worker && bucket->bucket[0], url)),
        JSONT_S("bucket_endpoint", used(is_worker && bucket->bucket[0], bucket->endpoint)),
        JSONT_S("bucket_region", used(is_worker && bucket->bucket[0], bucket->region)),
        JSONT_S("bucket_secret", bucket->secret),
        JSONT_I("saves_bytes", saves_max_bytes(spec)),
        JSONT_I("spare_percent", SPARE_DISK_PERCENT),
        JSONT_S("save_folder", saves),
        JSONT_S("resume_from", used(is_worker && spec->resume_from[0], other)),
        JSONT_S("output_claim", mounts[3].claim),
        JSONT_S("output_volume", volume_of(mounts, &mounts[3])),
        JSONT_S("output_new", new_claim(mounts, &mounts[3])),
        JSONT_I("health_port", PORT_HEALTH),
        JSONT_I("control_port", PORT_CONTROL),
        JSONT_I("tensor_port", PORT_TENSOR),
        JSONT_I("cpu_milli", p->cpu_milli),
        JSONT_I("memory_bytes", p->memory_bytes),
        JSONT_S("data_config_map", used(has_map, spec->data.config_map)),
        JSONT_S("data_path", used(true, spec->data.volume.path)),
        JSONT_S("model_path", used(true, spec->from.path)),
        JSONT_S("save_path", used(true, spec->checkpoint.volume.path)),
        JSONT_S("output_path", used(true, spec->output.path)),
        JSONT_S("config_map", p->config_map),
        JSONT_S("key_name", key),
        JSONT_S("tls_name", used(has_tls, tls)),
        JSONT_S("tls_crt", files[0]),
        JSONT_S("tls_key", files[1]),
        JSONT_I_IF("metrics_port", is_worker && settings->has_worker_metrics, PORT_METRICS),
        JSONT_S("metrics_crt", files[2]),
        JSONT_S("metrics_key", files[3]),
    };

    names_child(seen->name, NAMES_KEY, key);
    names_child(seen->name, NAMES_TLS, tls);
    manifest_certificate_file(p->object.id.slot, p->object.id.incarnation, "crt", files[0]);
    manifest_certificate_file(p->object.id.slot, p->object.id.incarnation, "key", files[1]);
    manifest_certificate_file(MANIFEST_METRICS, "crt", files[2]);
    manifest_certificate_file(MANIFEST_METRICS, "key", files[3]);
    names_checkpoints(seen->name, seen->uid, saves);
    locate_checkpoints(spec, saves, url);
    locate_checkpoints(spec, spec->resume_from, other);
    return write_object(pod_template, seen, &p->object, values, sizeof values / sizeof *values, out,
                        err);
}

/* --- NetworkPolicy --- */

#define JOB_PODS "{'matchLabels': {'" LABEL_JOB_UID "': $job_uid}}"

/* The job's pods may talk to each other, the operator to them, and anyone may ask whether they are
 * healthy. Where the pods of the operator or of those who read metrics are not known (settings),
 * the port for them is open. */
static const char policy_template[] =
    "{'apiVersion': 'networking.k8s.io/v1', 'kind': 'NetworkPolicy'," METADATA ","
    " 'spec': {"
    "   'podSelector': " JOB_PODS ","
    "   'policyTypes': ['Ingress'],"
    "   'ingress': ["
    "     {'from': [{'podSelector': " JOB_PODS "}],"
    "      'ports': [{'protocol': 'TCP', 'port': $tensor_port}]},"
    "     {'from': ?operator_namespace [{"
    "        'namespaceSelector': {"
    "          'matchLabels': {'kubernetes.io/metadata.name': $operator_namespace}},"
    "        'podSelector': {'matchLabels': $operator_labels}}],"
    "      'ports': [{'protocol': 'TCP', 'port': $control_port}]},"
    "     ?metrics_port {'from': ?readers_namespace [{"
    "        'namespaceSelector': {"
    "          'matchLabels': {'kubernetes.io/metadata.name': $readers_namespace}},"
    "        'podSelector': {'matchLabels': $readers_labels}}],"
    "      'ports': [{'protocol': 'TCP', 'port': $metrics_port}]},"
    "     {'ports': [{'protocol': 'TCP', 'port': $health_port}]}]}}";

static enum err_code write_policy(const struct observed *seen, const char *name, struct buf *out,
                                  struct err *err)
{
    const struct settings *s = &seen->settings;
    struct object object = {.name = name, .component = "worker"};
    const struct jsont_value values[] = {
        JSONT_I("tensor_port", PORT_TENSOR),
        JSONT_I("control_port", PORT_CONTROL),
        JSONT_I("health_port", PORT_HEALTH),
        JSONT_S("operator_namespace", used(true, s->operator_namespace)),
        JSONT_PAIRS("operator_labels", s->operator_labels),
        JSONT_I_IF("metrics_port", s->has_worker_metrics, PORT_METRICS),
        JSONT_S("readers_namespace", used(true, s->readers_namespace)),
        JSONT_PAIRS("readers_labels", s->readers_labels),
    };

    return write_object(policy_template, seen, &object, values, sizeof values / sizeof *values, out,
                        err);
}

/* --- Secret and ConfigMaps --- */

static const char secret_template[] =
    "{'apiVersion': 'v1', 'kind': 'Secret'," METADATA ","
    " 'immutable': true, 'type': 'Opaque', 'stringData': {'" MANIFEST_KEY_KEY "': $key}}";

enum err_code manifest_key(const struct observed *seen, const char *key, struct buf *out,
                           struct err *err)
{
    char name[NAMES_BYTES];
    struct object object = {.name = name, .component = "key"};
    const struct jsont_value values[] = {JSONT_S("key", key)};

    names_child(seen->name, NAMES_KEY, name);
    return write_object(secret_template, seen, &object, values, 1, out, err);
}

void manifest_certificate_file(int slot, int incarnation, const char *kind,
                               char out[static NAMES_BYTES])
{
    if (slot < 0)
        (void)snprintf(out, NAMES_BYTES, "metrics.%s", kind);
    else
        (void)snprintf(out, NAMES_BYTES, "w%d-%d.%s", slot, incarnation, kind);
}

bool manifest_has_tls(const struct observed *seen, enum pod_role role)
{
    for (int i = 0; i < seen->n_pods; i++) {
        const struct seen_pod *p = &seen->pods[i];

        if (p->role == role && p->phase != POD_SUCCEEDED && p->phase != POD_FAILED)
            return p->has_tls;
    }
    return seen->settings.has_tls;
}

static const char certificates_template[] = "{'apiVersion': 'v1', 'kind': 'Secret'," METADATA ","
                                            " 'type': 'Opaque', 'stringData': $texts}";

enum err_code manifest_certificates(const struct observed *seen, const struct json *texts,
                                    struct buf *out, struct err *err)
{
    char name[NAMES_BYTES];
    struct object object = {.name = name, .component = "tls"};
    const struct jsont_value values[] = {JSONT_V("texts", texts)};

    names_child(seen->name, NAMES_TLS, name);
    return write_object(certificates_template, seen, &object, values, 1, out, err);
}

/* With a revision, or with the spec that probes read. */
static const char config_map_template[] =
    "{'apiVersion': 'v1', 'kind': 'ConfigMap'," METADATA ","
    " 'immutable': ?document true,"
    " 'data': {'" REVISION_FILE "': $document, '" MANIFEST_SPEC_KEY "': $spec}}";

static enum err_code write_probe_spec(const struct observed *seen, const char *name,
                                      struct buf *out, struct err *err)
{
    struct buf text = {.max = PLAN_TEXT_MAX_BYTES};
    struct object object = {.name = name, .component = "probe"};
    enum err_code rc;
    struct jsonw w;

    jsonw_init(&w, &text);
    jsonw_value(&w, NULL, seen->spec_json);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK) {
        const struct jsont_value values[] = {JSONT_S("document", NULL),
                                             JSONT_S("spec", buf_text(&text))};

        rc = write_object(config_map_template, seen, &object, values, 2, out, err);
    }
    buf_deinit(&text);
    return rc;
}

/* A spec with another one's `sync`. */
static enum err_code with_sync(const struct json *spec, const struct json *other, struct json **out,
                               struct err *err)
{
    const struct json *sync = json_get(other, "sync");
    struct buf text = {.max = REVISION_TEXT_MAX_BYTES};
    enum err_code rc;
    struct jsonw w;

    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    for (const struct json *v = json_first(spec); v; v = json_next(v))
        if (strcmp(json_key(v), "sync") != 0)
            jsonw_value(&w, json_key(v), v);
    if (sync)
        jsonw_value(&w, "sync", sync);
    jsonw_close(&w);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = json_parse(text.data, text.len, out, err);
    buf_deinit(&text);
    return rc;
}

/* Append the document of a new revision. */
static enum err_code write_document(const struct observed *seen, const struct revision *r,
                                    const struct action *a, struct buf *out, struct err *err)
{
    const struct json *spec = seen->spec_json;
    struct json *last = NULL, *changed = NULL;
    enum err_code rc = ERR_OK;

    if (a->keeps_spec) {
        rc = json_parse(seen->revision_text->data, seen->revision_text->len, &last, err);
        spec = json_path(last, "plan.spec");
    }
    if (rc == ERR_OK && a->takes_sync) {
        rc = with_sync(spec, seen->spec_json, &changed, err);
        spec = changed;
    }
    if (rc == ERR_OK)
        rc = revision_write(r, spec, out, err);
    json_free(changed);
    json_free(last);
    return rc;
}

static enum err_code write_revision(const struct observed *seen, const struct object *object,
                                    const struct buf *document, struct buf *out, struct err *err)
{
    const struct jsont_value values[] = {JSONT_S("document", buf_text(document)),
                                         JSONT_S("spec", NULL)};

    return write_object(config_map_template, seen, object, values, 2, out, err);
}

enum err_code manifest_object(const struct observed *seen, const struct action *action,
                              const struct revision *revision, char out_name[static NAMES_BYTES],
                              struct buf *out, struct err *err)
{
    const struct plan_worker *worker = &seen->revision.plan.workers[action->stage];
    struct buf document = {.max = REVISION_TEXT_MAX_BYTES};
    char config_map[NAMES_BYTES];
    struct pod pod = {
        .object = {.name = out_name, .group = action->group, .group_size = action->group_size},
        .spec = seen->spec};
    enum err_code rc;

    switch (action->kind) {
    case ACTION_CREATE_REVISION:
        pod.object.component = "revision";
        pod.object.revision = revision->plan.revision;
        names_revision(seen->name, seen->uid, pod.object.revision, out_name);
        rc = write_document(seen, revision, action, &document, err);
        if (rc == ERR_OK)
            rc = write_revision(seen, &pod.object, &document, out, err);
        buf_deinit(&document);
        return rc;
    case ACTION_RESTORE_REVISION:
        pod.object.component = "revision";
        pod.object.revision = seen->revision.plan.revision;
        names_revision(seen->name, seen->uid, pod.object.revision, out_name);
        return write_revision(seen, &pod.object, seen->revision_text, out, err);
    case ACTION_CREATE_PROBE_SPEC:
        names_child(seen->name, NAMES_PROBE_SPEC, out_name);
        return write_probe_spec(seen, out_name, out, err);
    case ACTION_CREATE_WORKER_POD:
        names_worker_pod(seen->name, seen->uid, worker->slot, worker->incarnation, out_name);
        pod.object.component = pod.object.role = "worker";
        pod.object.id = (struct revision_worker){worker->slot, worker->incarnation};
        pod.spec = &seen->revision.plan.spec;
        pod.node = worker->node;
        pod.cpu_milli = worker->cpu_milli;
        pod.memory_bytes = worker->memory_bytes;
        pod.reads_data = worker->first_unit == 0;
        break;
    case ACTION_CREATE_SUBSTITUTE:
        pod.object.id = (struct revision_worker){action->slot, seen->revision.plan.revision};
        names_worker_pod(seen->name, seen->uid, pod.object.id.slot, pod.object.id.incarnation,
                         out_name);
        pod.object.component = pod.object.role = "worker";
        pod.spec = &seen->revision.plan.spec;
        pod.node = action->node;
        pod.cpu_milli = action->cpu_milli;
        pod.memory_bytes = action->memory_bytes;
        pod.reads_data = action->reads_data;
        break;
    case ACTION_CREATE_PROBE_POD:
        names_probe_pod(seen->name, seen->uid, action->node, out_name);
        names_child(seen->name, NAMES_PROBE_SPEC, config_map);
        pod.config_map = config_map;
        pod.object.component = pod.object.role = "probe";
        pod.node = action->node;
        pod.cpu_milli = action->cpu_milli;
        pod.memory_bytes = action->memory_bytes;
        /* A volume may be bound to one node, and a probe that waits for it on another one would
         * cost the job that node. Lengths of data in such a volume stay unknown. */
        pod.reads_data = pod.spec->data.source != SPEC_SOURCE_CLAIM || seen->data.is_everywhere;
        break;
    case ACTION_CREATE_MODEL_POD:
        names_model_pod(seen->name, seen->uid, out_name);
        pod.object.component = pod.object.role = "model";
        pod.cpu_milli = READER_CPU_MILLI;
        pod.memory_bytes = READER_MEMORY_BYTES;
        break;
    default: /* ACTION_CREATE_POLICY */
        names_child(seen->name, NAMES_POLICY, out_name);
        return write_policy(seen, out_name, out, err);
    }
    return write_pod(seen, &pod, out, err);
}

/* --- patches --- */

static const char node_template[] =
    "{'metadata': {"
    "   'labels': {'" LABEL_MEASURED_GFLOPS "': $gflops},"
    "   'annotations': {'" ANNOTATION_PROBE "': $probe, '" ANNOTATION_CONTRADICTED "': null}}}";

enum err_code manifest_node_patch(const struct observed *seen, const struct action *action,
                                  struct buf *out, struct err *err)
{
    struct buf text = {.max = ANNOTATION_TEXT_MAX_BYTES};
    const struct node_object *node = NULL;
    const struct seen_pod *pod = NULL;
    struct annotation_probe probe;
    enum err_code rc;

    for (int i = 0; i < seen->n_nodes; i++)
        if (strcmp(seen->nodes[i].name, action->node) == 0)
            node = &seen->nodes[i];
    for (int i = 0; i < seen->n_pods; i++)
        if (strcmp(seen->pods[i].name, action->name) == 0)
            pod = &seen->pods[i];
    if (!node || !pod)
        return err_set(err, ERR_NOT_FOUND, "node %.60s or its probe is gone", action->node);
    nodes_annotation(seen, seen->spec, node, pod, &probe);
    rc = annotation_probe_write(&probe, &text, err);
    if (rc == ERR_OK) {
        char gflops[32];
        const struct jsont_value values[] = {JSONT_S("gflops", gflops),
                                             JSONT_S("probe", buf_text(&text))};

        (void)snprintf(gflops, sizeof gflops, "%.3f", annotation_gflops(&probe));
        rc = write_template(node_template, values, 2, out, err);
    }
    buf_deinit(&text);
    return rc;
}

enum err_code manifest_contradicted_patch(const struct observed *seen, struct buf *out,
                                          struct err *err)
{
    char time[CLOCK_TEXT_BYTES];
    const struct jsont_value values[] = {JSONT_S("time", time)};

    clock_format(seen->now_ms, time);
    return write_template("{'metadata': {'annotations': {'" ANNOTATION_CONTRADICTED "': $time}}}",
                          values, 1, out, err);
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
