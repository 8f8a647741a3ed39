/* cli/nodes.h - the nodes of a cluster as a table: what a planner knows of each.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_NODES_H
#define CLI_NODES_H

#include <stdio.h>

#include "cluster/node_object.h"

/* A line for each of the `n` nodes: ready, speed, allocatable memory and CPU, age of the
 * measurement, and what a user should know: that it is not schedulable, or that its measurement is
 * not believed any more. Pure but for the output. */
void nodes_print(const struct node_object *nodes, size_t n, int64_t now_ms, FILE *out);

/* Why no job believes the node's measurement; NULL: those with the same shapes, data and image do,
 * or there is none. */
const char *nodes_stale(const struct node_object *node, int64_t now_ms);

#endif
