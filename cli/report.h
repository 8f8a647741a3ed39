/* cli/report.h - a placement explained: to people as text, to programs as JSON or YAML.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "balance/explain.h"
#include "base/buf.h"
#include "cli/cluster.h"

#define REPORT_MAX_BYTES ((size_t)1 << 20)
#define REPORT_NODES_MAX 16 /* listed for each reason; more are only counted */

struct report {
    const struct partition_request *request;
    const struct placement *placement;
    const struct whatif *whatif;
    /* Of the candidates, which are the request's nodes; without nodes: all were measured now. */
    const struct cluster *cluster;
    bool is_micro_open; /* the job left the number of micro-batches to the planner */
};

/* The table of stages, notes on the nodes' figures, then a line for each of: step, batch,
 * bottleneck, other strategies, one node more and fewer, excluded nodes. */
void report_text(const struct report *r, FILE *out);

/* The same for programs. ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code report_json(const struct report *r, struct buf *out, struct err *err);

/* Print a JSON text as YAML in blocks. Keys must be plain words, as all of ours are. ERR_INVALID.
 */
MUST_CHECK enum err_code report_yaml(const struct buf *json, FILE *out, struct err *err);

/* What the survey has found: invalid annotations, and the nodes that it excluded, a line each. */
void report_nodes(const struct cluster *c, FILE *out);

#endif
