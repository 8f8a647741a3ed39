/* data/batch.h - the sequences of a micro-batch, end to end, without padding.
 *
 * A batch is arrays in memory that the caller gives once; packing allocates nothing. T is the
 * number of tokens and Q that of sequences.
 * Layer: data (may use base). Threads: one a batch; the data set is only read.
 */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "data/dataset.h"

#define BATCH_MICRO_MAX 1024 /* micro-batches of a step */

struct batch {
    int n_seqs;         /* Q */
    int n_tokens;       /* T */
    int32_t *ids;       /* [T] */
    int32_t *types;     /* [T] 0 or 1 */
    int32_t *positions; /* [T] from 0 in every sequence */
    int32_t *starts;    /* [Q + 1]; sequence q is starts[q] .. starts[q + 1] - 1 */
    int32_t *labels;    /* [Q] */
    uint64_t *samples;  /* [Q] number in the data set: what dropout is a function of */
    int seqs_max;       /* limits given to batch_init() */
    int tokens_max;
};

/* Bytes that batch_init() needs for `seqs_max` sequences of up to `max_length` tokens. */
size_t batch_bytes(int seqs_max, int max_length);

/* Lay the arrays out in `memory`, 64-byte aligned and batch_bytes() large, which stays the
 * caller's and must outlive the batch. */
void batch_init(struct batch *b, void *memory, int seqs_max, int max_length);

/* Pack `n` samples in the order given.
 *
 * ERR_LIMIT when they are more than the batch was made for (our caller's mistake, but also data
 * tokenised with another max_length), ERR_INVALID for a sample that the data set does not have;
 * then the batch is empty.
 */
MUST_CHECK enum err_code batch_pack(struct batch *b, const struct dataset *d,
                                    const uint64_t *samples, int n, struct err *err);

/* Order the samples of a step so that its micro-batches have about the same number of tokens.
 *
 * Afterwards micro-batch k is samples[k * n / m] .. samples[(k + 1) * n / m - 1]: equal counts of
 * sequences, `n` a multiple of `m`, m at most BATCH_MICRO_MAX. A pipeline waits for its largest
 * micro-batch, so the longest sequence left always goes to the micro-batch with the fewest tokens
 * so far that has room (Graham's LPT rule with equal counts). The set of samples of the step, hence
 * the gradient in exact arithmetic, is unchanged; ties are broken by sample number, so the order is
 * a function of the set alone. `scratch` holds n elements.
 */
void batch_balance(const struct dataset *d, uint64_t *samples, uint64_t *scratch, int n, int m);

#endif
