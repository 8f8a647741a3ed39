#include "cluster/node_object.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/pods.h"
#include "base/buf.h"

#define DIGITS_MAX     30                /* of a quantity */
#define TEXT_MAX_BYTES ((size_t)1 << 20) /* of labels: an API server takes no larger object */
#define TAINT_BYTES    512               /* its key has at most 317, its value 63 */

/* Far above any machine; sums of amounts below stay far from overflow. */
#define CPU_MAX_MILLI    10000000
#define MEMORY_MAX_BYTES (INT64_C(1) << 60)

/* --- quantities --- */

/* Multiplier of a suffix; 0 when there is no such suffix. */
static long double scale_of(const char *suffix)
{
    static const struct {
        const char *text;
        long double scale;
    } known[] = {
        {"", 1},
        {"n", 1e-9L},
        {"u", 1e-6L},
        {"m", 1e-3L},
        {"k", 1e3L},
        {"M", 1e6L},
        {"G", 1e9L},
        {"T", 1e12L},
        {"P", 1e15L},
        {"E", 1e18L},
        {"Ki", 1024.0L},
        {"Mi", 1048576.0L},
        {"Gi", 1073741824.0L},
        {"Ti", 1099511627776.0L},
        {"Pi", 1125899906842624.0L},
        {"Ei", 1152921504606846976.0L},
    };
    char *end;
    long exponent;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].text, suffix) == 0)
            return known[i].scale;
    if ((suffix[0] != 'e' && suffix[0] != 'E') || suffix[1] == '\0' || isspace(suffix[1]))
        return 0;
    exponent = strtol(suffix + 1, &end, 10);
    return *end == '\0' && exponent >= -9 && exponent <= 18 ? powl(10, (long double)exponent) : 0;
}

enum err_code quantity_parse(const char *text, bool is_milli, int64_t *out, struct err *err)
{
    size_t n = strspn(text, "0123456789.");
    char digits[DIGITS_MAX + 1];
    long double scale;
    long double value;
    char *end;

    if (n == 0 || n > DIGITS_MAX)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a quantity", text);
    memcpy(digits, text, n);
    digits[n] = '\0';
    value = strtold(digits, &end);
    scale = scale_of(text + n);
    if (*end != '\0' || scale == 0 || strpbrk(digits, "0123456789") == NULL)
        return err_set(err, ERR_INVALID, "\"%.40s\" is not a quantity", text);
    /* The nudge keeps 0.1 * 1000 from becoming 101; it is below the smallest amount, 1n. */
    value = ceill(value * scale * (is_milli ? 1000 : 1) - 1e-12L);
    if (value > 9.2e18L)
        return err_set(err, ERR_LIMIT, "\"%.40s\" is too large", text);
    *out = (int64_t)value;
    return ERR_OK;
}

int64_t quantity_read(const struct json *v, bool is_milli)
{
    char number[32];
    const char *text = json_string(v, "0");
    int64_t n = 0;

    if (json_kind_of(v) == JSON_NUMBER) {
        (void)snprintf(number, sizeof number, "%.15g", json_double(v, 0));
        text = number;
    }
    return quantity_parse(text, is_milli, &n, NULL) == ERR_OK ? n : 0;
}

/* --- pods --- */

static int64_t amount_of(const struct json *amounts, const char *resource)
{
    return quantity_read(json_get(amounts, resource), strcmp(resource, "cpu") == 0);
}

static int64_t sum_of(const struct json *pod, const char *resource)
{
    const struct json *c = json_first(json_path(pod, "spec.containers"));
    int64_t sum = 0;

    for (; c; c = json_next(c))
        sum += amount_of(json_path(c, "resources.requests"), resource);
    for (c = json_first(json_path(pod, "spec.initContainers")); c; c = json_next(c)) {
        int64_t n = amount_of(json_path(c, "resources.requests"), resource);

        sum = n > sum ? n : sum;
    }
    return sum + amount_of(json_path(pod, "spec.overhead"), resource);
}

struct pod_requests pod_requests_read(const struct json *pod)
{
    return (struct pod_requests){.cpu_milli = sum_of(pod, "cpu"),
                                 .memory_bytes = sum_of(pod, "memory")};
}

bool pod_has_ended(const struct json *pod)
{
    const char *phase = json_text(pod, "status.phase");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* --- nodes --- */

const char *exclusion_text(enum exclusion why)
{
    static const char *const texts[EXCLUSIONS] = {
        [EXCLUDED_NOT] = "usable",
        [EXCLUDED_NOT_READY] = "not ready",
        [EXCLUDED_DELETED] = "being deleted",
        [EXCLUDED_CORDONED] = "cordoned",
        [EXCLUDED_PRESSURE] = "under memory, disk or PID pressure",
        [EXCLUDED_TAINTED] = "tainted",
        [EXCLUDED_UNSELECTED] = "without the labels of spec.worker.nodeSelector",
        [EXCLUDED_UNREADABLE] = "without readable allocatable CPU and memory",
        [EXCLUDED_CPU] = "with less than 100m of CPU free",
        [EXCLUDED_MEMORY] = "with less than 160Mi of memory free",
        [EXCLUDED_BF16] = "without BF16 support, which spec.training.precision asks for",
        [EXCLUDED_SILENT] = "with a worker that has stopped responding",
        [EXCLUDED_UNMEASURED] = "not measured yet",
        [EXCLUDED_PROBE_FAILED] = "whose probe failed",
    };

    return texts[why];
}

static enum exclusion exclusion_read(const struct json *node, enum exclusion unseen)
{
    enum exclusion ready = unseen;
    bool has_pressure = false;

    for (const struct json *c = json_first(json_path(node, "status.conditions")); c;
         c = json_next(c)) {
        const char *type = json_text(c, "type");
        bool is_true = strcmp(json_text(c, "status"), "True") == 0;

        if (strcmp(type, "Ready") == 0)
            ready = is_true ? EXCLUDED_NOT : EXCLUDED_NOT_READY;
        has_pressure = has_pressure || (is_true && strstr(type, "Pressure"));
    }
    if (ready != EXCLUDED_NOT)
        return ready;
    if (json_path(node, "metadata.deletionTimestamp"))
        return EXCLUDED_DELETED;
    if (json_bool(json_path(node, "spec.unschedulable"), false))
        return EXCLUDED_CORDONED;
    return has_pressure ? EXCLUDED_PRESSURE : EXCLUDED_NOT;
}

/* What all pods tolerate: they leave such a node by themselves. */
static bool keeps_pods_away(const char *key, const char *effect)
{
    if (strcmp(effect, "NoSchedule") == 0)
        return true;
    return strcmp(effect, "NoExecute") == 0 && strcmp(key, TAINT_NOT_READY) != 0 &&
           strcmp(key, TAINT_UNREACHABLE) != 0;
}

static enum err_code read_labels(const struct json *node, char **out, struct err *err)
{
    struct buf text = {.max = TEXT_MAX_BYTES};
    enum err_code rc = ERR_OK;

    for (const struct json *v = json_first(json_path(node, "metadata.labels")); v && rc == ERR_OK;
         v = json_next(v))
        rc = buf_addf(&text, err, "%s=%s\n", json_key(v), json_string(v, ""));
    *out = buf_take(&text);
    return rc;
}

static enum err_code read_taints(const struct json *node, char **out, struct err *err)
{
    struct buf text = {.max = TEXT_MAX_BYTES};
    enum err_code rc = ERR_OK;

    for (const struct json *v = json_first(json_path(node, "spec.taints")); v && rc == ERR_OK;
         v = json_next(v))
        if (keeps_pods_away(json_text(v, "key"), json_text(v, "effect")))
            rc = buf_addf(&text, err, "%s=%s:%s\n", json_text(v, "key"), json_text(v, "value"),
                          json_text(v, "effect"));
    *out = buf_take(&text);
    return rc;
}

enum err_code node_object_read(const struct json *node, enum exclusion unseen,
                               struct node_object *out, struct err *err)
{
    const struct json *allocatable = json_path(node, "status.allocatable");
    enum err_code rc;

    memset(out, 0, sizeof *out);
    JSON_COPY(out->name, json_path(node, "metadata.name"));
    out->excluded = exclusion_read(node, unseen);
    out->cpu_milli = amount_of(allocatable, "cpu");
    out->memory_bytes = amount_of(allocatable, "memory");
    if (out->cpu_milli > CPU_MAX_MILLI)
        out->cpu_milli = 0;
    if (out->memory_bytes > MEMORY_MAX_BYTES)
        out->memory_bytes = 0;
    annotations_read(node, &out->annotations);
    rc = read_labels(node, &out->labels, err);
    if (rc == ERR_OK)
        rc = read_taints(node, &out->taints, err);
    if (rc != ERR_OK)
        node_object_deinit(out);
    return rc;
}

void node_object_deinit(struct node_object *node)
{
    free(node->labels);
    free(node->taints);
    node->labels = node->taints = NULL;
}

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool node_object_equal(const struct node_object *a, const struct node_object *b)
{
    return a->excluded == b->excluded && a->cpu_milli == b->cpu_milli &&
           a->memory_bytes == b->memory_bytes && is_same_text(a->labels, b->labels) &&
           is_same_text(a->taints, b->taints) &&
           memcmp(&a->annotations, &b->annotations, sizeof a->annotations) == 0;
}

/* Does the job tolerate the taint "key=value:effect" of n bytes? */
static bool is_tolerated(const struct json *worker, const char *taint, size_t n)
{
    char text[TAINT_BYTES];
    char *value, *effect;

    (void)snprintf(text, sizeof text, "%.*s", (int)n, taint);
    value = strchr(text, '=');
    effect = strrchr(text, ':');
    if (n >= sizeof text || !value || !effect || effect < value)
        return false;
    *value++ = *effect++ = '\0';
    return pods_tolerate(worker, text, value, effect);
}

enum exclusion node_object_exclusion(const struct node_object *node, const struct json *worker)
{
    if (node->excluded != EXCLUDED_NOT)
        return node->excluded;
    for (const char *at = node->taints; at && *at; at += strcspn(at, "\n") + 1)
        if (!is_tolerated(worker, at, strcspn(at, "\n")))
            return EXCLUDED_TAINTED;
    return pods_select(worker, node->labels ? node->labels : "") ? EXCLUDED_NOT
                                                                 : EXCLUDED_UNSELECTED;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct node_object *)a)->name, ((const struct node_object *)b)->name);
}

void node_objects_sort(struct node_object *nodes, size_t n)
{
    if (n > 0)
        qsort(nodes, n, sizeof *nodes, compare_names);
}

static int compare_with_name(const void *name, const void *node)
{
    return strcmp(name, ((const struct node_object *)node)->name);
}

void node_objects_use(struct node_object *nodes, size_t n, const char *name, int64_t cpu_milli,
                      int64_t memory_bytes)
{
    struct node_object *to =
        n > 0 ? bsearch(name, nodes, n, sizeof *nodes, compare_with_name) : NULL;

    if (!to)
        return;
    to->cpu_used_milli += cpu_milli;
    to->memory_used_bytes += memory_bytes;
}

/* --- plans --- */

const struct json *promise_owner(const struct json *object)
{
    const struct json *owner = json_first(json_path(object, "metadata.ownerReferences"));

    for (; owner; owner = json_next(owner))
        if (strcmp(json_text(owner, "kind"), "SkyJob") == 0 &&
            json_bool(json_get(owner, "controller"), false) &&
            strncmp(json_text(owner, "apiVersion"), NAMES_GROUP "/", strlen(NAMES_GROUP "/")) == 0)
            return owner;
    return NULL;
}

bool promise_job_is_final(const struct json *skyjob)
{
    const struct json *c = json_first(json_path(skyjob, "status.conditions"));

    for (; c; c = json_next(c)) {
        const char *type = json_text(c, "type");

        if (strcmp(json_text(c, "status"), "True") == 0 &&
            (strcmp(type, "Complete") == 0 || strcmp(type, "Failed") == 0))
            return true;
    }
    return false;
}

/* Namespace and job of its text could be any, those of the objects count. */
enum err_code promise_read(const struct json *config_map, struct revision *out, struct err *err)
{
    const struct json *owner = promise_owner(config_map);
    const struct json *label = json_get(json_path(config_map, "metadata.labels"), LABEL_REVISION);
    const char *text = json_string(json_get(json_get(config_map, "data"), REVISION_FILE), "");
    struct plan *plan = &out->plan;
    char name[NAMES_BYTES];
    char number[16];
    enum err_code rc = revision_parse(text, strlen(text), out, err);

    if (rc != ERR_OK)
        return rc;
    names_revision(json_text(owner, "name"), plan->uid, plan->revision, name);
    (void)snprintf(number, sizeof number, "%d", plan->revision);
    if (!owner || strcmp(name, json_text(config_map, "metadata.name")) != 0 ||
        strcmp(plan->uid, json_text(owner, "uid")) != 0 ||
        strcmp(number, json_string(label, "")) != 0)
        return err_set(err, ERR_INVALID, "%.60s is not a revision of its owner",
                       json_text(config_map, "metadata.name"));
    JSON_COPY(plan->namespace, json_path(config_map, "metadata.namespace"));
    JSON_COPY(plan->job, json_path(owner, "name"));
    return ERR_OK;
}

bool promise_is_open(const struct plan *p, const char *job_uid, int job_revision, bool is_over)
{
    return !is_over && strcmp(job_uid, p->uid) == 0 && job_revision <= p->revision;
}

void promise_use(const struct plan *p, struct promise_pods pods, struct node_object *nodes,
                 size_t n)
{
    for (int i = 0; i < p->n_workers; i++) {
        const struct plan_worker *w = &p->workers[i];
        char pod[NAMES_BYTES];

        names_worker_pod(p->job, p->uid, w->slot, w->incarnation, pod);
        if (!pods.is_settled(pods.ctx, p->namespace, pod))
            node_objects_use(nodes, n, w->node, w->cpu_milli, w->memory_bytes);
    }
}
