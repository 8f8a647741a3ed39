/* cli/view.h - a plan explained: to people as text, to programs as JSON or YAML.
 *
 * The JSON has the names of the plan document (api/plan.h) and of the job's status.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include <stdio.h>

#include "balance/explain.h"
#include "base/buf.h"
#include "cli/cluster.h"
#include "cli/local.h"

#define VIEW_MAX_BYTES ((size_t)1 << 20)
#define VIEW_NODES_MAX 32 /* per list; more are only counted */

struct view {
    const struct local *local; /* planned */
    /* Of the candidates, which are the request's nodes; without nodes: all were measured now. */
    const struct cluster *cluster;
    const struct whatif *whatif;     /* NULL: not computed */
    const struct progress *measured; /* of the leader; NULL: not trained */
};

/* The table of stages: node, its CPU and speed, units in words, predicted time of a micro-batch
 * with a bar, share of the step that it is busy, memory. */
void view_stages(const struct local *l, FILE *out);

/* The table, notes on the nodes' figures, then a line for each of: step, batch, bottleneck, other
 * strategies, one node more and fewer, excluded nodes. */
void view_text(const struct view *r, FILE *out);

/* The same as members of the object that is open in `w`. */
void view_write(const struct view *r, struct jsonw *w);

/* Print a JSON text as YAML in blocks. Keys must be plain words, as all of ours are. ERR_INVALID.
 */
MUST_CHECK enum err_code view_yaml(const struct buf *json, FILE *out, struct err *err);

/* What the survey found: invalid annotations and excluded nodes, a line each. */
void view_nodes(const struct cluster *c, FILE *out);

#endif
