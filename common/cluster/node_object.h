/* cluster/node_object.h - what Kubernetes' objects contain that a plan depends on: amounts, what
 * Pods and other jobs' plans take of a Node, and why it is excluded.
 *
 * Tolerant: what is missing or cannot be read counts as nothing.
 * Layer: cluster (may use api, base). Threads: any; pure.
 */
#ifndef CLUSTER_NODE_OBJECT_H
#define CLUSTER_NODE_OBJECT_H

#include <stddef.h>

#include "api/revision.h"
#include "base/json.h"
#include "cluster/annotation.h"

/* --- amounts: "500m", "1.5", "3Gi", "1e3" --- */

/* The grammar is that of apimachinery's resource.Quantity. What does not fit an int64 is refused,
 * as is anything that is not a quantity; negative amounts too, since none that we read may be
 * negative. Rounded up as Kubernetes does: "1500m" is 2, "1Ki" is 1024; in thousandths "0.5" is 500
 * and "100m" is 100. */
MUST_CHECK enum err_code quantity_parse(const char *text, bool is_milli, int64_t *out,
                                        struct err *err);

/* The same from a JSON value, which is a string, or in a file of nodes a plain number. 0 when it is
 * missing or cannot be read. */
int64_t quantity_read(const struct json *v, bool is_milli);

/* --- pods --- */

/* What a pod takes of its node, as the scheduler counts it: the sum of all containers, or the
 * largest init container if that is more, and the overhead. */
struct pod_requests {
    int64_t cpu_milli;
    int64_t memory_bytes;
};
struct pod_requests pod_requests_read(const struct json *pod);

/* Succeeded or Failed: it holds nothing of its node any more. */
bool pod_has_ended(const struct json *pod);

/* --- nodes --- */

/* Why a node is not a candidate for a stage: one vocabulary for operator, CLI and files of nodes.
 * Where several hold, the first one counts: a node that does not answer is also tainted, and so is
 * one that is cordoned or short of something. */
enum exclusion {
    EXCLUDED_NOT,
    /* From the Node object alone: */
    EXCLUDED_NOT_READY,
    EXCLUDED_DELETED,
    EXCLUDED_CORDONED,
    EXCLUDED_PRESSURE, /* of memory, disk or PIDs */
    /* ... and what the job says: */
    EXCLUDED_TAINTED,    /* other than by what workers tolerate: names.h, spec.worker.tolerations */
    EXCLUDED_UNSELECTED, /* by spec.worker.nodeSelector */
    /* From the survey: */
    EXCLUDED_UNREADABLE, /* no readable allocatable CPU or memory */
    EXCLUDED_CPU,
    EXCLUDED_MEMORY,
    EXCLUDED_BF16,
    EXCLUDED_SILENT,
    EXCLUDED_UNMEASURED,
    EXCLUDED_PROBE_FAILED,
    EXCLUSIONS,
};

/* To follow a node's name or a number of nodes: "not ready", "with less than 100m of CPU free". */
const char *exclusion_text(enum exclusion why);

struct node_object {
    char name[NODE_NAME_BYTES];
    enum exclusion excluded; /* by the object alone, whatever its taints */
    char *labels;            /* "key=value\n" ...; NULL: none */
    char *taints;            /* "key=value:effect\n" of those that keep pods away; NULL: none */
    int64_t cpu_milli;       /* allocatable; 0: missing or not readable */
    int64_t memory_bytes;
    int64_t cpu_used_milli; /* requested by other pods, or promised to other jobs by their plans */
    int64_t memory_used_bytes;
    struct annotations annotations;
};

/* `unseen` counts for a Node without a condition "Ready": EXCLUDED_NOT_READY in a cluster,
 * EXCLUDED_NOT in a file, where it need not be written down. On ERR_OK the caller owns its texts:
 * node_object_deinit(). ERR_NO_MEMORY. */
MUST_CHECK enum err_code node_object_read(const struct json *node, enum exclusion unseen,
                                          struct node_object *out, struct err *err);
void node_object_deinit(struct node_object *node);
/* Is it the same for any job? What other pods use of it is not looked at. */
bool node_object_equal(const struct node_object *a, const struct node_object *b);

/* May pods of a job with this spec.worker (api/pods.h) run there, as far as the object says? */
enum exclusion node_object_exclusion(const struct node_object *node, const struct json *worker);

/* By name, as node_objects_use() needs them. */
void node_objects_sort(struct node_object *nodes, size_t n);
/* Count this much as used on the node of that name, if it is among the `n` sorted ones. */
void node_objects_use(struct node_object *nodes, size_t n, const char *name, int64_t cpu_milli,
                      int64_t memory_bytes);

/* --- revisions --- */

/* What the plan of a revision promises its job of nodes before pods hold it. Two jobs that are
 * planned at the same moment must not be given the same CPU and memory, so a worker of a plan
 * counts until the scheduler has bound its pod; then the pod's requests count. */

/* Read a revision's ConfigMap. ERR_INVALID when it holds no revision of the SkyJob that owns it,
 * under the name that belongs to it. */
MUST_CHECK enum err_code promise_read(const struct json *config_map, struct revision *out,
                                      struct err *err);

/* Does the plan still count, given the SkyJob of its name? `is_over`: it is complete, failed or
 * being deleted. */
bool promise_is_open(const struct plan *p, const char *job_uid, int job_revision, bool is_over);

/* Count on the nodes, which are sorted, the workers that are not settled: whose pod is neither
 * bound nor over. */
struct promise_pods {
    void *ctx;
    bool (*is_settled)(void *ctx, const char *namespace, const char *pod);
};
void promise_use(const struct plan *p, struct promise_pods pods, struct node_object *nodes,
                 size_t n);

/* Has the SkyJob a condition Complete or Failed? */
bool promise_job_is_final(const struct json *skyjob);

/* The SkyJob that controls an object; NULL when none does. */
const struct json *promise_owner(const struct json *object);

#endif
