/* balance/choose.h - a placement, and into how many micro-batches to cut a batch where the job
 * leaves that open.
 *
 * More micro-batches keep the stages of a pipeline busier and need less memory; each one costs its
 * calls, its weights' way through the caches and two messages an edge once more (balance/cost.h).
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_CHOOSE_H
#define BALANCE_CHOOSE_H

#include "balance/request.h"

#define CHOOSE_MICRO_MAX 1024 /* as spec.training.microBatches */
#define CHOOSE_TRIES     16   /* divisors of the batch size that are planned with */
#define CHOOSE_FEW_TRIES 4    /* with more than CHOOSE_FEW_NODES nodes */
#define CHOOSE_FEW_NODES 16

/* Shares of the shortest predicted step. What a prediction is worth is less than the first, so a
 * choice by less would change with the noise of the figures that it is made from. */
#define CHOOSE_MICRO_GAIN 0.02 /* that another number of micro-batches must gain */
#define CHOOSE_NODE_GAIN  0.01 /* and a node more */

/* partition_solve() for `spec`, which request->spec becomes. If its training.micro_batches is 0, it
 * becomes the usual one, four times the stages of the shortest step, or 1 with one stage. Where
 * that is more than CHOOSE_MICRO_GAIN slower, it becomes the smallest one that is not. Tried are
 * all divisors of the batch size if they are no more than CHOOSE_TRIES, else those nearest to four
 * times as many as there may be stages. With strategy Optimal the plan then has as few nodes as can
 * be with a step at most CHOOSE_NODE_GAIN longer than the shortest. out->bound_ms is a bound for
 * all of these. Errors are those of partition_solve(); then micro_batches stays 0. */
MUST_CHECK enum err_code choose_solve(struct partition_request *request, struct spec *spec,
                                      struct placement *out, struct err *err);

#endif
