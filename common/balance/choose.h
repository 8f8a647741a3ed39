/* balance/choose.h - a placement, with the number of micro-batches chosen if the job leaves it
 * open.
 *
 * More micro-batches keep the stages of a pipeline busier and need less memory. Each one costs its
 * calls, reading the weights through the caches and two messages per edge (balance/cost.h).
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_CHOOSE_H
#define BALANCE_CHOOSE_H

#include "balance/request.h"

#define CHOOSE_MICRO_MAX 1024 /* as spec.training.microBatches */
#define CHOOSE_TRIES     16   /* divisors of the batch size that are planned with */
#define CHOOSE_FEW_TRIES 4    /* with more than CHOOSE_FEW_NODES nodes */
#define CHOOSE_FEW_NODES 16

/* Shares of the shortest predicted step. Predictions are less accurate than the first, so a choice
 * by smaller differences would follow the noise of the measurements. */
#define CHOOSE_MICRO_GAIN 0.02 /* that another number of micro-batches must gain */
#define CHOOSE_NODE_GAIN  0.01 /* and a node more */

/* partition_solve(), for which out->micro_batches is chosen if the job's is 0: the usual number,
 * four times the stages of the shortest step, or 1 with one stage; or, if that is more than
 * CHOOSE_MICRO_GAIN slower than the fastest, the smallest number that is not. All
 * divisors of the batch size are tried if there are at most CHOOSE_TRIES, else those nearest to
 * four times the largest possible number of stages. With strategy Optimal the plan then has the
 * fewest nodes whose step is at most CHOOSE_NODE_GAIN longer than the shortest. out->bound_ms is a
 * bound for all of these. Errors are those of partition_solve(). */
MUST_CHECK enum err_code choose_solve(const struct partition_request *request,
                                      struct placement *out, struct err *err);

#endif
