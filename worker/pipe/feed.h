/* pipe/feed.h - the head's supply of micro-batches: data set, order and packing in one place.
 *
 * Reads the task's folder once; afterwards a micro-batch is a function of (step, micro-batch) for
 * training and of its number for evaluation. Nothing is allocated after feed_init().
 * Layer: pipe (may use data api base). Threads: one.
 */
#ifndef PIPE_FEED_H
#define PIPE_FEED_H

#include "api/spec.h"
#include "data/batch.h"
#include "data/sampler.h"
#include "pipe/message.h"

struct feed {
    struct vocab vocab;
    struct dataset train;
    struct dataset dev;
    struct sampler sampler;
    struct batch batch; /* of the micro-batch that was packed last */
    void *memory;
    uint64_t *order;   /* [batchSize] samples of `order_step`, balanced */
    uint64_t *scratch; /* [batchSize] */
    uint32_t *samples; /* [sequences of a micro-batch] */
    int64_t order_step;
    int n_seqs; /* of a micro-batch */
    int n_micro;
};

/* A packed micro-batch; borrowed until the next one is made. */
struct feed_batch {
    struct message_batch batch;
    const int32_t *ids;       /* [T] */
    const int32_t *types;     /* [T] */
    const int32_t *positions; /* [T] */
};

/* Read vocabulary, training and dev split from `folder`.
 *
 * ERR_NOT_FOUND: a file is missing and may come later; ERR_INVALID: what is there does not fit the
 * job (a broken row, a vocabulary larger than the model's, fewer samples than a batch).
 */
MUST_CHECK enum err_code feed_init(struct feed *f, const struct spec *spec, const char *folder,
                                   struct err *err);
void feed_deinit(struct feed *f);

void feed_facts(const struct feed *f, const struct spec *spec, struct message_facts *out);

MUST_CHECK enum err_code feed_train(struct feed *f, int64_t step, int microbatch,
                                    struct feed_batch *out, struct err *err);
/* Micro-batch `index` of the dev split, in file order; the last may be smaller. */
MUST_CHECK enum err_code feed_eval(struct feed *f, int64_t index, struct feed_batch *out,
                                   struct err *err);

#endif
