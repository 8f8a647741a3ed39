/* nn/gelu.h - GELU with the exact error function, h * Phi(h), on [T,F].
 *
 * Phi(-x) = exp(-x^2/2) t p(t) with t = 1 / (1 + 0.35 x). Against libm in double the value is
 * good to 4e-7 relative for every x above -12 (measured; below, it is under 1e-30), so the negative
 * tail keeps its relative accuracy; the derivative to 4e-7 of its larger term.
 * Layer: nn. Threads: one caller.
 */
#ifndef NN_GELU_H
#define NN_GELU_H

#include <stddef.h>

/* g = gelu(h) */
void gelu_forward(float *g, const float *h, int T, int F);

/* In place: h becomes gelu(h), dg becomes dh = dg * gelu'(h), dbias[F] += column sums of dh.
 * One pass gives the two factors of both weight gradients, so gelu(h) need not be kept.
 * `partial`: gelu_partial_floats(T, F). */
void gelu_backward(float *h, float *dg, float *dbias, float *partial, int T, int F);
size_t gelu_partial_floats(int T, int F);

#endif
