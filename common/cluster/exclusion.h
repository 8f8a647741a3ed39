/* cluster/exclusion.h - why a node is not a candidate for a stage: one vocabulary for operator, CLI
 * and files of nodes.
 *
 * Layer: cluster (may use api, base). Threads: any; pure.
 */
#ifndef CLUSTER_EXCLUSION_H
#define CLUSTER_EXCLUSION_H

#include "base/json.h"

/* Where several hold, the first one counts: a node that does not answer is also tainted, and so is
 * one that is cordoned or short of something. */
enum exclusion {
    EXCLUDED_NOT,
    /* From the Node object alone: */
    EXCLUDED_NOT_READY,
    EXCLUDED_DELETED,
    EXCLUDED_CORDONED,
    EXCLUDED_PRESSURE, /* short of memory, disk or processes */
    EXCLUDED_TAINTED,  /* other than by what workers tolerate: names.h */
    /* From the survey: */
    EXCLUDED_UNREADABLE, /* no readable allocatable CPU or memory */
    EXCLUDED_CPU,
    EXCLUDED_MEMORY,
    EXCLUDED_BF16,
    EXCLUDED_UNMEASURED,
    EXCLUDED_PROBE_FAILED,
    EXCLUSIONS,
};

/* Is the Node schedulable for workers? `unseen` counts for a Node without a condition "Ready":
 * EXCLUDED_NOT_READY in a cluster, EXCLUDED_NOT in a file, where it need not be written down. */
enum exclusion exclusion_read(const struct json *node, enum exclusion unseen);

/* To follow a node's name or a number of nodes: "not ready", "with less than 100m of CPU free". */
const char *exclusion_text(enum exclusion why);

#endif
