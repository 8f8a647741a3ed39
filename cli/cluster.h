/* cli/cluster.h - the nodes that a plan is made for: those of a cluster, less what its pods request
 * and what other jobs' plans promise; or those in a file.
 *
 * The survey judges them (cluster/survey.h), as in the operator.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include "base/map.h"
#include "cli/job.h"
#include "cluster/survey.h"
#include "kube/client.h"

#define CLUSTER_FILE_MAX_BYTES ((size_t)64 << 20)

extern const struct kube_resource cluster_skyjobs;

/* Zeroed but for `job`, it is empty. */
struct cluster {
    const struct job *job; /* to plan for */
    struct node_object *nodes;
    size_t n_nodes, nodes_max;
    struct map settled;          /* "namespace/name" of pods that are bound or over */
    struct map jobs;             /* uid of SkyJobs that are not over: their revision */
    char unread[ERR_TEXT_BYTES]; /* why other jobs' plans could not be read; "" if they could */
    struct survey survey;
};

/* Ask for all Nodes, Pods, SkyJobs and plans. Pods and plans of the job itself do not count: a new
 * plan may use what they hold. Plans that the user may not read do not count either, and c->unread
 * is set. Call cluster_deinit() whatever it returns: the errors of kube_list(), ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_load(struct kube_client *client, struct cluster *c,
                                      struct err *err);

/* Read all Nodes, and Lists of them, in a YAML or JSON file as `kubectl get nodes -o yaml` prints
 * it ("-" is stdin); other kinds are skipped. Call cluster_deinit() whatever it returns:
 * ERR_INVALID for a Node without a name or two of one name, ERR_NOT_FOUND (no file, or no Node in
 * it), or the errors of file_read(). */
MUST_CHECK enum err_code cluster_load_file(const char *path, struct cluster *c, struct err *err);

/* Survey the nodes for the job. ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_survey(struct cluster *c, int64_t now_ms, struct err *err);
void cluster_deinit(struct cluster *c);

/* The steps of cluster_load(), each for one object: the nodes, their end, then pods and SkyJobs,
 * and last the plans, of which counts what no pod holds yet. `cluster` is a struct cluster.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_add_node(void *cluster, const struct json *node, struct err *err);
void cluster_close_nodes(struct cluster *c);
MUST_CHECK enum err_code cluster_add_pod(void *cluster, const struct json *pod, struct err *err);
MUST_CHECK enum err_code cluster_add_job(void *cluster, const struct json *skyjob, struct err *err);
MUST_CHECK enum err_code cluster_add_plan(void *cluster, const struct json *config_map,
                                          struct err *err);

#endif
