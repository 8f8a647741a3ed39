#include "nn/gemm.h"

#include <cblas.h>
#include <stddef.h>
#include <stdlib.h>

#include "nn/gemm_bf16.h"
#include "nn/lanes.h"
#include "nn/threads.h"

#define GEMM_WORK_MIN 500000.0 /* multiply-adds that are worth waking a thread: some 5 us */
#define GEMM_EDGE     64       /* pieces start at multiples of it: whole tiles of every kernel */

static unsigned char *packs; /* GEMM_BF16_PACK_BYTES per thread; NULL: factors are fp32 */

enum err_code gemm_setup(int threads, struct err *err)
{
    if (threads < 1)
        return err_set(err, ERR_INVALID, "threads: %d is below 1", threads);
    openblas_set_num_threads(1);
    threads_set(threads);
    free(packs);
    packs = NULL;
    return ERR_OK;
}

bool gemm_has_bf16(void)
{
#if defined(__x86_64__)
    return lanes_have_avx512() && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

enum err_code gemm_use(enum gemm_precision precision, struct err *err)
{
    size_t bytes = (size_t)threads_count() * GEMM_BF16_PACK_BYTES;

    free(packs);
    packs = NULL;
    if (precision == GEMM_FP32)
        return ERR_OK;
    if (!gemm_has_bf16())
        return err_set(err, ERR_INVALID, "this processor has no AVX512_BF16");
    packs = aligned_alloc(64, bytes);
    if (!packs)
        return err_set(err, ERR_NO_MEMORY,
                       "no memory for the %zu bytes that matrices are packed in", bytes);
    return ERR_OK;
}

enum gemm_precision gemm_precision(void)
{
    return packs ? GEMM_BF16 : GEMM_FP32;
}

const char *gemm_core_name(void)
{
    const char *name = openblas_get_corename();

    return name ? name : "unknown";
}

const char *gemm_core_wanted(void)
{
    return lanes_have_avx512() ? "SkylakeX" : lanes_have_avx2() ? "Haswell" : NULL;
}

void gemm_alone(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                struct gemm_out c)
{
    cblas_sgemm(CblasRowMajor, kind == GEMM_TN ? CblasTrans : CblasNoTrans,
                kind == GEMM_NT ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a.data, a.ld, b.data,
                b.ld, c.add ? 1.0f : 0.0f, c.data, c.ld);
}

/* Where piece `i` of `pieces` starts. */
static int piece_start(int i, int pieces, int length)
{
    int edges = (length + GEMM_EDGE - 1) / GEMM_EDGE;
    int at = (int)((long long)edges * i / pieces) * GEMM_EDGE;

    return at < length ? at : length;
}

void gemm(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
          struct gemm_out c)
{
    double most = (double)m * n * k / GEMM_WORK_MIN;
    int pieces = most < 1 ? 1 : most < threads_count() ? (int)most : threads_count();
    int length = m > n ? m : n;
    /* Decided by the size of the whole, so that bits do not depend on the number of pieces. */
    bool is_bf16 = packs && m >= GEMM_BF16_MIN && n >= GEMM_BF16_MIN && k >= GEMM_BF16_MIN;

#pragma omp parallel for num_threads(pieces) schedule(static, 1) if (pieces > 1)
    for (int i = 0; i < pieces; i++) {
        int from = piece_start(i, pieces, length);
        int count = piece_start(i + 1, pieces, length) - from;
        int height = m, width = n;
        struct gemm_in a_piece = a, b_piece = b;
        struct gemm_out c_piece = c;

        if (m > n) { /* some rows of the result */
            height = count;
            a_piece.data += kind == GEMM_TN ? (size_t)from : (size_t)from * (size_t)a.ld;
            c_piece.data += (size_t)from * (size_t)c.ld;
        } else {
            width = count;
            b_piece.data += kind == GEMM_NT ? (size_t)from * (size_t)b.ld : (size_t)from;
            c_piece.data += from;
        }
        if (count > 0 && is_bf16)
            gemm_bf16(kind, height, width, k, a_piece, b_piece, c_piece,
                      packs + (size_t)i * GEMM_BF16_PACK_BYTES);
        else if (count > 0)
            gemm_alone(kind, height, width, k, a_piece, b_piece, c_piece);
    }
}
