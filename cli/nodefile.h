/* cli/nodefile.h - machines that are written down: Node objects, as `kubectl get nodes -o yaml`
 * prints them, with their speed as a label or annotation skyjob.dev/gflops, or as an earlier job
 * in a cluster has measured it (annotation skyjob.dev/probe; see api/mark.h).
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_NODEFILE_H
#define CLI_NODEFILE_H

#include "api/mark.h"
#include "api/node.h"

#define NODEFILE_MAX_BYTES ((size_t)64 << 20)
#define NODEFILE_NODES_MAX 5000

struct nodefile {
    struct node *nodes; /* that take pods */
    struct mark *marks; /* what each of them says besides */
    int n_nodes;
    int n_closed; /* closed_read() */
};

/* Read one Node, whose gflops are 0 when nobody says how fast it is: neither an administrator nor a
 * probe. ERR_INVALID with its name. */
MUST_CHECK enum err_code nodefile_read(const struct json *node, struct node *out, struct err *err);

/* Read all Nodes, and Lists of them, in a YAML or JSON file ("-" is stdin); other kinds are passed
 * over. The caller owns *out: nodefile_deinit(). ERR_INVALID with the node's name, ERR_NOT_FOUND
 * (no file, or no Node in it), ERR_LIMIT, or the errors of file_read(). */
MUST_CHECK enum err_code nodefile_load(const char *path, struct nodefile *out, struct err *err);
void nodefile_deinit(struct nodefile *f);

#endif
