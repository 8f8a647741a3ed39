/* nn/init.h - the random start of a model's weights.
 *
 * Element i of tensor t is a pure function of (seed, t, i), so the start does not depend on the
 * cut into stages; it uses no libm and no fused multiply-add, so not on the machine either.
 * BERT's start: matrices normal(0, 0.02), biases 0, LayerNorm gain 1. Layer: nn. Threads: one.
 */
#ifndef NN_INIT_H
#define NN_INIT_H

#include <stddef.h>
#include <stdint.h>

/* x[i] = std * N(0,1): Box-Muller on Philox4x32-10. Good to 6e-7 * std; |x| < 6.7 std.
 * `tensor` is the index of the tensor in the whole model; n <= 2^32. */
void init_normal(float *x, size_t n, float std, uint64_t seed, uint32_t tensor);
void init_constant(float *x, size_t n, float value);

#endif
