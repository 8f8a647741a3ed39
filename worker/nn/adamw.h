/* nn/adamw.h - AdamW as torch.optim.AdamW computes it (Loshchilov and Hutter, decoupled decay).
 *
 *   p -= lr * decay * p
 *   m += (1 - beta1) (g - m)         v = beta2 v + (1 - beta2) g g
 *   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
 *
 * One difference: |m| < 1e-30 and v < 1e-36 become 0, or the moments of rare words would decay into
 * denormal numbers and slow the step down a hundred times. Their effect is below lr * 1e-22.
 * Layer: nn. Threads: one caller; elementwise, bits do not depend on the count.
 */
#ifndef NN_ADAMW_H
#define NN_ADAMW_H

#include <stddef.h>

struct adamw {
    double lr, beta1, beta2, eps;
    double decay;      /* 0 for biases and LayerNorm vectors */
    double grad_scale; /* g is multiplied by it first: clipping; 1 for none */
    long step;         /* counted from 1: the bias correction */
};

/* Step n parameters; `g` is left zeroed for the next step's sums. */
void adamw_step(const struct adamw *a, float *p, float *g, float *m, float *v, size_t n);

#endif
