/* data/metric.h - GLUE's metrics of the predictions for a split.
 *
 * A collector takes the (answer, truth) pairs of one pass and computes the task's metrics as
 * scikit-learn and scipy do, except that a correlation is 0 and not NaN where one side is constant.
 * Classes are counted, so only a regression needs memory, which metric_init() takes. Layer: data.
 * Threads: one per collector.
 */
#ifndef DATA_METRIC_H
#define DATA_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "api/task.h"
#include "base/err.h"

#define METRIC_NAME_BYTES 40 /* with a suffix and the NUL */

struct metric_value {
    double value;
    size_t i; /* of its pair */
};

struct metric {
    const struct task *task;
    int n_labels;
    int64_t counts[TASK_LABELS_MAX][TASK_LABELS_MAX]; /* [truth][answer] */
    int64_t n_words, n_right_words;                   /* of a language model */
    /* private: of a regression */
    size_t n_pairs, pairs_max;
    double *values[2];           /* [pairs_max] answers and truths, */
    double *ranks[2];            /* [pairs_max] and their ranks */
    struct metric_value *sorted; /* [pairs_max] */
};

/* `n_labels` of a classification, `n_max` samples per pass. ERR_NO_MEMORY. The caller calls
 * metric_deinit(). */
MUST_CHECK enum err_code metric_init(struct metric *m, const struct task *task, int n_labels,
                                     size_t n_max, struct err *err);
void metric_deinit(struct metric *m);

/* Forget what was collected: a new pass begins. */
void metric_reset(struct metric *m);

/* A classification, or whether the next sentence follows: 0 <= label < TASK_LABELS_MAX. */
void metric_add_class(struct metric *m, int answer, int truth);
/* A regression; pairs beyond n_max are ignored. */
void metric_add_score(struct metric *m, float answer, float truth);
/* A masked token. */
void metric_add_word(struct metric *m, int32_t answer, int32_t truth);

/* The values of task_metric_list(); `loss` is the pass's mean. Never NaN, unless `loss` is. */
int metric_values(struct metric *m, double loss, double out[static TASK_METRICS]);

/* As the status has it: "accuracy", "evalLossMismatched". `suffix` is the split's. */
void metric_name(enum task_metric kind, const char *suffix, char out[static METRIC_NAME_BYTES]);

#endif
