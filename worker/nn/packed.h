/* nn/packed.h - a micro-batch of sequences that lie end to end, without padding.
 *
 * Activations are [T,C] with T the tokens of all sequences; sequence `s` is the rows
 * starts[s] .. starts[s+1]-1. Layer: nn. Threads: any.
 */
#ifndef NN_PACKED_H
#define NN_PACKED_H

#include <stdint.h>

struct packed {
    int n_seqs;              /* B */
    const int32_t *starts;   /* [B+1] ascending, starts[0] = 0, starts[B] = T; no empty sequence */
    const uint32_t *samples; /* [B] which sample of the data set: feeds dropout, not the order */
};

/* Tokens of the whole micro-batch: T. */
static inline int packed_tokens(const struct packed *p)
{
    return p->starts[p->n_seqs];
}

/* Tokens of the longest sequence. */
static inline int packed_longest(const struct packed *p)
{
    int longest = 0;

    for (int s = 0; s < p->n_seqs; s++) {
        int len = p->starts[s + 1] - p->starts[s];
        longest = len > longest ? len : longest;
    }
    return longest;
}

/* The sequence that row `token` belongs to, 0 <= token < T. */
static inline int packed_seq_of(const struct packed *p, int token)
{
    int low = 0, high = p->n_seqs - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (p->starts[middle] <= token)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
