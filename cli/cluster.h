/* cli/cluster.h - the machines of a cluster as a plan sees them: its Nodes, less what the pods on
 * them have requested.
 *
 * A Node that cannot take a stage, or whose speed nobody knows yet, is kept with the reason. What a
 * Node says is read as in a file (cli/nodefile.h), but nonsense on one costs only that one.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include "api/mark.h"
#include "api/node.h"
#include "cli/job.h"
#include "kube/client.h"

#define CLUSTER_NODES_MAX 5000

struct cluster_machine {
    struct mark mark;       /* what it says of itself */
    struct node node;       /* before cluster_close() all that is allocatable, then what is free */
    int64_t cpu_used_milli; /* requested by pods */
    int64_t memory_used_bytes;
    const char *stale;            /* why the operator would not believe that; NULL: it would */
    char why_not[ERR_TEXT_BYTES]; /* "is cordoned"; "": a stage can be put there */
};

/* Only the job and the time are set before the first call. */
struct cluster {
    const struct job *job; /* that is planned; borrowed */
    int64_t now_ms;        /* wall clock */
    int n_machines;
    bool is_sorted;
    struct cluster_machine *machines; /* all; by name from the first pod on */
    int n_nodes;
    struct node *nodes; /* those that can take a stage */
    struct mark *marks; /* of each of them ... */
    const char **stale; /* ... and its cluster_machine's */
};

/* Ask for all Nodes and Pods. Pods of the job itself do not count: a new plan has their room. Call
 * cluster_deinit() whatever it returns: the errors of kube_list(), ERR_LIMIT beyond
 * CLUSTER_NODES_MAX, ERR_NO_MEMORY. */
MUST_CHECK enum err_code cluster_load(struct kube_client *client, const struct job *job,
                                      struct cluster *out, struct err *err);
void cluster_deinit(struct cluster *c);

/* The steps of it: all Nodes, all Pods, and the end. */
MUST_CHECK enum err_code cluster_add_node(struct cluster *c, const struct json *node,
                                          struct err *err);
void cluster_add_pod(struct cluster *c, const struct json *pod);
MUST_CHECK enum err_code cluster_close(struct cluster *c, struct err *err);

#endif
