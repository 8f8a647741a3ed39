/* import/merges.h - byte pair encoding: which two neighbours to join next.
 *
 * Holds words as sequences of symbols (numbers of the caller's) and how often every pair of
 * neighbours occurs. A queue finds the most frequent pair, and each pair has a list of its words,
 * so the cost of joining it is the length of those words. Ties go to the smaller numbers, so the
 * result does not depend on the order of the words. Memory: about 12 bytes per symbol and 110 per
 * pair. Layer: import. Threads: one.
 */
#ifndef IMPORT_MERGES_H
#define IMPORT_MERGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct merges; /* on the heap; all fields private */

struct merge {
    uint32_t left;
    uint32_t right;
    uint64_t n; /* occurrences; 0: no word has two symbols left */
};

/* On ERR_OK the caller owns *out: merges_free(). After ERR_NO_MEMORY of any
 * function merges_free() is all that is left to do. */
MUST_CHECK enum err_code merges_new(struct merges **out, struct err *err);

/* A word that occurs `n_seen` times; `symbols` is copied. ERR_LIMIT: above 4 billion symbols. */
MUST_CHECK enum err_code merges_add(struct merges *m, const uint32_t *symbols, size_t n_symbols,
                                    uint64_t n_seen, struct err *err);

/* The most frequent pair. It stays until it is applied. */
void merges_best(struct merges *m, struct merge *out);

/* Replace the pair, one that merges_best() gave, by `symbol`, from left to right, in all words.
 * `symbol` is neither of the two; it may be in use already. */
MUST_CHECK enum err_code merges_apply(struct merges *m, const struct merge *merge, uint32_t symbol,
                                      struct err *err);

void merges_free(struct merges *m); /* NULL is fine */

#endif
