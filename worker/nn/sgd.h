/* nn/sgd.h - stochastic gradient descent with momentum as torch.optim.SGD computes it.
 *
 *   g += decay * p           m = momentum * m + g           p -= lr * m
 *
 * Decay is coupled, no dampening, no Nesterov; m starts at 0, so the first m is g as in torch.
 * One difference: |m| < 1e-30 becomes 0, for the reason given in nn/adamw.h.
 * Layer: nn. Threads: one caller; elementwise, bits do not depend on the count.
 */
#ifndef NN_SGD_H
#define NN_SGD_H

#include <stddef.h>

struct sgd {
    double lr, momentum;
    double decay;      /* 0 for biases and LayerNorm vectors */
    double grad_scale; /* g is multiplied by it first: clipping; 1 for none */
};

/* Step n parameters; `g` is left zeroed for the next step's sums. */
void sgd_step(const struct sgd *a, float *p, float *g, float *m, size_t n);

#endif
