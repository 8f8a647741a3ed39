/* pipe/piece.h - a few units of the job's model, to be timed on made up micro-batches.
 *
 * One stage of a model with few layers (units are 0 embeddings, 1 attention, 2 feed-forward ...),
 * at the job's shapes, with sequences as long as the job's. Without training.recompute, whose
 * arithmetic the cost model adds.
 * Layer: pipe (may use nn data api base). Threads: one caller.
 */
#ifndef PIPE_PIECE_H
#define PIPE_PIECE_H

#include "pipe/sequences.h"
#include "pipe/stage.h"

#define PIECE_MICRO_MAX 32    /* micro-batches that are dealt; more are like these */
#define PIECE_WORDS_MAX 32768 /* of a larger vocabulary no more are used */

struct piece_params {
    const struct spec *spec;
    const struct sequences *sequences;
    int layers;              /* of the model, as few as will do */
    int first_unit, n_units; /* in front of the pooler */
    int n_seqs;              /* of a micro-batch */
};

struct piece {
    struct plan plan;
    struct stage stage;
    int n_micro;
    int next;               /* micro-batch of the next round */
    int32_t *starts;        /* [n_micro][n_seqs + 1] */
    int32_t *ids;           /* [T] */
    int32_t *types;         /* [T] */
    int32_t *positions;     /* [T] */
    int32_t *labels;        /* [n_seqs] */
    uint32_t *samples;      /* [n_seqs] */
    float *tensor;          /* [T,C] */
    struct model_load load; /* of a micro-batch in the mean */
};

/* Big: keep it off the stack. ERR_NO_MEMORY. piece_deinit() it whatever is returned. */
MUST_CHECK enum err_code piece_init(struct piece *p, const struct piece_params *params,
                                    struct err *err);
void piece_deinit(struct piece *p);

/* Forward and backward of the next micro-batch. */
MUST_CHECK enum err_code piece_round(struct piece *p, struct err *err);
/* The end of a step: the gradients' norm and the optimizer. */
void piece_update(struct piece *p);

/* Of its units, in the mean. */
double piece_flops(const struct piece *p);
double piece_params(const struct piece *p);

#endif
