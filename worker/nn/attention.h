/* nn/attention.h - softmax(Q K^T / sqrt(D)) with dropout, times V: per sequence and head.
 *
 * qkv[T,3C] holds the query, key and value of a token side by side; head h is the columns
 * h*D .. h*D+D-1 of each, D = C / H. Every token of a sequence attends to every token of the same
 * sequence. The probabilities are not kept: backward computes them again from qkv, which costs one
 * small product and saves H * length^2 floats a sequence.
 * Probabilities below 1e-20 of the largest count as 0 (see nn/lanes_body.h).
 * Layer: nn. Threads: one caller; sequences and heads are shared out, bits do not depend on it.
 */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include <stddef.h>

#include "nn/dropout.h"
#include "nn/packed.h"

/* Scratch of either direction for sequences up to `longest` on `threads` threads. */
size_t attention_work_floats(int longest, int threads);

/* ctx[T,C] */
void attention_forward(float *ctx, const float *qkv, const struct packed *batch, int C, int H,
                       const struct dropout *drop, float *work);

/* dqkv[T,3C] from dctx[T,C] */
void attention_backward(float *dqkv, const float *dctx, const float *qkv,
                        const struct packed *batch, int C, int H, const struct dropout *drop,
                        float *work);

#endif
