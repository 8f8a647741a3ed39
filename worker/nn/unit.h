/* nn/unit.h - the six kinds of unit that a model is cut into: forward beside backward.
 *
 * A unit is a pure function on float areas that the caller owns. Forward reads `in` and the
 * parameters, writes `out` and what backward will need (`saved`). Backward reads the same `in`
 * and `saved` and the gradient of `out`, ADDS the parameter gradients to `grads` (zero them once
 * per step, as the optimizers do) and writes the gradient of `in`. Nothing is allocated.
 *
 * Letters: T tokens and B sequences of the micro-batch (nn/packed.h), C hidden, H heads,
 * F feed-forward, V vocabulary, P positions, N labels, n masked tokens. Activations are [T,C] up to
 * the pooler or LM head and [B,C] after the pooler.
 *
 * Parameters of a unit are one area; its tensors follow one another without padding, in the order
 * of Hugging Face's BertForSequenceClassification or BertForPreTraining (so do gradients and
 * moments):
 *   embedding  word_embeddings [V,C]  position_embeddings [P,C]  token_type_embeddings [2,C]
 *              LayerNorm.weight [C]  LayerNorm.bias [C]
 *   attention  self.query.weight [C,C]  self.key.weight [C,C]  self.value.weight [C,C]
 *              self.query.bias [C]  self.key.bias [C]  self.value.bias [C]
 *              output.dense.weight [C,C]  output.dense.bias [C]
 *              output.LayerNorm.weight [C]  output.LayerNorm.bias [C]
 *   ffn        intermediate.dense.weight [F,C]  intermediate.dense.bias [F]
 *              output.dense.weight [C,F]  output.dense.bias [C]
 *              output.LayerNorm.weight [C]  output.LayerNorm.bias [C]
 *   pooler     dense.weight [C,C]  dense.bias [C]
 *   head       classifier.weight [N,C]  classifier.bias [N]
 *   LM head    transform.dense.weight [C,C]  transform.dense.bias [C]
 *              transform.LayerNorm.weight [C]  transform.LayerNorm.bias [C]  predictions.bias [V]
 *              and with next_sentence:
 *              pooler.dense.weight [C,C]  pooler.dense.bias [C]
 *              seq_relationship.weight [2,C]  seq_relationship.bias [2]
 *
 * Areas should start on 64 bytes; results do not depend on it. `in` and `out` may not overlap; for
 * attention and ffn the gradient written may be the gradient read (din == dout).
 * `saved` is consumed: backward once for each forward. A forward without a backward (evaluation)
 * may give the same `saved` to every unit. `scratch` holds nothing between two calls.
 * Layer: nn. Threads: one caller; gemm_setup() sets how many share the work.
 */
#ifndef NN_UNIT_H
#define NN_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nn/packed.h"
#include "nn/random.h"

#define UNIT_TYPES 2 /* token types: first and second sentence */

struct unit_shape {
    int hidden;         /* C, a multiple of heads */
    int heads;          /* H */
    int ffn;            /* F */
    int vocab;          /* V */
    int positions;      /* P */
    int labels;         /* N */
    float norm_eps;     /* of every LayerNorm */
    bool next_sentence; /* the LM head has a next-sentence classifier */
};

/* The largest micro-batch that areas are laid out for. */
struct unit_limits {
    int tokens;  /* T */
    int seqs;    /* B */
    int longest; /* tokens of one sequence */
    int targets; /* masked tokens of the LM head, else 0 */
};

/* What the LM head predicts, and the tied decoder, which is not among its parameters: the word
 * embeddings, with an area of its own for the gradient. */
struct lm_targets {
    const float *decoder; /* [V,C] */
    float *decoder_grads; /* [V,C], added to; NULL when evaluating */
    int n;                /* masked tokens, 0 to limits.targets */
    const int32_t *rows;  /* [n] where they stand: 0..T-1 of `in` */
    const int32_t *ids;   /* [n] the original token: 0..V-1 */
    const int32_t *next;  /* [B] 0: the second sentence follows the first, 1: it does not */
    float factor;         /* 1 / masked tokens of the step for a mean loss */
    float next_factor;    /* 1 / sequences of the step */
};

/* Per target and per sequence; the caller sums totals, in order. */
struct lm_scores {
    float *losses;             /* [n] */
    int32_t *predictions;      /* [n] */
    float *next_losses;        /* [B], these two only with next_sentence */
    int32_t *next_predictions; /* [B] */
};

/* What a call of a unit needs. Backward must get what forward got. */
struct unit_call {
    struct unit_shape shape;
    struct packed batch;
    struct dropout drop;  /* drop.unit: index in the whole model; rate 0 when evaluating */
    const float *params;  /* [sizes.params] */
    float *grads;         /* [sizes.params] of backward, and of the LM head's forward */
    float *saved;         /* [sizes.saved] */
    float *scratch;       /* [sizes.scratch] */
    const int32_t *ids;   /* [T] of the embeddings only: 0..V-1. They index memory: ... */
    const int32_t *types; /* [T] 0..1                            ... the caller checks both */
    struct lm_targets lm; /* of the LM head only, like the next */
    struct lm_scores scores;
};

/* Areas of a unit in floats. `saved` and `scratch` are multiples of 16 (64 bytes) and grow with
 * each field of the limits, so the largest micro-batch decides. */
struct unit_sizes {
    size_t params, saved, scratch, out;
};

/* One kind of unit: one of those below. */
struct unit;

/* `out` depends on tokens and seqs only. */
struct unit_sizes unit_sizes(const struct unit *unit, const struct unit_shape *shape,
                             const struct unit_limits *limits);

/* As each kind says: out[sizes.out] from in, and din (as large as in) from dout[sizes.out]. */
void unit_forward(const struct unit *unit, const struct unit_call *call, const float *in,
                  float *out);
void unit_backward(const struct unit *unit, const struct unit_call *call, const float *in,
                   const float *dout, float *din);

/* out[T,C] = dropout(LayerNorm(word[id] + type[t] + position)). No sequence may be longer than P.
 * `in` and `din` are not used. */
extern const struct unit embedding_unit;

/* out[T,C] = LayerNorm(in + dropout(dense(attention(in)))), each sequence attending to itself. */
extern const struct unit attention_unit;

/* out[T,C] = LayerNorm(in + dropout(dense(gelu(dense(in))))). */
extern const struct unit ffn_unit;

/* out[B,C] = dropout(tanh(dense(first token of each sequence of in[T,C]))); din is [T,C]. */
extern const struct unit pooler_unit;

/* out[B,N] = dense(in[B,C]): the logits. The loss and its gradient are nn/loss.h. */
extern const struct unit head_unit;

/* scores = the cross entropy of dense(LayerNorm(gelu(dense(rows of in[T,C])))) with the decoder and
 * the predictions' bias as the outer dense, and of the next-sentence logits dense(tanh(dense(first
 * token))). Nothing is dropped; `out` and `dout` are not used.
 *
 * The [n,V] logits never exist as a whole: they are made, scored and turned into gradients 64 rows
 * at a time. So it is forward that adds to lm.decoder_grads and to the gradient of predictions.bias
 * (unless evaluating); backward continues from the rest, kept in `saved`, and writes din[T,C].
 * The caller checks lm.rows, ids and next. */
extern const struct unit lm_head_unit;

#endif
