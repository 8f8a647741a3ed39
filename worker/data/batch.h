/* data/batch.h - sequences packed end to end without padding: a micro-batch or a whole step.
 *
 * A batch lives in memory of the caller; filling it allocates nothing. T is the number of tokens, Q
 * of sequences and K of masked tokens, the targets.
 * Layer: data. Threads: one.
 */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define BATCH_MICRO_MAX 1024 /* micro-batches of a step */

/* One sample as the model sees it. */
struct sequence {
    uint32_t sample;           /* number in its data set; dropout depends on it */
    int length;                /* tokens */
    int n_first;               /* of them of type 0; the rest has type 1 */
    const int32_t *ids;        /* [length], borrowed */
    int32_t label;             /* of a classification, else 0 */
    float score;               /* of a regression, else 0 */
    int n_targets;             /* masked tokens of a language model, else 0 */
    int first_row;             /* that `rows` counts from */
    const int32_t *rows;       /* [n_targets] rising, first_row <= row < first_row + length */
    const int32_t *target_ids; /* [n_targets] what was there */
};

/* What a batch is made for. */
struct batch_limits {
    int n_seqs;
    int max_length;   /* tokens of a sequence; n_seqs * max_length fits an int */
    bool has_targets; /* up to one per token, else none */
};

struct batch {
    int n_seqs;             /* Q */
    int n_tokens;           /* T */
    int n_targets;          /* K */
    int32_t *ids;           /* [T] */
    int32_t *types;         /* [T] 0 or 1 */
    int32_t *starts;        /* [Q + 1]; sequence q is starts[q] .. starts[q + 1] - 1 */
    int32_t *labels;        /* [Q] */
    float *scores;          /* [Q] */
    uint32_t *samples;      /* [Q] number in the data set */
    int32_t *target_starts; /* [Q + 1] of every sequence's targets */
    int32_t *rows;          /* [K] rising, in T */
    int32_t *target_ids;    /* [K] */
    struct batch_limits limits;
};

/* The memory that batch_init() needs. */
size_t batch_bytes(const struct batch_limits *limits);

/* Lay the arrays out in `memory`, 64-byte aligned and batch_bytes() large, which stays the
 * caller's and must outlive the batch. It is empty then. */
void batch_init(struct batch *b, void *memory, const struct batch_limits *limits);

/* Empty it. */
void batch_reset(struct batch *b);

/* Append a sequence. ERR_LIMIT, the caller's mistake, when it exceeds the batch's limits; then
 * nothing changed. */
MUST_CHECK enum err_code batch_add(struct batch *b, const struct sequence *s, struct err *err);

/* Append sequence `q` of another batch. Errors as above. */
MUST_CHECK enum err_code batch_copy(struct batch *b, const struct batch *from, int q,
                                    struct err *err);

/* The first of the sequences of micro-batch `k` when the `n` of a step are dealt to `m`; the next
 * one's first is its end. Counts differ by at most one. */
int batch_first(int n, int m, int k);

/* Deal the sequences of a step to micro-batches with about the same number of tokens.
 *
 * Afterwards micro-batch k is the sequences order[batch_first(n, m, k)] to
 * order[batch_first(n, m, k + 1) - 1] of `step`; n = step->n_seqs is at least `m`, and m at most
 * BATCH_MICRO_MAX. A pipeline waits for its largest micro-batch, so the longest remaining sequence
 * goes to the micro-batch with the fewest tokens so far that has room (Graham's LPT rule with given
 * counts). The samples of the step, hence the gradient in exact arithmetic, stay the same; ties are
 * broken by sample number, so the result depends on the set of samples alone. `scratch` holds n
 * elements. */
void batch_balance(const struct batch *step, int32_t *order, int32_t *scratch, int m);

#endif
