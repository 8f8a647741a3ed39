/* train/message.h - what stages send each other besides tensors: the meta data of a frame.
 *
 * Little-endian structs. The bytes are foreign, so every length and count is checked against what
 * the plan allows: a wrong message is ERR_PROTOCOL, never a crash. Views point into the caller's
 * bytes.
 *
 * A step ends with two messages along the pipeline. STEP_SUM runs from the first to the last stage;
 * each adds its part in stage order, so that sums have the same bits for every cut. STEP_END runs
 * back with the total and the loss. An evaluation ends with a STEP_END alone. A run whose output is
 * kept ends with a STOP from the last stage to the first, which reports whether the stages that it
 * has passed have written their files.
 * Layer: train (may use api base). Threads: any; pure.
 */
#ifndef TRAIN_MESSAGE_H
#define TRAIN_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/spec.h"
#include "base/err.h"

#define MESSAGE_SPLITS_MAX  4 /* matched and mismatched dev, and their test sets */
#define MESSAGE_METRICS_MAX 8
#define MESSAGE_WHY_BYTES   256

/* A micro-batch: its sequences, packed end to end, and their labels. The one form from the loader
 * to the last stage: a view, whose owner says how long it is good. */
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
    const int32_t *rows;       /* [n_targets] 0..T-1, rising: where the masked tokens stand */
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

/* What follows from the leader's data, sent once before the first step (COMMAND). */
struct message_facts {
    int64_t total_steps;
    int64_t steps_per_epoch;
    int64_t last_seqs; /* sequences in the last step of an epoch; all others have batchSize */
    int n_splits;
    struct message_split splits[MESSAGE_SPLITS_MAX];
};

/* Added up on the way to the last stage. */
struct message_sum {
    double square_sum;                /* of all gradients, in unit order */
    int n_stages;                     /* entries of stage_ms so far */
    double stage_ms[SPEC_STAGES_MAX]; /* computing, per micro-batch */
};

/* A loss being summed. Means are taken at the end, over everything that was added. */
struct message_loss {
    double sum;      /* over sequences, or over the masked tokens of a language model */
    int64_t n;       /* of those */
    double next_sum; /* next-sentence, over sequences; 0 for models that have none */
    int64_t n_seqs;
};
/* Mean loss: sum / n + next_sum / n_seqs. */
double message_loss_mean(const struct message_loss *l);

/* The end of a step or evaluation, for all stages. */
struct message_end {
    struct message_sum sum; /* of all stages; of an evaluation zero */
    struct message_loss loss;
    int n_metrics; /* of an evaluation, in the order of the task's metrics */
    double metrics[MESSAGE_METRICS_MAX];
};

/* The end of a run: whether the stages behind the receiver have written their files. */
struct message_stop {
    int32_t failed_stage; /* -1: all have */
    char why[MESSAGE_WHY_BYTES];
};

/* Most bytes that any of these takes. */
size_t message_max_bytes(const struct message_limits *limits);

/* Fill `out` (message_max_bytes() large); returns the bytes used. */
size_t message_batch_write(const struct message_batch *b, void *out);
/* `in` must be 8-byte aligned and outlive the view; step and is_eval are the caller's. What is
 * outside the limits is refused, and a score that is not finite. */
MUST_CHECK enum err_code message_batch_read(const void *in, size_t n,
                                            const struct message_limits *limits,
                                            struct message_batch *out, struct err *err);

/* The others are sent as they are. Of one that came: ERR_PROTOCOL when a number is out of range. */
MUST_CHECK enum err_code message_facts_check(const struct message_facts *f, struct err *err);
MUST_CHECK enum err_code message_sum_check(const struct message_sum *s, struct err *err);
MUST_CHECK enum err_code message_end_check(const struct message_end *e, struct err *err);
MUST_CHECK enum err_code message_stop_check(const struct message_stop *s, struct err *err);

#endif
