/* nn/dropout.h - which elements a step drops, as a function and not as a stored mask.
 *
 * Element c of a row is dropped when a word of Philox4x32-10 is below rate * 2^32, else it is
 * multiplied by 1 / (1 - rate). The word depends on (seed, step, sample, unit, site, row, c) and
 * on nothing else: not on the micro-batch, its order, the cut into stages or the thread. So the
 * backward pass asks again instead of keeping masks.
 *
 *   key     = { seed low, seed high ^ (unit * 16 + site) }
 *   counter = { c / 64 * 16 + c % 16, row, sample, step }      word = c / 16 % 4
 *
 * (16 counters side by side fill 64 neighbouring elements without a shuffle.) `row` is the
 * token's position in its sequence; in attention probabilities it is head * 2^20 + position.
 * Layer: nn. Threads: any; pure.
 */
#ifndef NN_DROPOUT_H
#define NN_DROPOUT_H

#include <stdint.h>

#include "nn/packed.h"

#define DROPOUT_HEAD_SHIFT 20 /* sequences are shorter than 2^20 tokens, heads fewer than 2^12 */

struct dropout {
    uint64_t seed;
    uint32_t step;
    uint32_t unit; /* index of the unit in the whole model, not in the stage */
    float rate;    /* 0 <= rate < 1; 0 when evaluating: then nothing random is computed */
};

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
 * the gradient is the backward pass. `out` may be `in`. */
void dropout_apply(float *out, const float *in, const struct packed *batch, int C,
                   const struct dropout *d);

#endif
