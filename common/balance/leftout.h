/* balance/leftout.h - why a node has no stage, in words. Private to balance.
 *
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_LEFTOUT_H
#define BALANCE_LEFTOUT_H

#include "balance/request.h"

/* List the nodes that no stage of `p` is on; its stages and predicted_step_ms must be set. For a
 * node that would fit, the reason names the step time with it in its best place between the
 * chosen ones. */
MUST_CHECK enum err_code leftout_list(const struct partition_request *request, struct placement *p,
                                      struct err *err);

/* Least bytes of any stage that holds `unit`, or of any stage at all. */
int64_t leftout_unit_bytes(const struct partition_request *request, int unit);
int64_t leftout_least_bytes(const struct partition_request *request);

#endif
