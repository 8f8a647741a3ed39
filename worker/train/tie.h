/* train/tie.h - the word embeddings of a language model, which two stages share.
 *
 * The first stage owns them, with their moments; the decoder of the LM head on the last stage has a
 * copy and gradients of its own. At a step's end these run back along the pipeline and are added to
 * the embeddings' own, always in this order, so that sums have the same bits for every cut; after
 * the update, and before the first step, the words run forward to the copy. Both travel in pieces
 * of at most an edge's largest tensor, between the last micro-batch of the step and the first of
 * the next. On a single stage there is no copy. Layer: train (may use wire api base). Threads: one.
 */
#ifndef TRAIN_TIE_H
#define TRAIN_TIE_H

#include "train/exchange.h"
#include "train/weights.h"

struct tie {
    bool is_tied; /* the model has such a head, wherever it is */
    bool is_first, is_last;
    size_t count;       /* V C */
    size_t piece;       /* floats of one message */
    float *owned;       /* [V,C] first stage: the embeddings' weights */
    float *owned_grads; /* [V,C] first stage */
    float *words;       /* [V,C] last stage: the decoder's weights */
    float *grads;       /* [V,C] last stage: the decoder's gradients, zero between steps */
};

/* Take the areas that a stage with these `weights` needs from `arena`; call it on a counting arena
 * first. `piece` is the floats of an edge's largest tensor. */
void tie_layout(struct tie *t, const struct weights *weights, bool is_last, size_t piece,
                struct arena *arena);

/* Add the decoder's gradient to that of the embeddings, after the last micro-batch of a step.
 * Errors are those of the exchange; ERR_PROTOCOL for a piece of another size. */
MUST_CHECK enum err_code tie_collect(struct tie *t, struct exchange *x, int64_t step,
                                     struct err *err);

/* Send the words to the decoder: at the start, and after this stage has updated its weights. */
MUST_CHECK enum err_code tie_spread(struct tie *t, struct exchange *x, int64_t step,
                                    struct err *err);

#endif
