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
int packed_longest(const struct packed *p);

/* The sequence that row `token` belongs to, 0 <= token < T. */
int packed_seq_of(const struct packed *p, int token);

#endif
