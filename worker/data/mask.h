/* data/mask.h - which tokens of a sequence a language model must predict.
 *
 * As in BERT (Devlin et al. 2018, 3.1): of the chosen tokens 80% become [MASK], 10% a random word
 * and 10% stay. Their number depends on the length alone: a share of the tokens that are not
 * special, rounded, and at least one. Which ones depends on a key.
 * Layer: data. Threads: any; pure.
 */
#ifndef DATA_MASK_H
#define DATA_MASK_H

#include "text/vocab.h"

#define MASK_SPECIALS 5

struct mask {
    double probability;
    int n_words;                     /* of the vocabulary */
    int32_t id;                      /* [MASK] */
    int32_t cls, sep;                /* never chosen */
    int32_t specials[MASK_SPECIALS]; /* rising; no random word is one of them */
};

/* ERR_INVALID for a vocabulary without [MASK] or without words. */
MUST_CHECK enum err_code mask_init(struct mask *m, const struct vocab *vocab, double probability,
                                   struct err *err);

/* How many of `n` tokens that are not special are chosen; 0 of 0. */
int mask_count(const struct mask *m, int n);

/* Choose tokens of ids[length] and replace them. Fills rows and target_ids, mask_count() of each:
 * where they are, rising, and what was there. Returns how many. */
int mask_apply(const struct mask *m, uint64_t key, int32_t *ids, int length, int32_t *rows,
               int32_t *target_ids);

#endif
