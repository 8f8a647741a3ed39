/* cli/cluster.h - the nodes that a plan is made for: those of a cluster, less what its pods request
 * and what other jobs' plans promise; or those that a file describes.
 *
 * What can be done with them is for the survey to find (cluster/survey.h), as in the operator.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include "cli/job.h"
#include "cluster/promise.h"
#include "cluster/survey.h"
#include "kube/client.h"

#define CLUSTER_FILE_MAX_BYTES ((size_t)64 << 20)

/* A SkyJob of the cluster: does its plan still count? */
struct cluster_job {
    uint64_t key; /* hash of namespace and name */
    char uid[PROMISE_WORD_BYTES];
    int attempt;
    bool is_over;
};

/* Arrays that grow; zeroed is empty. */
struct cluster {
    struct node_object *nodes;
    size_t n_nodes, cap_nodes;
    uint64_t *settled; /* pods that are bound or have ended, like cluster_job's key */
    size_t n_settled, cap_settled;
    struct cluster_job *jobs;
    size_t n_jobs, cap_jobs;
    struct promise *promises;
    size_t n_promises, cap_promises;
    char unread[ERR_TEXT_BYTES]; /* why other jobs' plans could not be read; "" if they could */
    struct survey survey;
};

/* Ask for all Nodes, Pods, SkyJobs and plans. Pods and plans of the job itself do not count: a new
 * plan has their room. Plans that the user may not read do not count either, and c->unread is set.
 * Call cluster_deinit() whatever it returns: the errors of kube_list(), ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_load(struct kube_client *client, const struct job *job,
                                      struct cluster *c, struct err *err);

/* Read all Nodes, and Lists of them, in a YAML or JSON file as `kubectl get nodes -o yaml` prints
 * it ("-" is stdin); other kinds are skipped. Call cluster_deinit() whatever it returns:
 * ERR_INVALID for a Node without a name or two of one name, ERR_NOT_FOUND (no file, or no Node in
 * it), or the errors of file_read(). */
MUST_CHECK enum err_code cluster_load_file(const char *path, struct cluster *c, struct err *err);

/* Survey the nodes for the job. ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_survey(struct cluster *c, const struct job *job, int64_t now_ms,
                                        struct err *err);
void cluster_deinit(struct cluster *c);

/* The steps of cluster_load(): every object, in any order of pods, SkyJobs and plans after the
 * nodes, and the end. */
MUST_CHECK enum err_code cluster_add_node(struct cluster *c, const struct json *node,
                                          struct err *err);
/* All nodes are there. */
void cluster_close_nodes(struct cluster *c);
MUST_CHECK enum err_code cluster_add_pod(struct cluster *c, const struct job *job,
                                         const struct json *pod, struct err *err);
MUST_CHECK enum err_code cluster_add_job(struct cluster *c, const struct json *skyjob,
                                         struct err *err);
MUST_CHECK enum err_code cluster_add_plan(struct cluster *c, const struct job *job,
                                          const struct json *config_map, struct err *err);
/* Count what is promised and not held by pods yet. */
void cluster_close(struct cluster *c);

#endif
