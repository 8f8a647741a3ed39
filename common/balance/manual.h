/* balance/manual.h - the cut that the user wrote down. Private to balance.
 *
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_MANUAL_H
#define BALANCE_MANUAL_H

#include "balance/request.h"

/* Which of the request's nodes each of spec.placement.stages runs on, to out_nodes
 * [spec.placement.stages.n]: the one it names, or the fastest that nobody names and whose memory
 * holds it; stages with more work choose first.
 *
 * ERR_NOT_FOUND with the entry's number: no suitable node has the name, or none is left that holds
 * the stage. Whether a stage fits the node it names, the caller checks. ERR_NO_MEMORY. */
MUST_CHECK enum err_code manual_nodes(const struct partition_request *request, int *out_nodes,
                                      struct err *err);

#endif
