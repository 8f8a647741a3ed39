/* train/stage.h - the part of the model that one worker owns: forward and backward of a run of
 * units on packed micro-batches.
 *
 * Knows nothing of neighbours or steps. A micro-batch in flight lives in a numbered slot from its
 * forward to its backward; there are as many as the schedule needs (schedule_in_flight()). All
 * memory is taken by stage_init(); forward and backward allocate nothing. With activations
 * recomputed a slot holds only what each unit gave to the next, and backward runs a unit's forward
 * again for the rest: dropout counts and does not draw, so the bits are the same.
 *
 * Between stages travel [T,C] activations, [B,C] behind the pooler; gradients have the shape of
 * the activation they belong to.
 * Layer: train (may use nn api base). Threads: one caller.
 */
#ifndef TRAIN_STAGE_H
#define TRAIN_STAGE_H

#include "api/plan.h"
#include "nn/unit.h"
#include "train/message.h"
#include "train/stopwatch.h"
#include "train/tie.h"

struct stage_slot; /* private: activations of one micro-batch */

struct stage {
    const struct plan *plan; /* borrowed */
    int index;
    bool is_first; /* owns the embeddings */
    bool is_last;  /* owns the head and computes the loss */
    struct arena arena;
    struct weights weights;
    struct tie tie;
    int n_slots;
    struct stage_slot *slots;
    float *scratch;
    float
        *saved; /* with activations recomputed: of whichever unit computes, for all micro-batches */
    float *out; /* of the last unit */
    float *grads[2];                    /* gradients between units, in turn */
    struct stopwatch kinds[UNIT_KINDS]; /* of all units of a kind; to be zeroed by who reads it */
    struct lm_scores scores; /* the last stage's: [sequences, or masked tokens of a micro-batch] */
};

struct stage_input {
    struct message_batch batch;
    const int32_t *ids; /* these three only for the first stage; [T] */
    const int32_t *types;
    const int32_t *positions;
    const float *tensor; /* the others': output of the stage before */
    int64_t step;
    bool is_eval; /* no dropout, no gradients, no backward follows */
};

struct stage_result {
    const float *tensor; /* to the next stage; borrowed until the next forward */
    size_t floats;
    struct message_loss loss;   /* this and the rest are of the last stage; borrowed likewise */
    const int32_t *predictions; /* [B] classes, or [n_targets] words; NULL for a regression */
    const float *values;        /* [B] of a regression, else NULL */
    const int32_t *next_predictions; /* [B] of a model with next-sentence, else NULL */
};

/* Floats of the largest tensor on the edge in front of (or behind) any stage. */
size_t stage_edge_floats(const struct plan *plan);

/* Bytes that stage_init() will take for stage `index`. */
size_t stage_bytes(const struct plan *plan, int index);

/* Take the memory and fill in the random start. ERR_NO_MEMORY says how much was wanted. */
MUST_CHECK enum err_code stage_init(struct stage *s, const struct plan *plan, int index,
                                    struct err *err);
void stage_deinit(struct stage *s);

/* The micro-batch that lies in `slot`. */
const struct message_batch *stage_batch(const struct stage *s, int slot);

/* Floats of this stage's input tensor for `batch`; what a peer must have sent. 0 for the first. */
size_t stage_input_floats(const struct stage *s, const struct message_batch *batch);
/* Floats of this stage's output tensor; 0 for the last. */
size_t stage_output_floats(const struct stage *s, const struct message_batch *batch);

/* Run the micro-batch through all units into `slot`. ERR_INVALID for ids outside the vocabulary or
 * positions outside the model; nothing else is unchecked in message_batch_read(). */
MUST_CHECK enum err_code stage_forward(struct stage *s, int slot, const struct stage_input *in,
                                       struct stage_result *out, struct err *err);

/* Back through all units. `dout` is the gradient of the output ([rows,C]), NULL for the last stage,
 * which has its own. Returns the gradient of the input, borrowed until the next backward; NULL for
 * the first stage. */
const float *stage_backward(struct stage *s, int slot, const float *dout);

#endif
