/* pipe/pass.h - one micro-batch through this stage: received, computed, handed on or scored.
 *
 * Layer: pipe. Threads: that of the training loop.
 */
#ifndef PIPE_PASS_H
#define PIPE_PASS_H

#include "pipe/train.h"

#define PASS_TRAINING (-1) /* instead of a split: a backward pass follows */

/* Forward of micro-batch `index` of a step, or of an evaluated split. The head takes it from the
 * feed, the others from their neighbour; the last stage adds its result to the train's sums. */
MUST_CHECK enum err_code pass_forward(struct train *t, int64_t step, int split, int64_t index,
                                      struct err *err);

/* Backward of micro-batch `index` of a step, whose forward has been. */
MUST_CHECK enum err_code pass_backward(struct train *t, int64_t step, int index, struct err *err);

#endif
