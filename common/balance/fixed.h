/* balance/fixed.h - the strategies that follow a rule: Even, Dynamic, Manual. Private to balance.
 *
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_FIXED_H
#define BALANCE_FIXED_H

#include "balance/optimal.h"

/* The cut of `strategy`, which is not Optimal. out->found says whether every stage fits and there
 * are as many as spec.placement.minStages wants; *out_misfit is the first stage that does not fit,
 * or -1. The cut is filled in either way. ERR_NOT_FOUND and ERR_NO_MEMORY of manual_nodes(). */
MUST_CHECK enum err_code fixed_solve(const struct partition_request *request,
                                     enum spec_strategy strategy, struct solution *out,
                                     int *out_misfit, struct err *err);

#endif
