/* train/stage.h - the part of the model that one worker owns: forward and backward of a run of
 * units on packed micro-batches.
 *
 * Independent of neighbours and steps. A micro-batch in flight occupies a numbered slot from its
 * forward to its backward; there are as many as the schedule needs (schedule_in_flight()). All
 * memory is taken by stage_init(); forward and backward allocate nothing. With activations
 * recomputed a slot holds only what each unit gave to the next, and backward runs a unit's forward
 * again for the rest: dropout is a function of a counter, so the bits are the same.
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

/* Everything of one micro-batch that its backward pass needs. */
struct stage_slot {
    struct message_batch batch; /* points into `numbers` */
    int32_t *numbers;
    float *input; /* of the first unit: to be filled before stage_forward(); NULL: the embeddings */
    size_t in_floats, out_floats; /* of `input` and of what goes to the next stage; 0: none */
    float **outs;                 /* [n_units]: what each unit gave to the next */
    float **saved; /* [n_units]; with activations recomputed most are the stage's one */
    float *dlogits;
};

struct stage {
    const struct plan *plan; /* borrowed */
    int index;
    bool is_first; /* owns the embeddings */
    bool is_last;  /* owns the head and computes the loss */
    struct arena arena;
    struct message_limits limits;   /* of a micro-batch ... */
    struct unit_limits unit_limits; /* ... and of the areas for it */
    struct weights weights;
    struct tie tie;
    int n_slots;
    struct stage_slot *slots;
    float *scratch;
    float *saved;    /* of the unit that computes, when activations are recomputed */
    float *out;      /* of the last unit */
    float *grads[2]; /* gradients between units, in turn */
    struct stopwatch kinds[UNIT_KINDS]; /* of all units of a kind; the reader zeroes it */
    struct lm_scores scores; /* the last stage's: [sequences, or masked tokens of a micro-batch] */
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

/* Put a micro-batch into `slot`: everything that `batch` points to is copied. ERR_INVALID for
 * tokens outside the vocabulary and sequences longer than the model's positions;
 * message_batch_read() has checked the rest. */
MUST_CHECK enum err_code stage_load(struct stage *s, int slot, const struct message_batch *batch,
                                    struct err *err);
/* Run the micro-batch in `slot` through all units. */
void stage_forward(struct stage *s, int slot, struct stage_result *out);

/* Back through all units. `dout` is the gradient of the output ([rows,C]), NULL for the last stage,
 * which has its own. Returns the gradient of the input, borrowed until the next backward; NULL for
 * the first stage. */
const float *stage_backward(struct stage *s, int slot, const float *dout);

#endif
