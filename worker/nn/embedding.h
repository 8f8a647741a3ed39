/* nn/embedding.h - sums of rows of three tables, and the way back.
 *
 * Letters: T tokens, C hidden. ids[T], types[T] and the positions within each sequence index the
 * tables and are the caller's to check. The way back adds the tokens in their order, whatever the
 * number of threads (they share the columns). Layer: nn. Threads: one caller.
 */
#ifndef NN_EMBEDDING_H
#define NN_EMBEDDING_H

#include <stdint.h>

#include "nn/packed.h"

struct embedding_tables {
    const float *word;     /* [V,C] */
    const float *position; /* [P,C] */
    const float *type;     /* [2,C] */
};

struct embedding_grads {
    float *word, *position, *type; /* added to */
};

/* out[T,C] = word[id] + type[t] + position */
void embedding_forward(float *out, const struct embedding_tables *tables, const int32_t *ids,
                       const int32_t *types, const struct packed *batch, int C);
void embedding_backward(const struct embedding_grads *grads, const float *dout, const int32_t *ids,
                        const int32_t *types, const struct packed *batch, int C);

#endif
