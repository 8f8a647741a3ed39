/* nn/gemm.h - matrix products, and the only place that uses OpenBLAS.
 *
 * All matrices are row-major floats. A product is cut by rows or columns of the result among
 * threads_count() threads, and each piece is an OpenBLAS call on one thread: OpenBLAS's own
 * threads are switched off, since they count the host's cores and not the pod's. After
 * gemm_use(GEMM_BF16) the pieces of large products run in nn/gemm_bf16.h instead.
 * Layer: nn. Threads: one caller at a time, except gemm_alone().
 */
#ifndef NN_GEMM_H
#define NN_GEMM_H

#include <stdbool.h>

#include "base/err.h"

enum gemm_kind {
    GEMM_NN, /* c[m,n] = a[m,k] b[k,n] */
    GEMM_NT, /* c[m,n] = a[m,k] b[n,k]^T */
    GEMM_TN, /* c[m,n] = a[k,m]^T b[k,n] */
};

/* One factor or result: `ld` floats from one row to the next, at least its columns. */
struct gemm_in {
    const float *data;
    int ld;
};
struct gemm_out {
    float *data;
    int ld;
    bool add; /* to what is there; else overwrite it, even a NaN */
};

/* How gemm() takes its factors; sums are fp32 in both. */
enum gemm_precision {
    GEMM_FP32,
    GEMM_BF16, /* rounded to bfloat16, unless m, n or k is below GEMM_BF16_MIN */
};
#define GEMM_BF16_MIN 16

/* Call it before the first product: sets the threads of every kernel of this folder, clamped to
 * THREADS_MAX, and fp32 factors. ERR_INVALID when `threads` is below 1. */
MUST_CHECK enum err_code gemm_setup(int threads, struct err *err);

/* After gemm_setup(). ERR_INVALID names what the processor lacks for GEMM_BF16; ERR_NO_MEMORY for
 * the 3.5 MB per thread that factors are packed in. */
MUST_CHECK enum err_code gemm_use(enum gemm_precision precision, struct err *err);
enum gemm_precision gemm_precision(void);

/* Whether this processor supports gemm_use(GEMM_BF16). */
bool gemm_has_bf16(void);

/* The kernel set that OpenBLAS runs, such as "SkylakeX"; for logs. "Prescott" or "Nehalem" on a
 * processor with AVX2 means that gemm_core_wanted() was not set. Never NULL. */
const char *gemm_core_name(void);

/* Which OPENBLAS_CORETYPE this processor should run: "SkylakeX" with AVX-512 (f, bw, dq, vl, cd),
 * "Haswell" with AVX2 and FMA, NULL to leave the choice to the library. OpenBLAS before 0.3.25
 * falls back to SSE on unknown processors and takes AVX2 on Zen with AVX-512. The
 * library reads the variable when it is loaded: set it and exec the program again. */
const char *gemm_core_wanted(void);

/* The product `kind` of m, n, k > 0. `c` may not overlap a factor. With bfloat16 factors the bits
 * do not depend on the number of threads. */
void gemm(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
          struct gemm_out c);

/* The same on the calling thread only, for use inside a parallel loop; always fp32: such products
 * are small, and packing would cost them more than bfloat16 saves. */
void gemm_alone(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                struct gemm_out c);

#endif
