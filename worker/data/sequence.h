/* data/sequence.h - one sample as the model sees it.
 *
 * Layer: data. Threads: any; pure.
 */
#ifndef DATA_SEQUENCE_H
#define DATA_SEQUENCE_H

#include "data/layout.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

#define SEQUENCE_LENGTH_MIN 8 /* tokens: [CLS] a [SEP] b [SEP] and a little to say */
#define SEQUENCE_LENGTH_MAX 8192
#define SEQUENCE_SPECIALS   3 /* [CLS], [SEP], [SEP] */

/* How the samples of a split become sequences. What it points to is borrowed for as long as the
 * source of them lives. */
struct sequence_params {
    const struct layout *layout;
    const struct tokenizer *tokenizer;
    int max_length;          /* tokens, SEQUENCE_LENGTH_MIN..SEQUENCE_LENGTH_MAX */
    size_t most_bytes;       /* read about this much, from all over the file; 0: all */
    double mask_probability; /* of a language model, like the seed */
    uint64_t seed;
};

struct sequence {
    uint32_t sample;           /* number in its data set: what dropout is a function of */
    int length;                /* tokens */
    int n_first;               /* of them of type 0; the rest is of type 1 */
    const int32_t *ids;        /* [length], borrowed */
    int32_t label;             /* of a classification, else 0 */
    float score;               /* of a regression, else 0 */
    int n_targets;             /* masked tokens of a language model, else 0 */
    const int32_t *rows;       /* [n_targets] rising, 0 <= row < length; borrowed */
    const int32_t *target_ids; /* [n_targets] what stood there */
};

/* ERR_INVALID for a max_length that is not allowed. */
MUST_CHECK enum err_code sequence_check(const struct sequence_params *p, struct err *err);

/* Shorten two sentences to `room` tokens together, from the longer one first, as Hugging Face's
 * tokenizers do ("longest_first"): when both are cut and `room` is odd, the one that was longer
 * keeps the odd token, the second if they were equally long. google-research/bert leaves it to the
 * first. */
void sequence_truncate(size_t *n_a, size_t *n_b, size_t room);

/* [CLS] a [SEP] b [SEP], or [CLS] a [SEP] when `b` is NULL: `a` comes with [CLS] and gets the
 * rest, cut to `max_length`. Sets *out but for the sample, label and targets; its ids are a's.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code sequence_join(struct token_list *a, const struct token_list *b,
                                       const struct vocab *vocab, int max_length,
                                       struct sequence *out, struct err *err);

#endif
