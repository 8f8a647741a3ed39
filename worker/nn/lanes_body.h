/* nn/lanes_body.h (private) - the source of the row kernels: included once by each lanes_<set>.c.
 *
 * Rows are worked in blocks of LANES_BLOCK elements. Each block function is called with the
 * constant for whole blocks, so that the compiler unrolls it, and with what is left for the last.
 * See nn/lanes.h for the rule that makes both give the same bits.
 */
#include <string.h>

#include "nn/lanes.h"
#include "nn/lanes_math.h"
#include "nn/lanes_philox.h"

/* Call block_function(..., at, count) over a row of n elements. */
#define FOR_BLOCKS(n, block_function, ...)                                                         \
    do {                                                                                           \
        int at_ = 0;                                                                               \
        for (; at_ + LANES_BLOCK <= (n); at_ += LANES_BLOCK)                                       \
            block_function(__VA_ARGS__, at_, LANES_BLOCK);                                         \
        if (at_ < (n))                                                                             \
            block_function(__VA_ARGS__, at_, (n)-at_);                                             \
    } while (0)

/* LANES sums side by side; GCC and clang map it to whatever registers there are. */
typedef float strands __attribute__((vector_size(LANES * sizeof(float))));

/* Doubles of one register: of more at once, GCC 12 keeps sums in memory, three times slower. */
#ifdef __AVX512F__
#define DOUBLES 8
#else
#define DOUBLES 4
#endif
typedef double doubles __attribute__((vector_size(DOUBLES * sizeof(double))));
typedef float doubles_as_floats __attribute__((vector_size(DOUBLES * sizeof(float))));

/* A block of a row on the stack: zero behind its count, so that sums may take all of it. */
struct block {
    float x[LANES_BLOCK];
};

INLINE strands strands_load(const float *x)
{
    strands s;

    memcpy(&s, x, sizeof s);
    return s;
}

INLINE void strands_store(float *x, strands s)
{
    memcpy(x, &s, sizeof s);
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

INLINE void norm_sum_block(const struct lanes_norm *row, const struct dropout_row *drop,
                           strands *sum, int at, int count)
{
    struct block mask, x = {{0}};

    if (row->res) {
        mask_block(&mask, drop, at);
        for (int i = 0; i < count; i++)
            x.x[i] = FMA(row->y[at + i], mask.x[i], row->res[at + i]);
    } else {
        memcpy(x.x, row->y + at, (size_t)count * sizeof(float));
    }
    *sum = strands_add_block(*sum, &x);
    memcpy(row->xhat + at, x.x, (size_t)count * sizeof(float));
}

INLINE void norm_square_block(const float *x, float mean, strands *sum, int at, int count)
{
    struct block square = {{0}};

    for (int i = 0; i < count; i++)
        square.x[i] = (x[at + i] - mean) * (x[at + i] - mean);
    *sum = strands_add_block(*sum, &square);
}

INLINE void norm_scale_block(const struct lanes_norm *row, float mean, float rstd, int at,
                             int count)
{
    const float *restrict gain = row->gain + at, *restrict bias = row->bias + at;
    float *restrict xhat = row->xhat + at, *restrict out = row->out + at;

    for (int i = 0; i < count; i++) {
        float x = (xhat[i] - mean) * rstd;

        xhat[i] = x;
        out[i] = FMA(x, gain[i], bias[i]);
    }
}

static float norm_run(const struct lanes_norm *row, int n, const struct dropout_row *drop)
{
    strands sum = {0}, square = {0};
    float mean, rstd;

    FOR_BLOCKS(n, norm_sum_block, row, drop, &sum);
    mean = strands_total(sum) / (float)n;
    FOR_BLOCKS(n, norm_square_block, row->xhat, mean, &square);
    rstd = 1.0f / __builtin_sqrtf(strands_total(square) / (float)n + row->eps);
    FOR_BLOCKS(n, norm_scale_block, row, mean, rstd);
    return rstd;
}

INLINE void norm_back_sum_block(const struct lanes_norm_back *row, strands *sum, strands *dot,
                                int at, int count)
{
    const float *restrict dout = row->dout + at, *restrict xhat = row->xhat + at;
    const float *restrict gain = row->gain + at;
    float *restrict dgain = row->dgain_acc + at, *restrict dbias = row->dbias_acc + at;
    struct block d = {{0}}, dx = {{0}};

    for (int i = 0; i < count; i++) {
        float dn = dout[i] * gain[i];

        d.x[i] = dn;
        dx.x[i] = dn * xhat[i];
        dgain[i] = FMA(dout[i], xhat[i], dgain[i]);
        dbias[i] += dout[i];
    }
    *sum = strands_add_block(*sum, &d);
    *dot = strands_add_block(*dot, &dx);
}

INLINE void norm_back_block(const struct lanes_norm_back *row, const struct dropout_row *drop,
                            const float mean[2], int at, int count)
{
    const float *restrict dout = row->dout + at, *restrict xhat = row->xhat + at;
    const float *restrict gain = row->gain + at;
    float rstd = row->rstd;
    struct block d, mask;

    for (int i = 0; i < count; i++)
        d.x[i] = (FMA(dout[i], gain[i], -mean[0]) - xhat[i] * mean[1]) * rstd;
    memcpy(row->dsum + at, d.x, (size_t)count * sizeof(float));
    if (row->dy) {
        float *restrict dy = row->dy + at, *restrict acc = row->dy_acc + at;

        mask_block(&mask, drop, at);
        for (int i = 0; i < count; i++) {
            float x = d.x[i] * mask.x[i];

            dy[i] = x;
            acc[i] += x;
        }
    }
}

static void norm_back_run(const struct lanes_norm_back *row, int n, const struct dropout_row *drop)
{
    strands sum = {0}, dot = {0};
    float mean[2];

    FOR_BLOCKS(n, norm_back_sum_block, row, &sum, &dot);
    mean[0] = strands_total(sum) / (float)n;
    mean[1] = strands_total(dot) / (float)n;
    FOR_BLOCKS(n, norm_back_block, row, drop, mean);
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

/* A share of less than 1e-20 is none at all: it is lost in a sum of 1 anyway, and its products
 * would be denormal numbers, which processors take a hundred times as long to multiply. */
#define SOFTMAX_LOWEST -46.0f

INLINE void softmax_exp_block(float *s, float max, float scale, strands *sum, int at, int count)
{
    struct block e = {{0}};

    for (int i = 0; i < count; i++) {
        float x = (s[at + i] - max) * scale;
        float y = lanes_expf(x);

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
        y[i] = lanes_tanhf(x[i]);
}

static void tanh_back_run(float *restrict dx, const float *restrict dy, const float *restrict y,
                          int n)
{
    for (int i = 0; i < n; i++)
        dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

static void exp_run(float *restrict y, const float *restrict x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = lanes_expf(x[i]);
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

        for (int i = 0; i < COLUMN_STRANDS; i++)
            sums[i] = strands_load(acc + at + i * LANES);
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < COLUMN_STRANDS; i++)
                sums[i] += strands_load(x + (size_t)row * (size_t)ld + at + i * LANES);
        for (int i = 0; i < COLUMN_STRANDS; i++)
            strands_store(acc + at + i * LANES, sums[i]);
    }
    for (int row = 0; row < rows; row++)
        add_run(acc + at, x + (size_t)row * (size_t)ld + at, n - at);
}

/* --- the optimizers --- */

#define LEAST_MEAN   1e-30f
#define LEAST_SQUARE 1e-36f

/* The mean of a gradient that stays zero, a rare word's, would end as a denormal number and stay
 * one: small moments are cut off where they no longer move a float parameter. */
INLINE float cut_off(float x, float least)
{
    return (x < 0.0f ? -x : x) < least ? 0.0f : x;
}

static void adamw_run(const struct lanes_adamw *a, float *restrict p, float *restrict g,
                      float *restrict m, float *restrict v, size_t n)
{
    struct lanes_adamw c = *a;

    for (size_t i = 0; i < n; i++) {
        float grad = g[i] * c.grad_scale;
        float mean = FMA(c.beta1_left, grad - m[i], m[i]);
        float square = FMA(c.beta2_left * grad, grad, c.beta2 * v[i]);
        float root = FMA(__builtin_sqrtf(square), c.rsqrt_bias2, c.eps);

        m[i] = cut_off(mean, LEAST_MEAN);
        v[i] = cut_off(square, LEAST_SQUARE);
        p[i] = p[i] * c.keep - c.rate * mean / root;
        g[i] = 0.0f;
    }
}

static void sgd_run(const struct lanes_sgd *a, float *restrict p, float *restrict g,
                    float *restrict m, size_t n)
{
    struct lanes_sgd c = *a;

    for (size_t i = 0; i < n; i++) {
        float grad = FMA(c.decay, p[i], g[i] * c.grad_scale);
        float mean = FMA(c.momentum, m[i], grad);

        m[i] = cut_off(mean, LEAST_MEAN);
        p[i] = FMA(-c.rate, mean, p[i]);
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
    .exp = exp_run,
    .add = add_run,
    .add_columns = add_columns_run,
    .adamw = adamw_run,
    .sgd = sgd_run,
    .sum_squares = sum_squares_run,
};
