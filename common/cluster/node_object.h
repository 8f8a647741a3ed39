/* cluster/node_object.h - a Node object, read once, and what pods and plans leave of it.
 *
 * Layer: cluster (may use api, base). Threads: any; pure.
 */
#ifndef CLUSTER_NODE_OBJECT_H
#define CLUSTER_NODE_OBJECT_H

#include <stddef.h>

#include "cluster/annotation.h"
#include "cluster/exclusion.h"

struct node_object {
    char name[NODE_NAME_BYTES];
    enum exclusion excluded; /* by the object itself: exclusion_read() */
    int64_t cpu_milli;       /* allocatable; 0: missing or not readable */
    int64_t memory_bytes;
    int64_t cpu_used_milli; /* requested by other pods, or promised to other jobs by their plans */
    int64_t memory_used_bytes;
    struct annotations annotations;
};

/* Tolerant: what is missing or cannot be read is 0, and so are figures: see annotations.bad.
 * `unseen` is that of exclusion_read(). */
void node_object_read(const struct json *node, enum exclusion unseen, struct node_object *out);

/* By name, as node_objects_use() needs them. */
void node_objects_sort(struct node_object *nodes, size_t n);
/* Count this much as used on the node of that name, if it is among the `n` sorted ones. */
void node_objects_use(struct node_object *nodes, size_t n, const char *name, int64_t cpu_milli,
                      int64_t memory_bytes);

#endif
