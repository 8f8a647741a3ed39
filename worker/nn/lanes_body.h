/* nn/lanes_body.h (private) - the source of the row kernels: included once by each lanes_<set>.c.
 *
 * Rows are processed in blocks of LANES_BLOCK elements. Each block function is called with that
 * constant for whole blocks, so that the compiler unrolls it, and with the rest for the last one.
 * See nn/lanes.h for the rule that makes both give the same bits.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "nn/lanes.h"
#include "nn/layers.h"
#include "nn/optimizers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* --- elementary functions ---
 *
 * In float, branch-free and without library calls, so that compilers turn them into vector code.
 * Measured against libm in double over all arguments in use:
 *   lanes_exp    1e-7 relative for -87 <= x <= 88; below -87.3 it stays at 1.2e-38
 *   lanes_tanh   1e-7 relative
 *   lanes_phi    see nn/layers.h */

#define INLINE static inline __attribute__((always_inline))

#if defined(__FMA__) || defined(__aarch64__)
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

INLINE uint32_t float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x + low) for a small correction `low`: 2^n e^r with r in -ln2/2 .. ln2/2. */
INLINE float lanes_exp(float x, float low)
{
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum. */
    const float magic = 12582912.0f;
    float y = x < -87.3f ? -87.3f : x;
    float t, n, r, p;

    y = y > 88.0f ? 88.0f : y;
    t = FMA(y, 1.44269504f, magic);
    n = t - magic;
    r = FMA(n, -0.693359375f, y); /* ln 2 in two parts: the first product is exact */
    r = FMA(n, 2.12194440e-4f, r);
    r = r + low;
    p = FMA(0.001392624648f, r, 0.008363229402f);
    p = FMA(p, r, 0.04166655424f);
    p = FMA(p, r, 0.1666657669f);
    p = FMA(p, r, 0.5f);
    p = FMA(p, r, 1.0f);
    p = FMA(p, r, 1.0f);
    return float_of(float_bits(p) + (float_bits(t) << 23));
}

/* The normal distribution: returns Phi(x), and its density in *out_density.
 *
 * The small half Phi(-|x|) = exp(-x^2/2) t p(t) keeps its relative accuracy; the other half is
 * one minus it. x^2 is split so that rounding it does not spoil the exponential: 12 bits squared
 * are exact. Beyond |x| = 12 both stay at their value there, 2e-33. */
INLINE float lanes_phi(float x, float *out_density)
{
    float z = x < 0.0f ? -x : x;
    float high, low, e, t, p;

    z = z > 12.0f ? 12.0f : z;
    high = float_of(float_bits(z) & 0xfffff000u);
    low = z - high;
    e = lanes_exp(-0.5f * high * high, -0.5f * low * (z + high));
    t = 1.0f / FMA(0.35f, z, 1.0f);
    p = FMA(-0.02960979549f, t, 0.1462242065f);
    p = FMA(p, t, -0.2603379054f);
    p = FMA(p, t, 0.1643917355f);
    p = FMA(p, t, -0.02663309792f);
    p = FMA(p, t, 0.1069582404f);
    p = FMA(p, t, 0.1194794327f);
    p = FMA(p, t, 0.139908265f);
    p = FMA(p, t, 0.139618902f);
    p = p * t * e;
    *out_density = 0.3989422804f * e;
    return x < 0.0f ? p : 1.0f - p;
}

INLINE float lanes_tanh(float x)
{
    float z = x < 0.0f ? -x : x;
    float zz = x * x;
    float e, large, small;

    z = z > 15.0f ? 15.0f : z;
    e = lanes_exp(z + z, 0.0f);
    large = 1.0f - 2.0f / (e + 1.0f);
    large = x < 0.0f ? -large : large;
    small = FMA(0.002060621432f, zz, -0.008113507018f);
    small = FMA(small, zz, 0.0216894059f);
    small = FMA(small, zz, -0.05394817033f);
    small = FMA(small, zz, 0.1333325017f);
    small = FMA(small, zz, -0.3333333277f);
    small = FMA(small * zz, x, x);
    return z < 0.7f ? small : large;
}

/* --- Philox4x32-10 on 16 neighbouring counters ---
 *
 * The 32-bit words are the low halves of 64-bit elements, where processors multiply 32 by 32 bits
 * to 64; the high halves are never read. Compilers do not find that instruction by themselves (GCC
 * 12 takes the 64-bit product, three times slower), so it is named here. */

#define PHILOX_EACH 8 /* counters of one vector */

typedef uint64_t philox_words __attribute__((vector_size(PHILOX_EACH * sizeof(uint64_t))));

/* Products of the low halves. */
INLINE philox_words philox_multiply(philox_words a, uint32_t b)
{
#if defined(__AVX512F__)
    return (philox_words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((long long)b));
#elif defined(__AVX2__)
    __m256i parts[2];

    memcpy(parts, &a, sizeof parts);
    for (int i = 0; i < 2; i++)
        parts[i] = _mm256_mul_epu32(parts[i], _mm256_set1_epi64x((long long)b));
    memcpy(&a, parts, sizeof parts);
    return a;
#elif defined(__x86_64__)
    __m128i parts[4];

    memcpy(parts, &a, sizeof parts);
    for (int i = 0; i < 4; i++)
        parts[i] = _mm_mul_epu32(parts[i], _mm_set1_epi64x((long long)b));
    memcpy(&a, parts, sizeof parts);
    return a;
#else
    return (a & 0xffffffffu) * b;
#endif
}

/* Counters `first`, first + 2 .. first + 14 of the row. */
INLINE void philox_half(philox_words c[4], const struct dropout_row *row, uint32_t first)
{
    const philox_words steps = {0, 2, 4, 6, 8, 10, 12, 14}, zero = {0};
    uint32_t k0 = row->key[0], k1 = row->key[1];
    philox_words c0 = steps + first, c1 = zero + row->row, c2 = zero + row->sample;
    philox_words c3 = zero + row->step;

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        philox_words even = philox_multiply(c0, PHILOX_MUL0);
        philox_words odd = philox_multiply(c2, PHILOX_MUL1);

        c0 = (odd >> 32) ^ c1 ^ k0;
        c1 = odd;
        c2 = (even >> 32) ^ c3 ^ k1;
        c3 = even;
        k0 += PHILOX_KEY0;
        k1 += PHILOX_KEY1;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/* Word w of counter first + i to words[w * LANES + i], i below LANES. */
INLINE void lanes_philox(uint32_t words[LANES_BLOCK], const struct dropout_row *row, uint32_t first)
{
    philox_words even[4], odd[4];

    philox_half(even, row, first);
    philox_half(odd, row, first + 1);
    for (int w = 0; w < 4; w++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        philox_words both = (even[w] & 0xffffffffu) | (odd[w] << 32);
#else
        philox_words both = (odd[w] & 0xffffffffu) | (even[w] << 32);
#endif
        memcpy(words + w * LANES, &both, sizeof both);
    }
}

/* --- blocks and strands --- */

/* Call block_function(..., at, count) over a row of n elements. */
#define FOR_BLOCKS(n, block_function, ...)                                                         \
    do {                                                                                           \
        int at_ = 0;                                                                               \
        for (; at_ + LANES_BLOCK <= (n); at_ += LANES_BLOCK)                                       \
            block_function(__VA_ARGS__, at_, LANES_BLOCK);                                         \
        if (at_ < (n))                                                                             \
            block_function(__VA_ARGS__, at_, (n)-at_);                                             \
    } while (0)

/* LANES sums side by side; GCC and clang map them to the registers that exist. */
typedef float strands __attribute__((vector_size(LANES * sizeof(float))));

/* Doubles of one register: with more, GCC 12 keeps sums in memory, three times slower. */
#ifdef __AVX512F__
#define DOUBLES 8
#else
#define DOUBLES 4
#endif
typedef double doubles __attribute__((vector_size(DOUBLES * sizeof(double))));
typedef float doubles_as_floats __attribute__((vector_size(DOUBLES * sizeof(float))));

/* A block of a row on the stack: zero after its count, so that sums may read all of it. */
struct block {
    float x[LANES_BLOCK];
};

INLINE strands strands_load(const float *x)
{
    strands s;

    memcpy(&s, x, sizeof s);
    return s;
}

INLINE strands strands_add_block(strands sum, const struct block *b)
{
    for (int i = 0; i < LANES_BLOCK; i += LANES)
        sum += strands_load(b->x + i);
    return sum;
}

INLINE float strands_total(strands s)
{
    float x[LANES];

    memcpy(x, &s, sizeof x);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

/* What each element of a block is multiplied by: 0 or drop->scale. */
INLINE void mask_block(struct block *mask, const struct dropout_row *drop, int at)
{
    uint32_t words[LANES_BLOCK], threshold = drop->threshold;
    float scale = drop->scale;

    if (!threshold) {
        for (int i = 0; i < LANES_BLOCK; i++)
            mask->x[i] = 1.0f;
        return;
    }
    lanes_philox(words, drop, (uint32_t)at / LANES_BLOCK * LANES);
    for (int i = 0; i < LANES_BLOCK; i++)
        mask->x[i] = words[i] >= threshold ? scale : 0.0f;
}

INLINE void dropout_block(float *out, const float *in, const struct dropout_row *drop, int at,
                          int count)
{
    struct block mask;

    mask_block(&mask, drop, at);
    for (int i = 0; i < count; i++)
        out[at + i] = in[at + i] * mask.x[i];
}

static void dropout_run(float *out, const float *in, int n, const struct dropout_row *drop)
{
    FOR_BLOCKS(n, dropout_block, out, in, drop);
}

/* --- LayerNorm --- */

INLINE void norm_sum_block(float *xhat, const float *res, const float *y,
                           const struct dropout_row *drop, strands *sum, int at, int count)
{
    struct block mask, x = {{0}};

    if (res) {
        mask_block(&mask, drop, at);
        for (int i = 0; i < count; i++)
            x.x[i] = FMA(y[at + i], mask.x[i], res[at + i]);
    } else {
        memcpy(x.x, y + at, (size_t)count * sizeof(float));
    }
    *sum = strands_add_block(*sum, &x);
    memcpy(xhat + at, x.x, (size_t)count * sizeof(float));
}

INLINE void norm_square_block(const float *x, float mean, strands *sum, int at, int count)
{
    struct block square = {{0}};

    for (int i = 0; i < count; i++)
        square.x[i] = (x[at + i] - mean) * (x[at + i] - mean);
    *sum = strands_add_block(*sum, &square);
}

INLINE void norm_scale_block(float *restrict out, float *restrict xhat, const float *restrict gain,
                             const float *restrict bias, float mean, float rstd, int at, int count)
{
    for (int i = at; i < at + count; i++) {
        float x = (xhat[i] - mean) * rstd;

        xhat[i] = x;
        out[i] = FMA(x, gain[i], bias[i]);
    }
}

static float norm_run(float *out, float *xhat, const float *res, const float *y,
                      const struct layernorm *n, const struct dropout_row *drop)
{
    strands sum = {0}, square = {0};
    float mean, rstd;

    FOR_BLOCKS(n->C, norm_sum_block, xhat, res, y, drop, &sum);
    mean = strands_total(sum) / (float)n->C;
    FOR_BLOCKS(n->C, norm_square_block, xhat, mean, &square);
    rstd = 1.0f / __builtin_sqrtf(strands_total(square) / (float)n->C + n->eps);
    FOR_BLOCKS(n->C, norm_scale_block, out, xhat, n->gain, n->bias, mean, rstd);
    return rstd;
}

INLINE void norm_back_sum_block(float *restrict dgain, float *restrict dbias,
                                const float *restrict dout, const float *restrict xhat,
                                const float *restrict gain, strands *sum, strands *dot, int at,
                                int count)
{
    struct block d = {{0}}, dx = {{0}};

    for (int i = 0; i < count; i++) {
        float dn = dout[at + i] * gain[at + i];

        d.x[i] = dn;
        dx.x[i] = dn * xhat[at + i];
        dgain[at + i] = FMA(dout[at + i], xhat[at + i], dgain[at + i]);
        dbias[at + i] += dout[at + i];
    }
    *sum = strands_add_block(*sum, &d);
    *dot = strands_add_block(*dot, &dx);
}

INLINE void norm_back_block(float *dsum, float *restrict dy, float *restrict dy_acc,
                            const float *dout, const float *restrict xhat,
                            const float *restrict gain, const float mean[2], float rstd,
                            const struct dropout_row *drop, int at, int count)
{
    struct block d, mask;

    for (int i = 0; i < count; i++)
        d.x[i] = (FMA(dout[at + i], gain[at + i], -mean[0]) - xhat[at + i] * mean[1]) * rstd;
    memcpy(dsum + at, d.x, (size_t)count * sizeof(float));
    if (!dy)
        return;
    mask_block(&mask, drop, at);
    for (int i = 0; i < count; i++) {
        float x = d.x[i] * mask.x[i];

        dy[at + i] = x;
        dy_acc[at + i] += x;
    }
}

static void norm_back_run(float *dsum, float *dy, float *sums_acc, const float *dout,
                          const float *xhat, float rstd, const struct layernorm *n,
                          const struct dropout_row *drop)
{
    float *dgain = sums_acc, *dbias = dgain + n->C, *dy_acc = dbias + n->C;
    strands sum = {0}, dot = {0};
    float mean[2];

    FOR_BLOCKS(n->C, norm_back_sum_block, dgain, dbias, dout, xhat, n->gain, &sum, &dot);
    mean[0] = strands_total(sum) / (float)n->C;
    mean[1] = strands_total(dot) / (float)n->C;
    FOR_BLOCKS(n->C, norm_back_block, dsum, dy, dy_acc, dout, xhat, n->gain, mean, rstd, drop);
}

/* --- GELU --- */

INLINE void gelu_block(float *restrict g, const float *restrict h, int at, int count)
{
    for (int i = at; i < at + count; i++) {
        float density;

        g[i] = h[i] * lanes_phi(h[i], &density);
    }
}

static void gelu_run(float *g, const float *h, int n)
{
    FOR_BLOCKS(n, gelu_block, g, h);
}

INLINE void gelu_back_block(float *restrict h, float *restrict dg, float *restrict acc, int at,
                            int count)
{
    for (int i = at; i < at + count; i++) {
        float x = h[i], density;
        float phi = lanes_phi(x, &density);
        float dh = dg[i] * FMA(x, density, phi);

        h[i] = x * phi;
        dg[i] = dh;
        acc[i] += dh;
    }
}

static void gelu_back_run(float *h, float *dg, float *dbias_acc, int n)
{
    FOR_BLOCKS(n, gelu_back_block, h, dg, dbias_acc);
}

/* --- softmax --- */

INLINE float row_max(const float *x, int n)
{
    float best[LANES], top;

    for (int i = 0; i < LANES; i++)
        best[i] = x[0];
    for (; n >= LANES; n -= LANES, x += LANES)
        for (int i = 0; i < LANES; i++)
            best[i] = x[i] > best[i] ? x[i] : best[i];
    for (int i = 0; i < n; i++)
        best[i] = x[i] > best[i] ? x[i] : best[i];
    top = best[0];
    for (int i = 1; i < LANES; i++)
        top = best[i] > top ? best[i] : top;
    return top;
}

/* A share below 1e-20 is set to 0: it is lost in a sum of 1 anyway, and its products would be
 * denormal numbers, which take a hundred times as long to multiply. */
#define SOFTMAX_LOWEST -46.0f

INLINE void softmax_exp_block(float *s, float max, float scale, strands *sum, int at, int count)
{
    struct block e = {{0}};

    for (int i = 0; i < count; i++) {
        float x = (s[at + i] - max) * scale;
        float y = lanes_exp(x, 0.0f);

        e.x[i] = x < SOFTMAX_LOWEST ? 0.0f : y;
    }
    *sum = strands_add_block(*sum, &e);
    memcpy(s + at, e.x, (size_t)count * sizeof(float));
}

/* s = exp(scale (s - max)); returns 1 / sum. `scale` is positive. */
INLINE float softmax_exp(float *s, int n, float scale)
{
    float max = row_max(s, n);
    strands sum = {0};

    FOR_BLOCKS(n, softmax_exp_block, s, max, scale, &sum);
    return 1.0f / strands_total(sum);
}

INLINE void softmax_block(float *s, float inverse, const struct dropout_row *drop, int at,
                          int count)
{
    struct block mask;

    mask_block(&mask, drop, at);
    for (int i = 0; i < count; i++)
        s[at + i] = s[at + i] * inverse * mask.x[i];
}

static float softmax_run(float *s, int n, float scale, const struct dropout_row *drop)
{
    float inverse = softmax_exp(s, n, scale);

    FOR_BLOCKS(n, softmax_block, s, inverse, drop);
    return inverse;
}

/* s becomes p, negative where dropped; dp the gradient of p; *dot += dp p. */
INLINE void softmax_dot_block(float *restrict s, float *restrict dp, float inverse,
                              const struct dropout_row *drop, strands *dot, int at, int count)
{
    struct block mask, product = {{0}};

    mask_block(&mask, drop, at);
    for (int i = 0; i < count; i++) {
        float p = s[at + i] * inverse;
        float d = dp[at + i] * mask.x[i];

        product.x[i] = p * d;
        dp[at + i] = d;
        s[at + i] = mask.x[i] > 0.0f ? p : -p;
    }
    *dot = strands_add_block(*dot, &product);
}

INLINE void softmax_back_block(float *restrict s, float *restrict dp, float total,
                               const float scale[2], int at, int count)
{
    for (int i = at; i < at + count; i++) {
        uint32_t sign = float_bits(s[i]) >> 31;
        float p = sign ? -s[i] : s[i];

        dp[i] = p * (dp[i] - total) * scale[0];
        s[i] = sign ? 0.0f : p * scale[1];
    }
}

static void softmax_back_run(float *s, float *dp, int n, float scale,
                             const struct dropout_row *drop)
{
    float inverse = softmax_exp(s, n, scale);
    float scales[2] = {scale, drop->threshold ? drop->scale : 1.0f};
    strands dot = {0};
    float total;

    FOR_BLOCKS(n, softmax_dot_block, s, dp, inverse, drop, &dot);
    total = strands_total(dot);
    FOR_BLOCKS(n, softmax_back_block, s, dp, total, scales);
}

/* --- single functions --- */

static void tanh_run(float *restrict y, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = lanes_tanh(x[i]);
}

static void tanh_back_run(float *restrict dx, const float *restrict dy, const float *restrict y,
                          int n)
{
    for (int i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

/* --- sums --- */

static void add_run(float *restrict acc, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++)
        acc[i] += x[i];
}

#define COLUMN_STRANDS 8

static void add_columns_run(float *acc, const float *x, int rows, int ld, int n)
{
    int at = 0;

    for (; at + COLUMN_STRANDS * LANES <= n; at += COLUMN_STRANDS * LANES) {
        strands sums[COLUMN_STRANDS];

        memcpy(sums, acc + at, sizeof sums);
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < COLUMN_STRANDS; i++)
                sums[i] += strands_load(x + (size_t)row * (size_t)ld + at + i * LANES);
        memcpy(acc + at, sums, sizeof sums);
    }
    for (int row = 0; row < rows; row++)
        add_run(acc + at, x + (size_t)row * (size_t)ld + at, n - at);
}

/* --- the optimizers --- */

#define LEAST_MEAN   1e-30f
#define LEAST_SQUARE 1e-36f

/* The mean of a gradient that stays zero, such as a rare word's, would end as a denormal number:
 * moments too small to change a float parameter become 0. */
INLINE float cut_off(float x, float least)
{
    return (x < 0.0f ? -x : x) < least ? 0.0f : x;
}

static void adamw_run(const struct adamw *a, float *restrict p, float *restrict g,
                      float *restrict m, float *restrict v, size_t n)
{
    const float keep = (float)(1.0 - a->lr * a->decay), grad_scale = (float)a->grad_scale;
    const float beta1_left = (float)(1.0 - a->beta1);
    const float beta2 = (float)a->beta2, beta2_left = (float)(1.0 - a->beta2);
    const float rsqrt_bias2 = (float)(1.0 / sqrt(1.0 - pow(a->beta2, (double)a->step)));
    const float rate = (float)(a->lr / (1.0 - pow(a->beta1, (double)a->step)));
    const float eps = (float)a->eps;

    for (size_t i = 0; i < n; i++) {
        float grad = g[i] * grad_scale;
        float mean = FMA(beta1_left, grad - m[i], m[i]);
        float square = FMA(beta2_left * grad, grad, beta2 * v[i]);
        float root = FMA(__builtin_sqrtf(square), rsqrt_bias2, eps);

        m[i] = cut_off(mean, LEAST_MEAN);
        v[i] = cut_off(square, LEAST_SQUARE);
        p[i] = p[i] * keep - rate * mean / root;
        g[i] = 0.0f;
    }
}

static void sgd_run(const struct sgd *a, float *restrict p, float *restrict g, float *restrict m,
                    size_t n)
{
    const float rate = (float)a->lr, momentum = (float)a->momentum;
    const float decay = (float)a->decay, grad_scale = (float)a->grad_scale;

    for (size_t i = 0; i < n; i++) {
        float grad = FMA(decay, p[i], g[i] * grad_scale);
        float mean = FMA(momentum, m[i], grad);

        m[i] = cut_off(mean, LEAST_MEAN);
        p[i] = FMA(-rate, mean, p[i]);
        g[i] = 0.0f;
    }
}

static double sum_squares_run(const float *x, size_t n)
{
    doubles sums[LANES / DOUBLES] = {{0}};
    double total[LANES];

    for (; n >= LANES; n -= LANES, x += LANES)
        for (int i = 0; i < LANES / DOUBLES; i++) {
            doubles_as_floats part;
            doubles wide;

            memcpy(&part, x + (ptrdiff_t)i * DOUBLES, sizeof part);
            wide = __builtin_convertvector(part, doubles);
            sums[i] += wide * wide; /* a float squared is exact in double: fused is the same */
        }
    memcpy(total, sums, sizeof total);
    for (size_t i = 0; i < n; i++)
        total[i] += (double)x[i] * (double)x[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            total[i] += total[i + half];
    return total[0];
}

const struct lanes LANES_TABLE = {
    .name = LANES_NAME,
    .dropout = dropout_run,
    .norm = norm_run,
    .norm_back = norm_back_run,
    .gelu = gelu_run,
    .gelu_back = gelu_back_run,
    .softmax = softmax_run,
    .softmax_back = softmax_back_run,
    .tanh = tanh_run,
    .tanh_back = tanh_back_run,
    .add = add_run,
    .add_columns = add_columns_run,
    .adamw = adamw_run,
    .sgd = sgd_run,
    .sum_squares = sum_squares_run,
};
