/* For x86-64 with AVX512_BF16, whose VDPBF16PS adds to each of 16 floats the products of two pairs
 * of bfloat16; the Makefile gives this file the flags.
 *
 * The usual three levels: blocks of b stay in the L3 cache, of a in L2, a panel of b [k,64] in L1,
 * and a tile [6,64] of the result in registers: 24 sums, 4 vectors of b and one element of a.
 * Everything is packed in pairs along k: a pair is one 32-bit word.
 */
#include "nn/gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define TILE_ROWS    6
#define TILE_VECTORS 4 /* of 16 columns */
#define LANES        16
#define TILE_COLUMNS (TILE_VECTORS * LANES)
#define PAIRS        (GEMM_BF16_DEPTH / 2)
#define GROUP_ROWS   48 /* eight tiles, packed side by side: whole cache lines of a */
#define AHEAD        8  /* rows by which packing prefetches */
#define AHEAD_PAIRS  64 /* pairs before its end a tile prefetches its results */

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* One packed block of a: the pair `p` of row `i` in group `g` is at
 * data[g * group + i * row + p * pair]. */
struct block {
    const uint32_t *data;
    size_t group, row, pair;
};

/* A tile of the result, and how it is written. */
struct tile {
    float *data;
    size_t ld;
    bool add;       /* to what is there */
    __mmask16 last; /* columns of the last vector */
};

/* Prefetch into the cache; an invalid `x` does no harm. */
static inline void fetch(const float *x)
{
    _mm_prefetch((const char *)x, _MM_HINT_T0);
}

static inline __mmask16 mask_of(int n)
{
    return (__mmask16)(n >= LANES ? 0xffff : (1 << n) - 1);
}

/* The elements of `low`, then those of `high`, as bfloat16. */
static inline __m512i rounded(__m512 low, __m512 high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Word j of the result has low[j] in its lower half and high[j] in its upper. */
static inline __m512i pairs_of(__m512 low, __m512 high)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

    return _mm512_permutexvar_epi16(order, rounded(low, high));
}

/* From here to tile_body(): compiled for each `mr` and `nv`, or the sums would not be registers. */
INLINE void store_tile(const struct tile *c, int mr, int nv, __m512 sums[TILE_ROWS][TILE_VECTORS],
                       bool add)
{
    UNROLL
    for (int i = 0; i < mr; i++) {
        UNROLL
        for (int v = 0; v < nv; v++) {
            float *to = c->data + (size_t)i * c->ld + v * LANES;
            __mmask16 mask = v == nv - 1 ? c->last : 0xffff;
            __m512 sum = sums[i][v];

            if (add)
                sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }
}

INLINE void fetch_tile(const struct tile *c, int mr, int nv)
{
    UNROLL
    for (int i = 0; i < mr; i++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            fetch(c->data + (size_t)i * c->ld + v * LANES);
    }
}

INLINE void tile_body(int mr, int nv, int n_pairs, const uint32_t *a, const struct block *block,
                      const uint32_t *b, const struct tile *c)
{
    __m512 sums[TILE_ROWS][TILE_VECTORS];
    const size_t row = block->row, pair = block->pair;

    UNROLL
    for (int i = 0; i < mr; i++) {
        UNROLL
        for (int v = 0; v < nv; v++)
            sums[i][v] = _mm512_setzero_ps();
    }
    for (int p = 0; p < n_pairs; p++) {
        __m512bh columns[TILE_VECTORS];

        if (p == n_pairs - AHEAD_PAIRS)
            fetch_tile(c, mr, nv);
        UNROLL
        for (int v = 0; v < nv; v++)
            columns[v] = (__m512bh)_mm512_load_si512(b + v * LANES);
        UNROLL
        for (int i = 0; i < mr; i++) {
            __m512bh element = (__m512bh)_mm512_set1_epi32((int)a[(size_t)i * row]);

            UNROLL
            for (int v = 0; v < nv; v++)
                sums[i][v] = _mm512_dpbf16_ps(sums[i][v], element, columns[v]);
        }
        a += pair;
        b += TILE_COLUMNS;
    }
    if (c->add)
        store_tile(c, mr, nv, sums, true);
    else
        store_tile(c, mr, nv, sums, false);
}

typedef void tile_function(int n_pairs, const uint32_t *a, const struct block *block,
                           const uint32_t *b, const struct tile *c);

#define TILE(mr, nv)                                                                               \
    static void tile_##mr##_##nv(int n_pairs, const uint32_t *a, const struct block *block,        \
                                 const uint32_t *b, const struct tile *c)                          \
    {                                                                                              \
        tile_body(mr, nv, n_pairs, a, block, b, c);                                                \
    }
#define TILES(mr) TILE(mr, 1) TILE(mr, 2) TILE(mr, 3) TILE(mr, 4)
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)

#define TILE_NAMES(mr)                                                                             \
    {                                                                                              \
        tile_##mr##_1, tile_##mr##_2, tile_##mr##_3, tile_##mr##_4                                 \
    }
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {
    TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4), TILE_NAMES(5), TILE_NAMES(6)};

/* Pack a, whose rows run along k, to rows of pairs. The last pair of an odd k has a 0. */
static struct block pack_rows(uint32_t *to, const float *a, size_t ld, int m, int k)
{
    const size_t row = (size_t)(k + 31) / 32 * LANES;

    for (int i = 0; i < m; i++, a += ld) {
        for (int l = 0; l < k; l += 32) {
            __m512 low = _mm512_maskz_loadu_ps(mask_of(k - l), a + l);
            __m512 high = k - l > 16 ? _mm512_maskz_loadu_ps(mask_of(k - l - 16), a + l + 16)
                                     : _mm512_setzero_ps();

            _mm512_store_si512(to + (size_t)i * row + l / 2, rounded(low, high));
        }
    }
    return (struct block){to, GROUP_ROWS * row, row, 1};
}

/* Pack rows that run across k to panels [pairs, width], the last padded with 0 to a vector. */
static void pack_pairs(uint32_t *to, int width, const float *x, size_t ld, int n, int k)
{
    const int n_pairs = (k + 1) / 2;
    const size_t panel = (size_t)n_pairs * (size_t)width;

    for (int p = 0; p < n_pairs; p++, x += 2 * ld, to += width) {
        bool is_whole = 2 * p + 1 < k;
        uint32_t *out = to;

        for (int from = 0; from < n; from += width, out += panel) {
            for (int j = from; j < n && j < from + width; j += LANES) {
                __mmask16 mask = mask_of(n - j);
                __m512 low = _mm512_maskz_loadu_ps(mask, x + j);
                __m512 high =
                    is_whole ? _mm512_maskz_loadu_ps(mask, x + ld + j) : _mm512_setzero_ps();

                fetch(x + AHEAD * ld + j);
                fetch(x + (AHEAD + 1) * ld + j);
                _mm512_store_si512(out + (j - from), pairs_of(low, high));
            }
        }
    }
}

/* Pack a transposed, whose rows run along m. */
static struct block pack_columns(uint32_t *to, const float *a, size_t ld, int m, int k)
{
    pack_pairs(to, GROUP_ROWS, a, ld, m, k);
    return (struct block){to, (size_t)(k + 1) / 2 * GROUP_ROWS, 1, GROUP_ROWS};
}

/* Word j of x[i] becomes word i of x[j]. */
static inline void transpose(__m512i x[LANES])
{
    __m512i y[LANES];

    UNROLL
    for (int i = 0; i < LANES; i += 2) { /* pairs of rows */
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    UNROLL
    for (int i = 0; i < LANES;
         i += 4) { /* groups of four: x[i + c] has column c of every quarter */
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    UNROLL
    for (int c = 0; c < 4; c++) { /* groups of eight, then all 16 */
        __m512i low = _mm512_shuffle_i32x4(x[c], x[c + 4], 0x88);
        __m512i high = _mm512_shuffle_i32x4(x[c], x[c + 4], 0xdd);
        __m512i low_next = _mm512_shuffle_i32x4(x[c + 8], x[c + 12], 0x88);
        __m512i high_next = _mm512_shuffle_i32x4(x[c + 8], x[c + 12], 0xdd);

        y[c] = _mm512_shuffle_i32x4(low, low_next, 0x88);
        y[c + 8] = _mm512_shuffle_i32x4(low, low_next, 0xdd);
        y[c + 4] = _mm512_shuffle_i32x4(high, high_next, 0x88);
        y[c + 12] = _mm512_shuffle_i32x4(high, high_next, 0xdd);
    }
    UNROLL
    for (int i = 0; i < LANES; i++)
        x[i] = y[i];
}

/* Pack b transposed, whose rows run along k, to the panels of pack_pairs(). */
static void pack_panels_transposed(uint32_t *to, const float *b, size_t ld, int n, int k)
{
    const int n_pairs = (k + 1) / 2;
    const size_t panel = (size_t)n_pairs * TILE_COLUMNS;

    for (int j = 0; j < n; j += LANES) {
        uint32_t *out = to + (size_t)(j / TILE_COLUMNS) * panel + j % TILE_COLUMNS;

        for (int l = 0; l < k; l += 32) {
            __mmask16 mask = mask_of(k - l), mask_high = k - l > 16 ? mask_of(k - l - 16) : 0;
            __m512i words[LANES];

            UNROLL
            for (int r = 0; r < LANES; r++) {
                const float *row = b + (size_t)(j + r < n ? j + r : j) * ld + l;

                words[r] = rounded(_mm512_maskz_loadu_ps(mask, row),
                                   _mm512_maskz_loadu_ps(mask_high, row + LANES));
            }
            transpose(words);
            for (int p = l / 2; p < n_pairs && p < l / 2 + LANES; p++)
                _mm512_store_si512(out + (size_t)p * TILE_COLUMNS, words[p - l / 2]);
        }
    }
}

/* All tiles of one block of the result. */
static void run_tiles(int m, int n, int k, const struct block *a, const uint32_t *b,
                      const struct tile *c)
{
    const int n_pairs = (k + 1) / 2;
    const size_t panel = (size_t)n_pairs * TILE_COLUMNS;

    for (int j = 0; j < n; j += TILE_COLUMNS, b += panel) {
        int width = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
        int nv = (width + LANES - 1) / LANES;

        for (int i = 0; i < m; i += TILE_ROWS) {
            int mr = m - i < TILE_ROWS ? m - i : TILE_ROWS;
            struct tile tile = *c;

            tile.data += (size_t)i * c->ld + (size_t)j;
            tile.last = mask_of(width - (nv - 1) * LANES);
            tiles[mr - 1][nv - 1](n_pairs,
                                  a->data + (size_t)(i / GROUP_ROWS) * a->group +
                                      (size_t)(i % GROUP_ROWS) * a->row,
                                  a, b, &tile);
        }
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

void gemm_bf16(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
               struct gemm_out c, void *pack)
{
    uint32_t *pack_a = pack;
    uint32_t *pack_b = pack_a + (size_t)GEMM_BF16_ROWS * PAIRS;
    const size_t lda = (size_t)a.ld, ldb = (size_t)b.ld, ldc = (size_t)c.ld;

    for (int j = 0; j < n; j += GEMM_BF16_COLUMNS) {
        int width = least(n - j, GEMM_BF16_COLUMNS);

        for (int l = 0; l < k; l += GEMM_BF16_DEPTH) {
            int depth = least(k - l, GEMM_BF16_DEPTH);

            if (kind == GEMM_NT)
                pack_panels_transposed(pack_b, b.data + (size_t)j * ldb + l, ldb, width, depth);
            else
                pack_pairs(pack_b, TILE_COLUMNS, b.data + (size_t)l * ldb + j, ldb, width, depth);
            for (int i = 0; i < m; i += GEMM_BF16_ROWS) {
                int height = least(m - i, GEMM_BF16_ROWS);
                struct tile tile = {c.data + (size_t)i * ldc + j, ldc, c.add || l > 0, 0};
                struct block block =
                    kind == GEMM_TN
                        ? pack_columns(pack_a, a.data + (size_t)l * lda + i, lda, height, depth)
                        : pack_rows(pack_a, a.data + (size_t)i * lda + l, lda, height, depth);

                run_tiles(height, width, depth, &block, pack_b, &tile);
            }
        }
    }
}

#else

void gemm_bf16(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
               struct gemm_out c, void *pack)
{
    (void)pack;
    gemm_alone(kind, m, n, k, a, b, c);
}

#endif
