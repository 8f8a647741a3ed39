/* train/score.h - metrics of an evaluated split and predictions of a test set, in the last stage.
 *
 * Memory is taken by score_init(), for the largest split of the run; only the text of predictions
 * grows, and is kept until score_deinit(). Layer: train (may use data api base). Threads: one.
 */
#ifndef TRAIN_SCORE_H
#define TRAIN_SCORE_H

#include "data/metric.h"
#include "data/predictions.h"
#include "train/stage.h"

struct score {
    struct layout layout;
    struct metric metric;
    int place;                                      /* of the test set that is predicted */
    struct predictions predictions[LAYOUT_DEV_MAX]; /* of the test sets, by place */
    int64_t n_rows[LAYOUT_DEV_MAX];                 /* of each that is complete, else 0 */
};

/* `spec` is borrowed; the score stays where it was made. ERR_NO_MEMORY. */
MUST_CHECK enum err_code score_init(struct score *s, const struct spec *spec,
                                    const struct message_facts *facts, struct err *err);
void score_deinit(struct score *s); /* a zeroed one is fine */

/* Begin a pass over a split. */
void score_reset(struct score *s, const struct message_split *split);

/* Add the results of one micro-batch, from a test set or from a split with labels. */
MUST_CHECK enum err_code score_add(struct score *s, bool is_test, const struct message_batch *batch,
                                   const struct stage_result *result, struct err *err);

/* End the pass, whose losses add up to `loss`, and put the split's metrics into `out`. */
void score_finish(struct score *s, const struct message_split *split,
                  const struct message_loss *loss, struct message_eval *out);

/* Write the predictions of all complete test sets. Errors of predictions_write(). */
MUST_CHECK enum err_code score_write(const struct score *s, const char *folder, struct err *err);

#endif
