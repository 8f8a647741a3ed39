/* pipe/message.h - what stages tell each other beside tensors: the meta part of a frame.
 *
 * Written little-endian by copying, as all machines here are. Reading checks every length and
 * count against what the plan allows, because the bytes are foreign: a message that is wrong is
 * ERR_PROTOCOL, never a crash. Views point into the caller's bytes.
 *
 * A step ends with two messages along the chain. STEP_SUM runs from the head to the last stage;
 * each adds its part in stage order, so that sums have the same bits for every cut. STEP_END runs
 * back with what the last stage knows: the total, the loss. Evaluation ends with a STEP_END alone.
 * Layer: pipe (may use api base). Threads: any; pure.
 */
#ifndef PIPE_MESSAGE_H
#define PIPE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "api/spec.h"
#include "base/err.h"

/* The sequences of a micro-batch, packed end to end. */
struct message_batch {
    int n_seqs;
    int n_tokens;            /* T = starts[n_seqs] */
    const int32_t *starts;   /* [n_seqs + 1]; starts[0] is 0, rising */
    const int32_t *labels;   /* [n_seqs] */
    const uint32_t *samples; /* [n_seqs]; identity of each, for dropout */
};

/* What only the head knows of the run, sent once before the first step (COMMAND). */
struct message_facts {
    int64_t total_steps;
    int64_t steps_per_epoch;
    int64_t n_eval_batches; /* micro-batches of one evaluation */
    int64_t n_eval_samples;
};

/* Added up on the way to the last stage. */
struct message_sum {
    double square_sum;                /* of all gradients, in unit order */
    int n_stages;                     /* entries of stage_ms so far */
    double stage_ms[SPEC_STAGES_MAX]; /* computing, per micro-batch */
};

/* Told on the way back. */
struct message_end {
    double square_sum;
    double loss_sum; /* over samples */
    int64_t n_correct;
    int64_t n_samples;
    int n_stages;
    double stage_ms[SPEC_STAGES_MAX];
};

/* Most bytes that any of these takes with micro-batches of `n_seqs`. */
size_t message_max_bytes(int n_seqs);

/* Writers fill `out` (message_max_bytes() large) and return the bytes used. */
size_t message_batch_write(const struct message_batch *b, void *out);
size_t message_facts_write(const struct message_facts *f, void *out);
size_t message_sum_write(const struct message_sum *s, void *out);
size_t message_end_write(const struct message_end *e, void *out);

/* `in` must be 4-byte aligned and outlive the view. Labels must lie in 0..n_labels-1, at most
 * `max_seqs` sequences of at most `max_length` tokens. */
MUST_CHECK enum err_code message_batch_read(const void *in, size_t n, int max_seqs, int max_length,
                                            int n_labels, struct message_batch *out,
                                            struct err *err);
MUST_CHECK enum err_code message_facts_read(const void *in, size_t n, struct message_facts *out,
                                            struct err *err);
MUST_CHECK enum err_code message_sum_read(const void *in, size_t n, struct message_sum *out,
                                          struct err *err);
MUST_CHECK enum err_code message_end_read(const void *in, size_t n, struct message_end *out,
                                          struct err *err);

#endif
