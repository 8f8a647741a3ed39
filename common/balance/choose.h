/* balance/choose.h - a placement, and into how many micro-batches to cut a batch where the job
 * leaves that open.
 *
 * More micro-batches keep the stages of a pipeline busier and need less memory; each one costs its
 * calls, its weights' way through the caches and two messages an edge once more (balance/cost.h).
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_CHOOSE_H
#define BALANCE_CHOOSE_H

#include "balance/partition.h"

#define CHOOSE_MICRO_MAX 1024 /* as spec.training.microBatches */
#define CHOOSE_TRIES     16   /* divisors of the batch size that are planned with */
#define CHOOSE_FEW_TRIES 4    /* with more than CHOOSE_FEW_NODES nodes */
#define CHOOSE_FEW_NODES 16

/* partition_solve() for `spec`, which request->spec becomes. If its training.micro_batches is 0, it
 * becomes the one with the shortest predicted step, of equal ones the smallest; of all divisors of
 * the batch size if they are no more than CHOOSE_TRIES, else of those nearest to four times as many
 * as there may be stages. Errors are those of partition_solve(); then it stays 0. */
MUST_CHECK enum err_code choose_solve(struct partition_request *request, struct spec *spec,
                                      struct placement *out, struct err *err);

#endif
