/* train/stage.h - the part of the model that one worker runs: forward and backward of a run of
 * units on packed micro-batches.
 *
 * Independent of neighbours and steps. The units are the state's (train/state.h); what is here
 * belongs to one plan. A micro-batch in flight occupies a numbered slot from its forward to its
 * backward; there are as many as the schedule needs (schedule_in_flight()). All memory is taken by
 * stage_init(); forward and backward allocate nothing. With activations recomputed a slot holds
 * only what each unit passed to the next, and backward runs a unit's forward again for the rest:
 * dropout is a function of a counter, so the bits are the same.
 *
 * Units that have their home elsewhere (api/plan.h) are not the state's: the stage has memory for
 * their weights and gradients only, and for moments if replicas may train alone.
 *
 * Activations between stages are [T,C], behind the pooler [B,C]; gradients have the shape of the
 * activation they belong to.
 * Layer: train (may use nn api base). Threads: one caller.
 */
#ifndef TRAIN_STAGE_H
#define TRAIN_STAGE_H

#include "api/plan.h"
#include "nn/unit.h"
#include "train/message.h"
#include "train/outer.h"
#include "train/state.h"
#include "train/stopwatch.h"
#include "train/tie.h"

/* Everything of one micro-batch that its backward pass needs. */
struct stage_slot {
    struct message_batch batch; /* points into `numbers` */
    int32_t *numbers;
    const float *input; /* of the first unit: to be set before stage_forward(), and good until the
                           backward pass is done; NULL: the embeddings */
    float *unpacked;    /* room for an input that travels as bfloat16; NULL: none does */
    size_t in_floats, out_floats; /* of `input` and of what goes to the next stage; 0: none */
    float **outs;                 /* [n_units]: what each unit passed to the next */
    float **saved; /* [n_units]; with activations recomputed most are the stage's one */
    float *dlogits;
};

/* Called for unit `i` of the stage. */
struct stage_hooks {
    void *ctx;
    /* Its weights are needed; false ends the pass. */
    bool (*needs)(void *ctx, int i);
    /* Its gradient has been added. */
    void (*has_added)(void *ctx, int i);
};

struct stage {
    const struct plan *plan; /* borrowed */
    int worker;              /* its place in the plan ... */
    struct plan_replica replica;
    struct plan_home home; /* the units that are at home with it */
    int index;             /* ... and in its pipeline */
    bool is_first;         /* has the embeddings */
    bool is_last;          /* has the head and computes the loss */
    struct arena arena;
    struct message_limits limits;   /* of a micro-batch ... */
    struct unit_limits unit_limits; /* ... and of the areas for it */
    struct weights weights;
    struct tie tie;
    int n_slots;
    struct stage_slot *slots;
    const struct stage_hooks *hooks; /* NULL: none */
    float **sums;      /* [n_units]: of the shares before; NULL where the replica has one */
    float **snapshots; /* [n_units]: weights of units at home; NULL where none are taken */
    float **velocity;  /* [n_units]: of units at home, for outer steps; NULL: no momentum */
    float *offered;    /* [largest unit]: of replicas that train alone; else NULL */
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

/* Bytes of the stage of worker `worker`: what stage_init() takes, and its units. */
size_t stage_bytes(const struct plan *plan, int worker);

/* Take the memory for the stage of worker `worker`. `state` holds the units that are at home there;
 * it is borrowed. The weights of the others (train/homes.h) and the decoder's copy of the word
 * embeddings, if there is one, have to be fetched (train/tie.h). ERR_NO_MEMORY has the size that
 * was needed. */
MUST_CHECK enum err_code stage_init(struct stage *s, struct state *state, const struct plan *plan,
                                    int worker, struct err *err);
void stage_deinit(struct stage *s);

/* Is unit `i` of the stage at home here? */
bool stage_is_home(const struct stage *s, int i);

/* Run the units at home with these weights, in place of the state's; borrowed. */
void stage_use(struct stage *s, struct weights_unit *units);

/* While replicas are asynchronous, compute with a copy of the weights of units at home: as they are
 * now, and as a pull gives them (train/homes.h). Otherwise with the weights of the state. */
void stage_take_snapshot(struct stage *s);
void stage_drop_snapshot(struct stage *s, const struct state *state);

/* Replicas that have trained alone meet (train/outer.h): the weights take the place of the
 * gradients, to be added up at the homes of units, where they become those of the state. */
void stage_offer_weights(struct stage *s);
void stage_meet(struct stage *s, const struct state *state);

/* The same for one unit, while the replica trains on: what its weights are now is copied to
 * s->offered, to be replaced by what the replica has to give up of it (train/homes.h). */
void stage_offer_unit(struct stage *s, int i);
void stage_take_unit(struct stage *s, int i);
/* How homes make an outer step. */
struct outer_step stage_outer_step(const struct stage *s);

/* Put a micro-batch into `slot`: everything that `batch` points to is copied. ERR_INVALID for
 * tokens outside the vocabulary and sequences longer than the model's positions;
 * message_batch_read() has checked the rest. */
MUST_CHECK enum err_code stage_load(struct stage *s, int slot, const struct message_batch *batch,
                                    struct err *err);
/* Run the micro-batch in `slot` through all units. False when a hook has ended it. */
bool stage_forward(struct stage *s, int slot, struct stage_result *out);

/* Back through all units. `dout` is the gradient of the output ([rows,C]), NULL for the last stage,
 * which has its own. Returns the gradient of the input, borrowed until the next backward; NULL for
 * the first stage. */
const float *stage_backward(struct stage *s, int slot, const float *dout);

/* Behind the last backward pass of a share of the batch, where the replica has several of them: add
 * the gradients of the shares before. They are complete behind the last share. */
void stage_end_share(struct stage *s, bool is_first, bool is_last);

#endif
