/* nn/squares.h - the sum of squares, for the norm of gradients.
 *
 * In double, so no float overflows it. Layer: nn. Threads: one caller; bits do not depend on the
 * count.
 */
#ifndef NN_SQUARES_H
#define NN_SQUARES_H

#include <stddef.h>

/* The sum of x[i]^2. Blocks of 4096 elements from the start of x are summed in 16 strands (element
 * i to strand i % 16), the strands pairwise, the blocks in order: bits do not depend on threads,
 * alignment or instruction set. Sum units in model order. */
double squares_sum(const float *x, size_t n);

#endif
