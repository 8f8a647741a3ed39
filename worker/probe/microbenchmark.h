/* probe/microbenchmark.h (private) - a few units of the job's model, timed on synthetic
 * micro-batches.
 *
 * The first stage of a model with few layers (units are 0 embeddings, 1 attention, 2 feed-forward
 * ...), at the job's shapes, with sequences as long as the job's. As under 1F1B a micro-batch comes
 * back only after the next one has gone forward, so the caches are as in training.
 * Activations are kept; the cost model adds the arithmetic of recomputing them.
 * Layer: probe (may use train nn data api base). Threads: one caller.
 */
#ifndef PROBE_MICROBENCHMARK_H
#define PROBE_MICROBENCHMARK_H

#include "probe/sequences.h"
#include "train/stage.h"

#define MICROBENCHMARK_MICRO_MAX 32   /* different micro-batches, which then repeat */
#define MICROBENCHMARK_WORDS_MAX 8192 /* of the vocabulary: more rows than any cache holds */

struct microbenchmark {
    struct plan plan;
    struct state state;
    struct stage stage;
    int n_seqs;        /* of a micro-batch, at most */
    int next;          /* micro-batch of the next round */
    int32_t *starts;   /* [MICROBENCHMARK_MICRO_MAX][n_seqs + 1]; owns the next three too */
    int32_t *ids;      /* [T] */
    int32_t *types;    /* [T] */
    uint32_t *samples; /* [n_seqs] */
    struct model_load last_load; /* of the round before */
};

/* Sums over rounds. */
struct microbenchmark_sum {
    double kind_ms[UNIT_KINDS];
    struct model_load load; /* tokens and their squares */
};

/* A model of `layers` layers. Big: keep it off the stack. ERR_NO_MEMORY. Call
 * microbenchmark_deinit() whatever it returns. */
MUST_CHECK enum err_code microbenchmark_init(struct microbenchmark *p, const struct spec *spec,
                                             const struct sequences *sequences, int layers,
                                             int n_seqs, struct err *err);
void microbenchmark_deinit(struct microbenchmark *p);

/* Forward of the next micro-batch, of its first `n_seqs` sequences, and backward of the one before.
 * Adds to *sum. */
MUST_CHECK enum err_code microbenchmark_round(struct microbenchmark *p, int n_seqs,
                                              struct microbenchmark_sum *sum, struct err *err);
/* The end of a step: the gradients' norm and the optimizer. Returns how many parameters there are.
 */
double microbenchmark_update(struct microbenchmark *p);

/* The mean load of the first `n_seqs` sequences of a micro-batch. */
struct model_load microbenchmark_load(const struct microbenchmark *p, int n_seqs);

#endif
