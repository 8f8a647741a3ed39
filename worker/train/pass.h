/* train/pass.h - one micro-batch through this stage: received, computed, handed on or scored.
 *
 * Layer: train. Threads: that of the training loop.
 */
#ifndef TRAIN_PASS_H
#define TRAIN_PASS_H

#include "train/train.h"

/* Forward of micro-batch `index` of the step, or of the split that the train is at. The head takes
 * it from the loader, the others from their neighbour; the last stage adds the result to its sums.
 */
MUST_CHECK enum err_code pass_forward(struct train *t, int64_t step, int64_t index,
                                      struct err *err);

/* Backward of micro-batch `index` of a step, whose forward has been. */
MUST_CHECK enum err_code pass_backward(struct train *t, int64_t step, int index, struct err *err);

#endif
