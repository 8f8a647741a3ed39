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

#define REPORT_MAX_BYTES    ((size_t)1 << 20)
#define REPORT_UNUSABLE_MAX 16 /* nodes that are listed; more are only counted */
#define REPORT_STALE_MAX    16 /* likewise, for each reason */

struct report {
    const struct partition_request *request;
    const struct placement *placement;
    const struct whatif *whatif;
    const char *const *stale;      /* of each node: stale_reason(); NULL: all were measured now */
    int n_closed;                  /* nodes of a file that take no pods */
    const struct cluster *cluster; /* whose nodes they are; NULL: not a cluster's */
    bool is_micro_open;            /* the job left the number of micro-batches to the planner */
};

/* The table of stages, notes on whose figures do not hold, then a line for each of: step,
 * batch, bottleneck, other strategies, one node more and fewer, nodes left out. */
void report_text(const struct report *r, FILE *out);

/* The same for programs. ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code report_json(const struct report *r, struct buf *out, struct err *err);

/* Print a JSON text as YAML in blocks. Keys must be plain words, as all of ours are. ERR_INVALID.
 */
MUST_CHECK enum err_code report_yaml(const struct buf *json, FILE *out, struct err *err);

/* The nodes of a cluster that cannot take a stage, a line each: "  n1 is cordoned". */
void report_unusable(const struct cluster *c, FILE *out);

#endif
