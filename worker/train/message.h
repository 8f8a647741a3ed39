/* train/message.h - what stages send each other: the kinds of messages, and their meta data.
 *
 * Little-endian structs. The bytes are untrusted, so every length and count is checked against what
 * the plan allows: a wrong message is ERR_PROTOCOL, never a crash. Views point into the caller's
 * bytes.
 *
 * A step ends with two messages along the pipeline. STEP_SUM runs from the first to the last stage,
 * once a stage has all its gradients; each adds the square sums of its units, so that the last one
 * can add them up in unit order, with the same bits for every cut. STEP_END runs back with all that
 * an update needs (api/resume.h), and the order to write a checkpoint behind it: when it exists,
 * every stage has complete gradients. The evaluation of a split ends with an EVAL_END alone; that
 * of the last dev split carries what the last stage has decided about the evaluation
 * (train/best.h). A run whose output is kept ends with a STOP from the last stage to the first,
 * which reports whether the stages that it has passed have written their files. RELEASE runs from
 * the first stage to the last when everything is done: only then may a worker end. Layer: train
 * (may use api base). Threads: any; pure.
 */
#ifndef TRAIN_MESSAGE_H
#define TRAIN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/plan.h"
#include "api/resume.h"
#include "base/err.h"

#define MESSAGE_VERSION     13 /* of all that follows, in the first message of a session */
#define MESSAGE_SPLITS_MAX  4  /* matched and mismatched dev, and their test sets */
#define MESSAGE_METRICS_MAX 8
#define MESSAGE_WHY_BYTES   256

/* The type of a message on a link, and which parts it may carry: M meta, T tensor, B both. */
#define MESSAGE_KINDS(X)                                                                           \
    X(FORWARD, B)  /* activations of one micro-batch, to the last stage */                         \
    X(BACKWARD, T) /* gradients of one micro-batch, to the first stage */                          \
    X(STEP_SUM, M) /* of all stages so far at a step's end: square sums, times */                  \
    X(STEP_END, M) /* for all stages at a step's end: how to update */                             \
    X(EVAL_END, M) /* for all stages at an evaluation's end: the metrics */                        \
    X(TIE, T)      /* a piece of the word embeddings or of their gradient */                       \
    X(COMMAND, M)  /* the facts of the run, at a session's start */                                \
    X(STOP, M)     /* the end of a run: were the files written? */                                 \
    X(RELEASE, M)  /* the end of a run: all is done; without any bytes */                          \
    X(UNIT, B)     /* a piece of a unit that goes to another worker (train/move.h) */              \
    X(HISTORY, B)  /* likewise, of what the leader has recorded */                                 \
    X(COPY, B)     /* a piece of a checkpoint's shard, for another node (train/copies.h) */        \
    X(COPIED, M)   /* the answer to the last one */                                                \
    X(GRADS, T)    /* a piece of a unit's gradient, to its home (train/homes.h) */                 \
    X(OFFER, T)    /* a piece of a unit's weights, likewise (train/outer.h) */                     \
    X(WEIGHTS, T)  /* a piece of a unit's parameters, from its home */                             \
    X(PUSH, M)     /* how a home applies the gradients of a ticket, which follow */

#define MESSAGE_ENUM(name, parts) MESSAGE_##name,
enum message_kind { MESSAGE_NONE, MESSAGE_KINDS(MESSAGE_ENUM) N_MESSAGE_KINDS };
#undef MESSAGE_ENUM

#define MESSAGE_EVAL 0x01u /* a flag: no backward pass follows */

/* "FORWARD"; "unknown" for a number that is no kind. Never NULL. */
const char *message_kind_name(uint32_t kind);

/* May a message of this kind have meta data or a tensor at all, if their sizes are not 0? */
bool message_may_carry(enum message_kind kind, uint32_t meta_bytes, uint64_t tensor_bytes);

/* A micro-batch: its sequences, packed end to end, and their labels. The same form from the loader
 * to the last stage: a view, whose owner defines how long it is valid. */
struct message_batch {
    int64_t step; /* step and is_eval travel in the frame's header */
    bool is_eval; /* no dropout, no gradients, no backward follows */
    int n_seqs;
    int n_tokens;              /* T = starts[n_seqs] */
    int n_targets;             /* masked tokens of a language model, else 0 */
    int step_seqs;             /* of the whole optimizer step, or of this batch in evaluation */
    int64_t step_targets;      /* masked tokens of the whole optimizer step, or of this batch in
                                  evaluation */
    const uint32_t *samples;   /* [n_seqs]; identity of each, for dropout */
    const int32_t *starts;     /* [n_seqs + 1]; starts[0] is 0, rising */
    const int32_t *labels;     /* [n_seqs]; classes, or next-sentence; 0 where there are none */
    const float *scores;       /* [n_seqs] of a regression; then labels is NULL */
    const int32_t *rows;       /* [n_targets] 0..T-1, rising: the positions of the masked tokens */
    const int32_t *target_ids; /* [n_targets] 0..V-1: the original tokens */
    const int32_t *ids;        /* [T]; these two only at the first stage, and never sent */
    const int32_t *types;      /* [T] */
};

/* What a batch may hold under a spec. */
struct message_limits {
    int seqs;
    int step_seqs;
    int length;  /* tokens of a sequence */
    int labels;  /* 0..labels-1; 0: scores */
    int targets; /* of a micro-batch */
    int vocab;   /* of target_ids */
};
struct message_limits message_limits_of(const struct spec *spec, int micro_batches);

/* A part of the data that is evaluated or predicted: a dev set, or a test set. */
struct message_split {
    int64_t n_samples;
    int64_t n_batches; /* micro-batches; the last may be smaller */
    int32_t is_test;   /* 1: no labels; it is predicted, once, after the last step */
    int32_t place; /* among the dev or the test files of data/layout.h: 1 is MNLI's mismatched */
};

/* What follows from the leader's data, sent once before a session's first step (COMMAND). */
struct message_facts {
    int version; /* MESSAGE_VERSION */
    int64_t total_steps;
    int64_t steps_per_epoch;
    int64_t last_seqs; /* sequences in the last step of an epoch; all others have batchSize */
    struct progress_best best; /* of the evaluations before this session ... */
    int32_t saves; /* ... 1: all stages write a checkpoint of it: it is that of the first step */
    int n_splits;
    struct message_split splits[MESSAGE_SPLITS_MAX];
};

/* Sequences of a step: the last one of an epoch may have fewer than the batch size. */
int message_step_seqs(const struct message_facts *f, int batch_size, int64_t step);

/* A loss being summed. Means are taken at the end, over everything that was added. */
struct message_loss {
    double sum;      /* over sequences, or over the masked tokens of a language model */
    int64_t n;       /* of those */
    double next_sum; /* next-sentence, over sequences; 0 for models that have none */
    int64_t n_seqs;
};
/* Mean loss: sum / n + next_sum / n_seqs. */
double message_loss_mean(const struct message_loss *l);
void message_loss_add(struct message_loss *to, const struct message_loss *l);

/* Added up on the way to the last stage of the lead. */
struct message_sum {
    int n_stages;                         /* entries of stage_ms so far */
    int n_units;                          /* entries of square_sums so far: all units up to here */
    struct message_loss loss;             /* of a replica, from its last stage ... */
    int64_t n_tokens;                     /* ... and its tokens */
    int32_t wants_checkpoint;             /* 1: one is due after this step ... */
    int32_t is_writing;                   /* ... but a stage is still writing the one before ... */
    int32_t has_failed;                   /* ... or could not write it */
    double ticket_ms;                     /* of a replica that trained alone; else 0 */
    double batch_ms;                      /* of a micro-batch, in the slowest stage of a replica in
                                             this step; 0: it had none */
    double stage_ms[SPEC_STAGES_MAX];     /* computing, per micro-batch: the median ... */
    double stage_mad_ms[SPEC_STAGES_MAX]; /* ... and median deviation of train/pace.h */
    double square_sums[MODEL_UNITS_MAX];  /* of a unit's gradients, 0 but from its home; only
                                             n_units are sent */
};
/* Bytes of a sum over `n_units` units on the wire. */
size_t message_sum_bytes(int n_units);

/* Of asynchronous replicas (train/tickets.h); in a synchronous step all 0. */
struct message_ticket {
    int64_t next;       /* the replica's next one; -1: none is left in this round */
    double share;       /* of a step's batch, in the one that has ended; 0: it was empty */
    int64_t steps_done; /* of which all tickets have ended, in all replicas */
    double staleness;   /* of tickets so far: their mean ... */
    int64_t staleness_max;
};

/* How the next steps are done. */
struct message_next {
    int32_t protocol;                  /* enum spec_protocol, never Switch */
    int32_t n_steps;                   /* in which replicas are out of step, at most; 0: as ever */
    int32_t shares[PLAN_REPLICAS_MAX]; /* of a step in BSP, in micro-batches, by replica; a single
                                          one has 0 */
    uint32_t lagging;                  /* a bit for each replica that is slower than usual ... */
    double lag_ms, usual_ms;           /* ... of the first one, its time per micro-batch ... */
    int32_t answer;                    /* ... enum spec_stragglers: what is done about it ... */
    double answer_ms, wait_ms;         /* ... with the times of train/stragglers.h */
};

/* The end of a step, for all stages, or that of a ticket, for those of its replica. */
struct message_end {
    struct step_end end;
    struct message_ticket ticket;
    struct message_next next; /* of a step's */
    int32_t saves;            /* 1: all stages write a checkpoint after the update */
    int32_t is_saved; /* 1: all have written the one before, if there is one in this session ... */
    int32_t has_failed;                  /* ... 1: all have ended it, and some could not write it */
    int64_t n_tokens;                    /* of all replicas */
    double ticket_ms[PLAN_REPLICAS_MAX]; /* of each replica, behind steps alone; else 0 */
    int32_t joins; /* behind steps alone, 1: all replicas take the weights of the homes */
    int n_stages;
    double stage_ms[SPEC_STAGES_MAX]; /* as in the sum, like what follows */
    double stage_mad_ms[SPEC_STAGES_MAX];
};

/* How a home applies the gradients of a ticket. */
struct message_push {
    int32_t is_applied; /* 0: they are left out, and do not follow */
    int32_t is_last;    /* 1: the sender has no more tickets in this round, and wants no weights */
    double rate, scale, share;
    int64_t updates; /* these as in struct weights_step */
};

/* The end of the evaluation of a split, likewise. */
struct message_eval {
    int n_metrics; /* in the order of the task's metrics */
    double metrics[MESSAGE_METRICS_MAX];
    struct progress_best best; /* with this evaluation, once all of its dev splits are over */
    int32_t saves;             /* 1: all stages write a checkpoint of this step */
    int32_t ends;              /* 1: this was the last step */
};

/* A part of a unit's parameters or moments, the floats of which are the tensor. */
struct message_piece {
    int unit;
    int area; /* 0: parameters, 1: moment, 2: variance */
    int64_t at;
};

/* The previous leader's records: its progress document, and the size of the history, which follows
 * in pieces as tensors. */
struct message_history {
    int64_t n_bytes;
    char progress[PROGRESS_TEXT_MAX_BYTES + 1];
};

/* Where a piece of a copy belongs. */
struct message_copy {
    int64_t lineage;
    int64_t step;
    int32_t stage, n_stages;
    int32_t file;    /* enum store_file (files/store.h); N_STORE_FILES: there are no more pieces */
    int32_t is_last; /* 1: the session has no more copies; then all others are 0 */
};

/* Is the copy of this step complete and synced? */
struct message_copied {
    int64_t step;
    int32_t is_complete;
    char why[MESSAGE_WHY_BYTES]; /* if not */
};

/* The end of a run: whether the stages behind the receiver have written their files. */
struct message_stop {
    int32_t failed_stage; /* -1: all have */
    char why[MESSAGE_WHY_BYTES];
};

/* Most bytes that any of these takes when sent forward, in a model of `n_units` units. */
size_t message_max_bytes(const struct message_limits *limits, int n_units);

/* Fill `out` (message_max_bytes() large); returns the bytes used. */
size_t message_batch_write(const struct message_batch *b, void *out);
/* `in` must be 8-byte aligned and outlive the view; step and is_eval are the caller's. What is
 * outside the limits is refused, and a score that is not finite. */
MUST_CHECK enum err_code message_batch_read(const void *in, size_t n,
                                            const struct message_limits *limits,
                                            struct message_batch *out, struct err *err);

/* The others are sent as they are. Checks of received ones: ERR_PROTOCOL when a number is out of
 * range. */
MUST_CHECK enum err_code message_facts_check(const struct message_facts *f, struct err *err);
MUST_CHECK enum err_code message_sum_check(const struct message_sum *s, struct err *err);
MUST_CHECK enum err_code message_end_check(const struct message_end *e, struct err *err);
MUST_CHECK enum err_code message_push_check(const struct message_push *p, struct err *err);
MUST_CHECK enum err_code message_eval_check(const struct message_eval *e, struct err *err);
MUST_CHECK enum err_code message_copied_check(const struct message_copied *c, struct err *err);
MUST_CHECK enum err_code message_stop_check(const struct message_stop *s, struct err *err);

#endif
