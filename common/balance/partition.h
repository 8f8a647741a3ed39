/* balance/partition.h - which units run on which node, so that a step is as short as possible.
 *
 * A step of S stages and M micro-batches is predicted to take
 *
 *     sum of stage times + (M - 1) * slowest stage or edge + 2 * sum of edge times
 *
 * (fill and drain once, the bottleneck M - 1 times more), where a stage takes what it computes and
 * the CPU time of its messages, an edge takes what the link between its two nodes takes, and
 * filling is quicker than the rest on a node that gives part of a core (balance/cost.h). Optimal
 * minimises that over the cut, the order and the choice of nodes, under every node's memory and the
 * spec's minStages and maxStages. It is exact (to 1e-9) up to PARTITION_EXACT_WORK: 11 different
 * nodes for the 27 units of BERT-base, or 64 of three kinds; another node then never makes a plan
 * slower. Above, it is the best of a few orders of the 64 most promising nodes, each cut exactly,
 * and of an exact search over the most promising few, with a proven lower bound (balance/bound.h).
 * It stops 0.3% above that bound or when the next order gains less than 0.2%, so there another node
 * may cost half a percent. 160 layers on 64 or 1,000 nodes up to seven times slower than the
 * fastest come to 0.2% to 3% above the bound, in four buildings as well, and to 10% where memory
 * leaves room for two layers per node.
 *
 * Even gives every node the same number of layers; Dynamic improves that with a published heuristic
 * (balance/rules.h). Both exist to be compared with. Manual obeys spec.placement.manual.
 *
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_PARTITION_H
#define BALANCE_PARTITION_H

#include "balance/request.h"

#define PARTITION_EXACT_WORK 1e6 /* states times choices of one search, see balance/subsets.c */

/* Make the placement that spec.placement.strategy asks for.
 *
 * Returns ERR_OK; ERR_NOT_FOUND when nothing fits, with a text that names what to change: "unit
 * embeddings needs 700 MiB, the largest node offers 512 MiB: ...", or when Manual names a node that
 * is not there; ERR_INVALID for a node without speed and for a link that cannot be; ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code partition_solve(const struct partition_request *request,
                                         struct placement *out, struct err *err);

/* Are all links possible, and the same both ways? ERR_INVALID. */
MUST_CHECK enum err_code partition_check_links(const struct partition_request *r, struct err *err);

/* List the nodes that are excluded from `p`, with reasons; its stages and predicted_step_ms must be
 * set. For a node that would fit, the reason contains the step time with it in its best place
 * between the chosen ones. */
MUST_CHECK enum err_code partition_list_left_out(const struct partition_request *request,
                                                 struct placement *p, struct err *err);

#endif
