/* The oracle of the kernel tests: everything once more, naive and in double.
 *
 * Shares no code with worker/nn but the parameter order and Philox, which has its published
 * vectors as an oracle (test_philox.c). Nothing here is fast or clever.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nn/random.h"
#include "nn/unit.h"

/* --- areas and numbers --- */

static inline void *ref_alloc(size_t n, size_t each)
{
    void *area = calloc(n ? n : 1, each);

    if (!area)
        abort();
    return area;
}

static inline float *floats(size_t n)
{
    return ref_alloc(n, sizeof(float));
}

static inline double *doubles(size_t n)
{
    return ref_alloc(n, sizeof(double));
}

/* Uniform in -1 .. 1, the same numbers for the same seed. */
static inline void fill(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(seed >> 33) / 1073741824.0 - 1.0);
    }
}

static inline float *filled(size_t n, uint64_t seed)
{
    float *x = floats(n);

    fill(x, n, seed);
    return x;
}

static inline double *widen(const float *x, size_t n)
{
    double *wide = doubles(n);

    for (size_t i = 0; i < n; i++)
        wide[i] = x[i];
    return wide;
}

/* The largest |a - b| as a share of the largest |b|. */
static inline double difference(const float *a, const double *b, size_t n)
{
    double worst = 0.0, size = 1e-30;

    for (size_t i = 0; i < n; i++) {
        double d = fabs(a[i] - b[i]);

        if (!(d <= worst)) /* a NaN is the worst of all */
            worst = d;
        size = fabs(b[i]) > size ? fabs(b[i]) : size;
    }
    return worst / size;
}

/* --- layers --- */

static inline void ref_linear(double *y, const double *x, const double *w, const double *b, int T,
                              int I, int O)
{
    for (int t = 0; t < T; t++)
        for (int o = 0; o < O; o++) {
            double sum = b[o];

            for (int i = 0; i < I; i++)
                sum += x[t * I + i] * w[o * I + i];
            y[t * O + o] = sum;
        }
}

static inline void ref_layernorm(double *x, const double *gain, const double *bias, double eps,
                                 int T, int C)
{
    for (int t = 0; t < T; t++, x += C) {
        double mean = 0.0, var = 0.0;

        for (int c = 0; c < C; c++)
            mean += x[c] / C;
        for (int c = 0; c < C; c++)
            var += (x[c] - mean) * (x[c] - mean) / C;
        for (int c = 0; c < C; c++)
            x[c] = (x[c] - mean) / sqrt(var + eps) * gain[c] + bias[c];
    }
}

static inline double ref_gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

/* Word by word, as nn/random.h words it. */
static inline double ref_keep(const struct dropout *d, uint32_t site, uint32_t sample, uint32_t row,
                              int c)
{
    uint32_t u = (uint32_t)c, out[4];
    uint32_t counter[4] = {u / 64 * 16 + u % 16, row, sample, d->step};
    uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32) ^ (d->unit * 16 + site)};

    philox(counter, key, out);
    if ((double)out[u / 16 % 4] < floor((double)d->rate * 4294967296.0))
        return 0.0;
    return 1.0 / (1.0 - (double)d->rate);
}

static inline void ref_dropout(double *x, const struct packed *b, int C, const struct dropout *d)
{
    for (int s = 0; s < b->n_seqs; s++)
        for (int t = b->starts[s]; t < b->starts[s + 1]; t++)
            for (int c = 0; c < C; c++)
                x[t * C + c] *=
                    ref_keep(d, DROPOUT_HIDDEN, b->samples[s], (uint32_t)(t - b->starts[s]), c);
}

/* One query of one head: ctx[D] from the rows from..to-1 of qkv[T,3C]. */
static inline void ref_query(double *ctx, const double *qkv, int C, int D, int from, int to, int t,
                             int head, const struct dropout *d, uint32_t sample)
{
    double *p = doubles((size_t)(to - from));
    double sum = 0.0;

    for (int k = from; k < to; k++) {
        double dot = 0.0;

        for (int i = 0; i < D; i++)
            dot += qkv[t * 3 * C + head * D + i] * qkv[k * 3 * C + C + head * D + i];
        p[k - from] = exp(dot / sqrt(D));
        sum += p[k - from];
    }
    for (int i = 0; i < D; i++)
        ctx[i] = 0.0;
    for (int k = from; k < to; k++) {
        double keep =
            ref_keep(d, DROPOUT_PROBS, sample,
                     ((uint32_t)head << DROPOUT_HEAD_SHIFT) + (uint32_t)(t - from), k - from);

        for (int i = 0; i < D; i++)
            ctx[i] += p[k - from] / sum * keep * qkv[k * 3 * C + 2 * C + head * D + i];
    }
    free(p);
}

static inline void ref_attention(double *ctx, const double *qkv, const struct packed *b, int C,
                                 int H, const struct dropout *d)
{
    int D = C / H;

    for (int s = 0; s < b->n_seqs; s++)
        for (int t = b->starts[s]; t < b->starts[s + 1]; t++)
            for (int h = 0; h < H; h++)
                ref_query(ctx + t * C + h * D, qkv, C, D, b->starts[s], b->starts[s + 1], t, h, d,
                          b->samples[s]);
}

/* --- units: parameters in the order of nn/unit.h --- */

struct ref_call {
    struct unit_shape shape;
    struct packed batch;
    struct dropout drop;
    const int32_t *ids, *types; /* of the embedding */
};

static inline void ref_embedding_unit(const struct ref_call *r, const double *p, const double *in,
                                      double *out)
{
    int C = r->shape.hidden;
    const double *position = p + r->shape.vocab * C;
    const double *type = position + r->shape.positions * C;

    (void)in;
    for (int s = 0; s < r->batch.n_seqs; s++)
        for (int t = r->batch.starts[s]; t < r->batch.starts[s + 1]; t++)
            for (int c = 0; c < C; c++)
                out[t * C + c] = p[r->ids[t] * C + c] + type[r->types[t] * C + c] +
                                 position[(t - r->batch.starts[s]) * C + c];
    ref_layernorm(out, type + UNIT_TYPES * C, type + (UNIT_TYPES + 1) * C, r->shape.norm_eps,
                  packed_tokens(&r->batch), C);
    ref_dropout(out, &r->batch, C, &r->drop);
}

/* The second half that attention and feed-forward share: y is replaced by the output. */
static inline void ref_close(const struct ref_call *r, const double *gain, const double *in,
                             double *y)
{
    int T = packed_tokens(&r->batch), C = r->shape.hidden;

    ref_dropout(y, &r->batch, C, &r->drop);
    for (int i = 0; i < T * C; i++)
        y[i] += in[i];
    ref_layernorm(y, gain, gain + C, r->shape.norm_eps, T, C);
}

static inline void ref_attention_unit(const struct ref_call *r, const double *p, const double *in,
                                      double *out)
{
    int T = packed_tokens(&r->batch), C = r->shape.hidden;
    double *qkv = doubles((size_t)(T * 3 * C)), *ctx = doubles((size_t)(T * C));
    const double *weight = p + 3 * C * C + 3 * C;

    ref_linear(qkv, in, p, p + 3 * C * C, T, C, 3 * C);
    ref_attention(ctx, qkv, &r->batch, C, r->shape.heads, &r->drop);
    ref_linear(out, ctx, weight, weight + C * C, T, C, C);
    ref_close(r, weight + C * C + C, in, out);
    free(qkv);
    free(ctx);
}

static inline void ref_ffn_unit(const struct ref_call *r, const double *p, const double *in,
                                double *out)
{
    int T = packed_tokens(&r->batch), C = r->shape.hidden, F = r->shape.ffn;
    double *h = doubles((size_t)(T * F));
    const double *weight = p + F * C + F;

    ref_linear(h, in, p, p + F * C, T, C, F);
    for (int i = 0; i < T * F; i++)
        h[i] = ref_gelu(h[i]);
    ref_linear(out, h, weight, weight + C * F, T, F, C);
    ref_close(r, weight + C * F + C, in, out);
    free(h);
}

static inline void ref_pooler_unit(const struct ref_call *r, const double *p, const double *in,
                                   double *out)
{
    int C = r->shape.hidden;

    for (int b = 0; b < r->batch.n_seqs; b++) {
        ref_linear(out + b * C, in + r->batch.starts[b] * C, p, p + C * C, 1, C, C);
        for (int c = 0; c < C; c++)
            out[b * C + c] = tanh(out[b * C + c]) *
                             ref_keep(&r->drop, DROPOUT_HIDDEN, r->batch.samples[b], 0, c);
    }
}

static inline void ref_head_unit(const struct ref_call *r, const double *p, const double *in,
                                 double *out)
{
    int C = r->shape.hidden, N = r->shape.labels;

    ref_linear(out, in, p, p + N * C, r->batch.n_seqs, C, N);
}

#endif
