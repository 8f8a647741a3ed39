/* nn/loss.h - softmax cross entropy of a classifier, squared error of a regression.
 *
 * Computed in double and handed out per sample, so that a total is summed in an order that the
 * caller chooses and does not depend on the micro-batches. Layer: nn. Threads: any; pure, unless
 * said.
 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stdint.h>

/* losses[B] = -log softmax(logits[B,N])[label]; dlogits[B,N] = (softmax - onehot) * factor, with
 * factor = 1 / samples of the step for a mean loss; NULL when evaluating. labels[B] in 0..N-1 are
 * the caller's to check. `dlogits` may be `logits`. */
void loss_cross_entropy(float *losses, float *dlogits, const float *logits, const int32_t *labels,
                        int B, int N, float factor);

/* loss_cross_entropy() and loss_predict() in one for a whole vocabulary: in float, the rows shared
 * by the threads. logits[B,N] become dlogits. A loss is good to 2e-6, a share below 1e-20 is 0.
 * Threads: one caller; bits do not depend on the count. */
void loss_vocabulary(float *losses, int32_t *predictions, float *logits, const int32_t *labels,
                     int B, int N, float factor);

/* losses[B] = (outs[b] - targets[b])^2; douts[B] = 2 (outs[b] - targets[b]) * factor, with factor
 * as above; NULL when evaluating. `douts` may be `outs`. */
void loss_squared(float *losses, float *douts, const float *outs, const float *targets, int B,
                  float factor);

/* The largest logit of each row, the first of equals: predictions[B]. */
void loss_predict(int32_t *predictions, const float *logits, int B, int N);

#endif
