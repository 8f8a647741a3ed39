/* nn/random.h - random numbers as pure functions: Philox, what dropout drops, how weights start.
 *
 * Philox4x32-10 (Salmon et al., SC 2011) makes four random words of a 128-bit counter and a 64-bit
 * key. Nothing is carried from one call to the next, so any number of the stream can be had
 * anywhere, in any order, and no mask is stored: the backward pass computes it again.
 *
 * 16 counters side by side fill 64 neighbouring elements of a row without a shuffle: element c is
 * word c / 16 % 4 of counter c / 64 * 16 + c % 16 (nn/lanes_body.h computes them together).
 * Layer: nn. Threads: any; pure.
 */
#ifndef NN_RANDOM_H
#define NN_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "nn/packed.h"

#define PHILOX_MUL0   0xD2511F53u
#define PHILOX_MUL1   0xCD9E8D57u
#define PHILOX_KEY0   0x9E3779B9u
#define PHILOX_KEY1   0xBB67AE85u
#define PHILOX_ROUNDS 10

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Element c of a row is dropped when its word is below rate * 2^32, else it is multiplied by
 * 1 / (1 - rate). The word depends on (seed, step, sample, unit, site, row, c) and on nothing else:
 * not on the micro-batch, its order, the cut into stages or the thread.
 *
 *   key     = { seed low, seed high ^ (unit * 16 + site) }
 *   counter = { that of c, row, sample, step }
 *
 * `row` is the token's position in its sequence; in attention probabilities it is head * 2^20 +
 * position. */
struct dropout {
    uint64_t seed;
    uint32_t step;
    uint32_t unit; /* index of the unit in the whole model, not in the stage */
    float rate;    /* 0 <= rate < 1; 0 when evaluating: then nothing random is computed */
};

#define DROPOUT_HEAD_SHIFT 20 /* sequences are shorter than 2^20 tokens, heads fewer than 2^12 */

enum dropout_site { DROPOUT_HIDDEN, DROPOUT_PROBS }; /* at most 16 in a unit */

/* One row's share of the randomness; what the row kernels of nn/lanes take. */
struct dropout_row {
    uint32_t key[2];
    uint32_t row, sample, step;
    uint32_t threshold; /* drop below; 0: keep all */
    float scale;        /* of what is kept */
};

struct dropout_row dropout_row(const struct dropout *d, enum dropout_site site, uint32_t sample,
                               uint32_t row);

/* The same for row `token` of a packed batch at DROPOUT_HIDDEN. */
struct dropout_row dropout_token(const struct dropout *d, const struct packed *batch, int token);

/* out[T,C] = in[T,C] with the rows of every sequence dropped at DROPOUT_HIDDEN; the same call on
 * the gradient is the backward pass. `out` may be `in`. Threads: one caller. */
void dropout_apply(float *out, const float *in, const struct packed *batch, int C,
                   const struct dropout *d);

/* BERT's start: matrices normal(0, 0.02), biases 0, LayerNorm gain 1.
 *
 * x[i] = std * N(0,1): Box-Muller, good to 6e-7 * std; |x| < 6.7 std. A pure function of
 * (seed, tensor, i) without libm or fused multiply-add, so the start depends neither on the cut
 * into stages nor on the machine. `tensor` is the index of the tensor in the whole model;
 * n <= 2^32. */
void init_normal(float *x, size_t n, float std, uint64_t seed, uint32_t tensor);
void init_constant(float *x, size_t n, float value);

#endif
