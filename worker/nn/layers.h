/* nn/layers.h (private) - the layers that units are made of: forward beside backward.
 *
 * Letters: T rows (tokens), C hidden, H heads, F feed-forward, I inputs, O outputs. Gradients of
 * parameters are added to, so that they sum up over micro-batches; every other result is
 * overwritten. Work is cut into pieces that do not depend on the number of threads, and so neither
 * do the bits.
 * Layer: nn. Threads: one caller; threads_count() share the work.
 */
#ifndef NN_LAYERS_H
#define NN_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/packed.h"
#include "nn/random.h"

/* --- linear: y = x w^T + b, with the weight stored [O,I] as PyTorch stores it --- */

struct linear {
    int T, I, O;
    const float *w, *b; /* [O,I], [O] */
    float *dw, *db;     /* of backward only */
};

/* y[T,O] from x[T,I] */
void linear_forward(float *y, const float *x, const struct linear *l);
/* All three gradients of dy[T,O]: dw, db, and dx[T,I] = dy w. */
void linear_backward(float *dx, const float *dy, const float *x, const struct linear *l);
/* dx = dy w, or dx += dy w */
void linear_backward_input(float *dx, const float *dy, const struct linear *l, bool add);
/* dw += dy^T x */
void linear_backward_weight(const float *dy, const float *x, const struct linear *l);
/* db += the column sums of dy, rows added in their order. */
void linear_backward_bias(const float *dy, const struct linear *l);

/* --- GELU with the exact error function: h * Phi(h), on [T,F] ---
 *
 * Phi(-x) = exp(-x^2/2) t p(t) with t = 1 / (1 + 0.35 x). Against libm in double the value is
 * good to 4e-7 relative for every x above -12 (measured; below, it is under 1e-30), so the negative
 * tail keeps its relative accuracy; the derivative to 4e-7 of its larger term. */

/* g = gelu(h) */
void gelu_forward(float *g, const float *h, int T, int F);
/* In place: h becomes gelu(h), dg becomes dh = dg * gelu'(h), dbias[F] += column sums of dh.
 * One pass gives the two factors of both weight gradients, so gelu(h) need not be kept.
 * `partial`: gelu_partial_floats(T, F). */
void gelu_backward(float *h, float *dg, float *dbias, float *partial, int T, int F);
size_t gelu_partial_floats(int T, int F);

/* --- LayerNorm with what stands around it in a post-LN transformer, fused ---
 *
 *   sum  = res + dropout(y)                     (res may be NULL: sum = y)
 *   xhat = (sum - mean) * rstd,  rstd = 1 / sqrt(var + eps)      over the C elements of a row
 *   out  = xhat * gain + bias */

struct layernorm {
    int T, C;
    float eps;
    const float *gain, *bias; /* [C] */
    float *dgain, *dbias;     /* of backward only, like `partial` */
    float *xhat, *rstd;       /* [T,C], [T]: from forward to backward; xhat may be y */
    float *partial;           /* layernorm_partial_floats(T, C) */
};

size_t layernorm_partial_floats(int T, int C);
/* out[T,C] from y[T,C] and res[T,C]; `out` may be `y`. Without res, batch and drop are NULL too. */
void layernorm_forward(float *out, const float *res, const float *y, const struct layernorm *n,
                       const struct packed *batch, const struct dropout *drop);
/* dsum[T,C], the gradient of res, from dout[T,C]; both may be one area. dy[T,C] is dsum with the
 * dropped elements dropped, and its column sums are added to dy_bias[C], the bias of the layer
 * below. Without res, dy and all but dsum, dout and n are NULL. */
void layernorm_backward(float *dsum, float *dy, float *dy_bias, const float *dout,
                        const struct layernorm *n, const struct packed *batch,
                        const struct dropout *drop);

/* --- attention: softmax(Q K^T / sqrt(D)) with dropout, times V: per sequence and head ---
 *
 * qkv[T,3C] holds the query, key and value of a token side by side; head h is the columns
 * h*D .. h*D+D-1 of each, D = C / H. Every token of a sequence attends to every token of the same
 * sequence. The probabilities are not kept: backward computes them again from qkv, which costs one
 * small product and saves H * length^2 floats per sequence. Probabilities below 1e-20 of the
 * largest count as 0 (see nn/lanes_body.h). */

/* Scratch of either direction for sequences up to `longest` on threads_count() threads. */
size_t attention_work_floats(int longest);
/* ctx[T,C] */
void attention_forward(float *ctx, const float *qkv, const struct packed *batch, int C, int H,
                       const struct dropout *drop, float *work);
/* dqkv[T,3C] from dctx[T,C] */
void attention_backward(float *dqkv, const float *dctx, const float *qkv,
                        const struct packed *batch, int C, int H, const struct dropout *drop,
                        float *work);

/* --- embedding: sums of rows of three tables ---
 *
 * ids[T], types[T] and the positions within each sequence index the tables: the caller checks them.
 * Backward adds the tokens in their order; the threads share the columns. */

struct embedding {
    const float *word, *position, *type; /* [V,C], [P,C], [2,C] */
    float *dword, *dposition, *dtype;    /* of backward only */
};

/* out[T,C] = word[id] + type[t] + position */
void embedding_forward(float *out, const struct embedding *e, const int32_t *ids,
                       const int32_t *types, const struct packed *batch, int C);
void embedding_backward(const float *dout, const struct embedding *e, const int32_t *ids,
                        const int32_t *types, const struct packed *batch, int C);

#endif
