/* cli/nodefile.h - machines that are written down: Node objects, as `kubectl get nodes -o yaml`
 * prints them, with their speed as a label or annotation skyjob.dev/gflops, or as an earlier job
 * in a cluster has measured it (annotation skyjob.dev/probe; see api/mark.h).
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_NODEFILE_H
#define CLI_NODEFILE_H

#include "api/node.h"

#define NODEFILE_MAX_BYTES ((size_t)64 << 20)
#define NODEFILE_NODES_MAX 5000

struct nodefile {
    struct node *nodes; /* that take pods */
    int n_nodes;
    int n_closed; /* cordoned, or with a taint that keeps pods away */
};

/* Read all Nodes, and Lists of them, in a YAML or JSON file ("-" is stdin); other kinds are passed
 * over. The caller owns *out: nodefile_deinit(). ERR_INVALID with the node's name, ERR_NOT_FOUND
 * (no file, or no Node in it), ERR_LIMIT, or the errors of file_read(). */
MUST_CHECK enum err_code nodefile_load(const char *path, struct nodefile *out, struct err *err);
void nodefile_deinit(struct nodefile *f);

#endif
