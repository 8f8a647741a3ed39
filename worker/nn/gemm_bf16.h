/* nn/gemm_bf16.h (private) - matrix products with factors rounded to bfloat16.
 *
 * The products of nn/gemm.h, from floats to floats: both factors are rounded to
 * bfloat16 (nearest, ties to even; numbers below 2^-126 become 0) while they are packed, products
 * and sums are fp32. A sum runs over k in an order that depends on k alone, so an element of the
 * result has the same bits however the result is cut among threads.
 * Layer: nn. Threads: each with a pack of its own.
 */
#ifndef NN_GEMM_BF16_H
#define NN_GEMM_BF16_H

#include "nn/gemm.h"

/* Blocks of both factors as bfloat16, which one call works in. */
#define GEMM_BF16_ROWS       192  /* of a block of a; a multiple of 48 */
#define GEMM_BF16_COLUMNS    1536 /* of a block of b; a multiple of 64 */
#define GEMM_BF16_DEPTH      1024 /* of both; a multiple of 32 */
#define GEMM_BF16_PACK_BYTES ((GEMM_BF16_ROWS + GEMM_BF16_COLUMNS) * GEMM_BF16_DEPTH * 2)

/* Only if gemm_has_bf16(). `pack` has GEMM_BF16_PACK_BYTES, starts on 64 bytes and holds
 * nothing between two calls. */
void gemm_bf16(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
               struct gemm_out c, void *pack);

#endif
