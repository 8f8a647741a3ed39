/* train/loader.h - the leader's supply of micro-batches: data, order and packing in one place.
 *
 * Checks the task's files once; afterwards a micro-batch is a function of (step, micro-batch) for
 * training, and of (split, its number) for evaluation. Sequences are made on demand, so data may be
 * larger than memory. Batches lie in memory taken by loader_init(); only scratch of the tokenizer
 * grows, up to the longest row.
 * Layer: train (may use data api base). Threads: one. A loader points into itself: it stays where
 * it was made.
 */
#ifndef TRAIN_LOADER_H
#define TRAIN_LOADER_H

#include "data/batch.h"
#include "data/sampler.h"
#include "data/source.h"
#include "text/tokenizer.h"
#include "train/message.h"

struct loader_params {
    const struct spec *spec;  /* borrowed as long as the loader lives */
    int micro_batches;        /* M, as planned */
    const char *folder;       /* with the task's files */
    const char *model_folder; /* of the model to start from; NULL: from scratch */
    bool wants_predictions;   /* read the test files too, if they are there */
    const atomic_bool *stops; /* once it is true, reading ends; NULL: never */
};

struct loader {
    struct tokenizer tokenizer;
    struct layout layout;
    struct message_facts facts; /* that follow from the data and the spec */
    struct source train;
    struct source splits[MESSAGE_SPLITS_MAX]; /* those of the facts */
    struct sampler sampler;
    struct batch step;  /* all sequences of `order_step` */
    struct batch batch; /* the micro-batch that was packed last */
    void *memory;
    uint64_t *samples; /* [batchSize] of the step, as the sampler gave them */
    int32_t *order;    /* [batchSize] sequences of `step`, dealt to micro-batches */
    int32_t *scratch;  /* [batchSize] */
    int64_t order_step;
    int n_seqs; /* of a micro-batch, at most */
    int n_micro;
};

/* Read vocabulary, training, dev and, when they are wanted, test splits.
 *
 * Dev and test files that the spec does not name may be missing. Otherwise
 * ERR_NOT_FOUND: a file is missing and may come later; ERR_INVALID: what is there does not fit the
 * job (a broken row, a vocabulary larger than the model's); ERR_GONE: it was stopped.
 */
MUST_CHECK enum err_code loader_init(struct loader *f, const struct loader_params *p,
                                     struct err *err);
void loader_deinit(struct loader *f);

/* Micro-batch of `step`, of as many as schedule_of() has for its sequences. Good until the next one
 * is made. */
MUST_CHECK enum err_code loader_train(struct loader *f, int64_t step, int microbatch,
                                      struct message_batch *out, struct err *err);
/* Micro-batch `index` of split `split` of the facts, in file order; the last may be smaller. */
MUST_CHECK enum err_code loader_eval(struct loader *f, int split, int64_t index,
                                     struct message_batch *out, struct err *err);

#endif
