/* nn/lanes.h (private) - the row kernels, compiled once per instruction set and chosen at run time.
 *
 * lanes_body.h is the one source; lanes_base.c, lanes_avx2.c and lanes_avx512.c compile it with
 * their own flags (Makefile). Each kernel takes one row (or one run of elements) on the calling
 * thread. Bits of a result depend on the values and on the place within the row, never on the
 * address or on where a vector loop ends and its tail begins: the compiler may not reassociate (no
 * -ffast-math, contraction off, fused multiply-add only where written), so a scalar tail computes
 * what the vector body does. On every instruction set sums run in LANES strands, element i in
 * strand i % LANES, which are added pairwise.
 *
 * The `*_acc` arguments are sums over rows, added to. Layer: nn. Threads: any; pure.
 */
#ifndef NN_LANES_H
#define NN_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/random.h"

#define LANES       16
#define LANES_BLOCK 64 /* elements that 16 Philox counters cover */

struct adamw;
struct layernorm;
struct sgd;

struct lanes {
    const char *name;
    /* out = in with elements dropped */
    void (*dropout)(float *out, const float *in, int n, const struct dropout_row *drop);
    /* out[C], and xhat[C] for norm_back, from y[C] and res[C] or NULL. Returns rstd. */
    float (*norm)(float *out, float *xhat, const float *res, const float *y,
                  const struct layernorm *n, const struct dropout_row *drop);
    /* dsum[C], and dy[C] unless NULL. sums_acc[3,C]: of the gradients of gain and bias, and dy. */
    void (*norm_back)(float *dsum, float *dy, float *sums_acc, const float *dout, const float *xhat,
                      float rstd, const struct layernorm *n, const struct dropout_row *drop);
    void (*gelu)(float *g, const float *h, int n);
    void (*gelu_back)(float *h, float *dg, float *dbias_acc, int n);
    /* s becomes dropout(softmax(scale * s)). Returns 1 / the sum of exp(scale * (s - max)). */
    float (*softmax)(float *s, int n, float scale, const struct dropout_row *drop);
    /* s becomes dropout(softmax(scale * s)) again, dp the gradient of s before scaling */
    void (*softmax_back)(float *s, float *dp, int n, float scale, const struct dropout_row *drop);
    void (*tanh)(float *y, const float *x, int n);
    /* dx = dy * (1 - y^2) */
    void (*tanh_back)(float *dx, const float *dy, const float *y, int n);
    /* acc += x */
    void (*add)(float *acc, const float *x, int n);
    /* acc[n] += the column sums of rows x[rows][n], `ld` floats apart, in their order */
    void (*add_columns)(float *acc, const float *x, int rows, int ld, int n);
    /* Leaves g zeroed. */
    void (*adamw)(const struct adamw *a, float *p, float *g, float *m, float *v, size_t n);
    void (*sgd)(const struct sgd *a, float *p, float *g, float *m, size_t n);
    double (*sum_squares)(const float *x, size_t n);
};

extern const struct lanes lanes_base;
#if defined(__x86_64__)
extern const struct lanes lanes_avx2;
extern const struct lanes lanes_avx512;
#endif

/* AVX-512 as all Skylake servers and their successors have it (f, bw, dq, vl, cd); AVX2 with FMA.
 */
bool lanes_have_avx512(void);
bool lanes_have_avx2(void);

/* The fastest table that this processor supports. */
const struct lanes *lanes(void);

#endif
