/* cluster/promise.h - what a plan promises its job of nodes before pods hold it.
 *
 * Two jobs that are planned at the same moment must not be given the same CPU and memory, so a
 * stage of a plan counts until the scheduler has bound its pod; then the pod's requests count.
 * Layer: cluster (may use api, base). Threads: any; pure but for the memory of the shares.
 */
#ifndef CLUSTER_PROMISE_H
#define CLUSTER_PROMISE_H

#include "api/plan.h"
#include "base/err.h"
#include "base/json.h"
#include "cluster/node_object.h"

#define PROMISE_WORD_BYTES 64

struct promise_share {
    char node[NODE_NAME_BYTES];
    int64_t cpu_milli;
    int64_t memory_bytes;
};

struct promise {
    char namespace[PROMISE_WORD_BYTES];
    char job[PROMISE_WORD_BYTES];
    char uid[PROMISE_WORD_BYTES]; /* of the job */
    int attempt;
    int n_shares; /* stages */
    struct promise_share *shares;
};

/* Read a plan's ConfigMap. ERR_INVALID when it holds no plan of the SkyJob that owns it, under the
 * name that belongs to it. */
MUST_CHECK enum err_code promise_read_plan(const struct json *config_map, struct plan *out,
                                           struct err *err);
/* What this plan of a ConfigMap promises. The caller owns *out: promise_deinit(). ERR_NO_MEMORY. */
MUST_CHECK enum err_code promise_of(const struct json *config_map, const struct plan *plan,
                                    struct promise *out, struct err *err);
/* Both in one. */
MUST_CHECK enum err_code promise_read(const struct json *config_map, struct promise *out,
                                      struct err *err);
void promise_deinit(struct promise *p);

/* Does the plan still count, given the SkyJob of its name? `is_over`: it is complete, failed or
 * being deleted. */
bool promise_is_open(const struct promise *p, const char *job_uid, int job_attempt, bool is_over);

/* Count on the nodes, which are sorted, the shares of the stages that are not settled: whose pod is
 * neither bound nor over. */
struct promise_pods {
    void *ctx;
    bool (*is_settled)(void *ctx, const char *namespace, const char *pod);
};
void promise_use(const struct promise *p, struct promise_pods pods, struct node_object *nodes,
                 size_t n);

/* Has the SkyJob a condition Complete or Failed? */
bool promise_job_is_final(const struct json *skyjob);

/* The SkyJob that controls an object; NULL when none does. */
const struct json *promise_owner(const struct json *object);

#endif
