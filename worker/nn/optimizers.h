/* nn/optimizers.h - AdamW, SGD with momentum, and the sum of squares that clipping needs.
 *
 * AdamW as torch.optim.AdamW computes it (Loshchilov and Hutter, decoupled decay):
 *   p -= lr * decay * p
 *   m += (1 - beta1) (g - m)         v = beta2 v + (1 - beta2) g g
 *   p -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
 *
 * SGD as torch.optim.SGD does (coupled decay, no dampening, no Nesterov; m starts at 0):
 *   g += decay * p           m = momentum * m + g           p -= lr * m
 *
 * One difference: |m| < 1e-30 and v < 1e-36 become 0, or the moments of rare words would decay into
 * denormal numbers and slow the step down a hundred times. Their effect is below lr * 1e-22.
 * Layer: nn. Threads: one caller; bits do not depend on how many share the work.
 */
#ifndef NN_OPTIMIZERS_H
#define NN_OPTIMIZERS_H

#include <stddef.h>

struct adamw {
    double lr, beta1, beta2, eps;
    double decay;      /* 0 for biases and LayerNorm vectors */
    double grad_scale; /* g is multiplied by it first: clipping; 1 for none */
    long step;         /* counted from 1: the bias correction */
};

struct sgd {
    double lr, momentum;
    double decay, grad_scale; /* as above */
};

/* Update n parameters; `g` is left zeroed for the next step's sums. */
void adamw_step(const struct adamw *a, float *p, float *g, float *m, float *v, size_t n);
void sgd_step(const struct sgd *a, float *p, float *g, float *m, size_t n);

/* The sum of x[i]^2, in double, so no float overflows it. Blocks of 4096 elements from the start of
 * x are summed in 16 strands (element i to strand i % 16), the strands pairwise, the blocks in
 * order: bits do not depend on threads, alignment or instruction set. Sum units in model order. */
double squares_sum(const float *x, size_t n);

#endif
