/* nn/layernorm.h - LayerNorm with what stands around it in a post-LN transformer, fused.
 *
 *   sum  = res + dropout(y)                     (res may be NULL: sum = y, nothing dropped)
 *   xhat = (sum - mean) * rstd,  rstd = 1 / sqrt(var + eps)      over the C elements of a row
 *   out  = xhat * gain + bias
 *
 * xhat[T,C] and rstd[T] are kept for backward. Layer: nn. Threads: one caller.
 */
#ifndef NN_LAYERNORM_H
#define NN_LAYERNORM_H

#include <stddef.h>

#include "nn/dropout.h"
#include "nn/packed.h"

struct layernorm_forward {
    const float *res;  /* [T,C] or NULL */
    const float *y;    /* [T,C] */
    const float *gain; /* [C] */
    const float *bias; /* [C] */
    float eps;
    float *xhat; /* [T,C] may be y */
    float *rstd; /* [T] */
    float *out;  /* [T,C] may be y */
};

struct layernorm_backward {
    const float *dout; /* [T,C] */
    const float *xhat; /* [T,C] */
    const float *rstd; /* [T] */
    const float *gain; /* [C] */
    float *dgain;      /* [C] added to */
    float *dbias;      /* [C] added to */
    float *dsum;       /* [T,C] = the gradient of res; may be dout */
    float *dy;         /* [T,C] = dsum with the dropped elements dropped; NULL: not wanted */
    float *dy_bias;    /* [C] += column sums of dy: the bias of the layer below; with dy */
    float *partial;    /* layernorm_partial_floats(T, C) */
};

size_t layernorm_partial_floats(int T, int C);

void layernorm_forward(const struct layernorm_forward *n, const struct packed *batch, int C,
                       const struct dropout *drop);
void layernorm_backward(const struct layernorm_backward *n, const struct packed *batch, int C,
                        const struct dropout *drop);

#endif
