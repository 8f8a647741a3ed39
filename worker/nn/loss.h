/* nn/loss.h - softmax cross entropy of a classifier, squared error of a regression.
 *
 * Computed in double and returned per sample, so that the caller sums totals in an order that does
 * not depend on the micro-batches. Layer: nn. Threads: any, and pure, unless stated.
 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stdint.h>

/* losses[B] = -log softmax(logits[B,N])[label]; dlogits[B,N] = (softmax - onehot) * factor, with
 * factor = 1 / samples of the step for a mean loss; NULL when evaluating. The caller checks
 * that labels[B] are in 0..N-1. `dlogits` may be `logits`. */
void loss_cross_entropy(float *losses, float *dlogits, const float *logits, const int32_t *labels,
                        int B, int N, float factor);

/* loss_cross_entropy() and loss_predict() in one for a whole vocabulary: in float, with the rows
 * shared by the threads. logits[B,N] become dlogits. Losses are good to 2e-6; probabilities below
 * 1e-20 count as 0.
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
