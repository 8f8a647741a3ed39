#include "nn/random.h"

#include <math.h>
#include <string.h>

#include "nn/lanes.h"
#include "nn/threads.h"

#define COUNTERS 16          /* side by side */
#define BLOCK    64          /* elements of these */
#define ROW_TAG  0xffffffffu /* a row that dropout never uses */
#define LN2      0.6931471806f

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t even = (uint64_t)PHILOX_MUL0 * c0;
        uint64_t odd = (uint64_t)PHILOX_MUL1 * c2;

        c0 = (uint32_t)(odd >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)odd;
        c2 = (uint32_t)(even >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)even;
        k0 += PHILOX_KEY0;
        k1 += PHILOX_KEY1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* --- dropout --- */

struct dropout_row dropout_row(const struct dropout *d, enum dropout_site site, uint32_t sample,
                               uint32_t row)
{
    struct dropout_row r = {
        .key = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32) ^ (d->unit * 16u + (uint32_t)site)},
        .row = row,
        .sample = sample,
        .step = d->step,
        .threshold = (uint32_t)((double)d->rate * 4294967296.0),
        .scale = 1.0f / (1.0f - d->rate),
    };

    return r;
}

struct dropout_row dropout_token(const struct dropout *d, const struct packed *batch, int token)
{
    int seq = packed_seq_of(batch, token);

    return dropout_row(d, DROPOUT_HIDDEN, batch->samples[seq],
                       (uint32_t)(token - batch->starts[seq]));
}

void dropout_apply(float *out, const float *in, const struct packed *batch, int C,
                   const struct dropout *d)
{
    int T = packed_tokens(batch);

    if (d->rate <= 0.0f) {
        if (out != in)
            memcpy(out, in, (size_t)T * (size_t)C * sizeof *out);
        return;
    }
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int token = 0; token < T; token++) {
        struct dropout_row drop = dropout_token(d, batch, token);
        size_t at = (size_t)token * (size_t)C;

        lanes()->dropout(out + at, in + at, C, &drop);
    }
}

/* --- the random start --- */

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ln(u) for 2^-33 <= u <= 1, from u's bits: e ln2 + ln(1+f) with 1+f in sqrt(1/2) .. sqrt(2). */
static inline float log_of(float u)
{
    uint32_t bits;
    int32_t e;
    float f, p;

    memcpy(&bits, &u, sizeof bits);
    e = (int32_t)(bits - 0x3f3504f3u) >> 23;
    f = float_of(bits - ((uint32_t)e << 23)) - 1.0f;
    p = 0.06971611471f * f - 0.1147973385f;
    p = p * f + 0.1168541992f;
    p = p * f - 0.1242568733f;
    p = p * f + 0.1424905765f;
    p = p * f - 0.1666780232f;
    p = p * f + 0.2000071575f;
    p = p * f - 0.2499999696f;
    p = p * f + 0.3333333118f;
    return (float)e * LN2 + (f + (p * f - 0.5f) * f * f);
}

/* Two independent normals from two random words: radius from one, angle from the other. */
static inline void box_muller(uint32_t a, uint32_t b, float *out_x, float *out_y)
{
    float u = ((float)(int32_t)(a >> 1) + 0.5f) * 4.656612873e-10f; /* 2^-31 */
    float turn = (float)(int32_t)(b << 2) * 2.328306437e-10f; /* -1/2..1/2 of a quarter turn */
    float r = sqrtf(-2.0f * log_of(u > 1.0f ? 1.0f : u));
    float tt = turn * turn;
    uint32_t quarter = b >> 30;
    float s, c, x, y;

    s = ((-0.004602149213f * tt + 0.07968021765f) * tt - 0.6459634777f) * tt + 1.570796322f;
    s = s * turn;
    c = ((0.0009036280664f * tt - 0.0208600695f) * tt + 0.2536692037f) * tt - 1.233700541f;
    c = c * tt + 1.0f;
    x = quarter & 1 ? -s : c;
    y = quarter & 1 ? c : s;
    *out_x = r * (quarter & 2 ? -x : x);
    *out_y = r * (quarter & 2 ? -y : y);
}

void init_normal(float *x, size_t n, float std, uint64_t seed, uint32_t tensor)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (size_t at = 0; at < n; at += BLOCK) {
        uint32_t first = (uint32_t)(at / BLOCK) * COUNTERS;
        uint32_t words[4][COUNTERS];
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        float normal[BLOCK];

        for (uint32_t i = 0; i < COUNTERS; i++) {
            const uint32_t counter[4] = {first + i, ROW_TAG, tensor, 0};
            uint32_t w[4];

            philox(counter, key, w);
            for (int k = 0; k < 4; k++)
                words[k][i] = w[k];
        }
        for (int k = 0; k < 4; k += 2)
            for (int i = 0; i < COUNTERS; i++)
                box_muller(words[k][i], words[k + 1][i], &normal[k * COUNTERS + i],
                           &normal[(k + 1) * COUNTERS + i]);
        for (size_t i = 0; i < count; i++)
            x[at + i] = std * normal[i];
    }
}

void init_constant(float *x, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value;
}
