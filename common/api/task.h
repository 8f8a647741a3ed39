/* api/task.h - what a model can learn: the head, labels and metrics of each task.
 *
 * The nine tasks of GLUE (Wang et al. 2018, arXiv 1804.07461) with its official metrics,
 * user-defined tasks, and BERT's pre-training (Devlin et al. 2018, arXiv 1810.04805). The file
 * formats of the tasks are in worker/data.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_TASK_H
#define API_TASK_H

#include <stdbool.h>

#include "api/model.h"

#define TASK_LABELS_MAX  64
#define TASK_LABEL_BYTES 64 /* with the NUL */

/* What an evaluation measures. */
enum task_metric {
    TASK_ACCURACY, /* of a language model: of masked tokens */
    TASK_F1,       /* of label 1, the positive one; of more than two labels the macro average */
    TASK_MATTHEWS, /* with more than two labels: R_K (Gorodkin 2004) */
    TASK_PEARSON,
    TASK_SPEARMAN,
    TASK_NEXT_SENTENCE, /* accuracy */
    TASK_EVAL_LOSS,
    TASK_METRICS,
};

/* As in a progress document and in spec.training: "accuracy". Closed by NULL. */
extern const char *const task_metric_names[TASK_METRICS + 1];

struct task {
    const char *name;
    enum model_head head;
    bool is_own;               /* files, columns and labels come from the spec */
    int n_labels;              /* 0: from the spec, or the head has none */
    const char *const *labels; /* [n_labels] as the files write them, in the order of their ids */
    const char *const *names;  /* [n_labels] what transformers calls those; NULL: the same */
    unsigned metrics;          /* 1 << enum task_metric; what follows from the head is not in it */
    unsigned ranked_by;        /* those of `metrics` that results are compared by */
};

/* NULL when there is no such task. */
const struct task *task_find(const char *name);

/* `metric` is one of task_metric_names. False for unknown names. */
bool task_is_ranked_by(const struct task *t, const char *metric);

/* The metrics of an evaluation, those that the task is ranked by first, the loss last. Returns how
 * many. */
int task_metric_list(const struct task *task, enum task_metric out[static TASK_METRICS]);

/* All names, closed by NULL: the words of spec.data.task. */
extern const char *const task_names[];

#endif
