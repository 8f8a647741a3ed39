#include "api/task.h"

#include <string.h>

/* Ids in the order of google-research/bert's and transformers' processors for the TSV files. */
static const char *const inference[] = {"contradiction", "entailment", "neutral"};
static const char *const entailment[] = {"entailment", "not_entailment"};
static const char *const binary[] = {"0", "1"};

/* What the labels "0" and "1" mean, as Hugging Face's data sets and so its models call them. */
static const char *const duplicate[] = {"not_duplicate", "duplicate"};
static const char *const entailed[] = {"not_entailment", "entailment"};
static const char *const sentiment[] = {"negative", "positive"};
static const char *const equivalent[] = {"not_equivalent", "equivalent"};
static const char *const acceptable[] = {"unacceptable", "acceptable"};

#define LABELS(list) .n_labels = (int)(sizeof(list) / sizeof(list)[0]), .labels = (list)

#define JUDGED(by) .metrics = (by), .ranked_by = (by)

#define BIT(metric) (1u << TASK_##metric)

static const struct task tasks[] = {
    {.name = "MNLI", JUDGED(BIT(ACCURACY)), LABELS(inference)},
    {.name = "QNLI", JUDGED(BIT(ACCURACY)), LABELS(entailment)},
    {.name = "QQP", JUDGED(BIT(ACCURACY) | BIT(F1)), LABELS(binary), .names = duplicate},
    {.name = "RTE", JUDGED(BIT(ACCURACY)), LABELS(entailment)},
    {.name = "WNLI", JUDGED(BIT(ACCURACY)), LABELS(binary), .names = entailed},
    {.name = "SST2", JUDGED(BIT(ACCURACY)), LABELS(binary), .names = sentiment},
    {.name = "MRPC", JUDGED(BIT(ACCURACY) | BIT(F1)), LABELS(binary), .names = equivalent},
    {.name = "CoLA",
     .metrics = BIT(MATTHEWS) | BIT(ACCURACY),
     .ranked_by = BIT(MATTHEWS),
     LABELS(binary),
     .names = acceptable},
    {.name = "STSB", .head = MODEL_HEAD_REGRESSION, JUDGED(BIT(PEARSON) | BIT(SPEARMAN))},
    {.name = "Classification",
     .is_own = true,
     .metrics = BIT(ACCURACY) | BIT(F1) | BIT(MATTHEWS),
     .ranked_by = BIT(ACCURACY)},
    {.name = "Regression",
     .is_own = true,
     .head = MODEL_HEAD_REGRESSION,
     JUDGED(BIT(PEARSON) | BIT(SPEARMAN))},
    {.name = "MaskedLM", .is_own = true, .head = MODEL_HEAD_MASKED_LM, JUDGED(BIT(ACCURACY))},
    {.name = "Pretraining", .is_own = true, .head = MODEL_HEAD_PRETRAINING, JUDGED(BIT(ACCURACY))},
};

const char *const task_metric_names[] = {
    [TASK_ACCURACY] = "accuracy",  [TASK_F1] = "f1",
    [TASK_MATTHEWS] = "matthews",  [TASK_PEARSON] = "pearson",
    [TASK_SPEARMAN] = "spearman",  [TASK_NEXT_SENTENCE] = "nextSentenceAccuracy",
    [TASK_EVAL_LOSS] = "evalLoss", [TASK_METRICS] = NULL};

const char *const task_names[] = {"MNLI",       "QNLI",     "QQP",         "RTE",  "WNLI",
                                  "SST2",       "MRPC",     "CoLA",        "STSB", "Classification",
                                  "Regression", "MaskedLM", "Pretraining", NULL};

const struct task *task_find(const char *name)
{
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(tasks[i].name, name) == 0)
            return &tasks[i];
    return NULL;
}

bool task_is_ranked_by(const struct task *t, const char *metric)
{
    for (int k = 0; k < TASK_METRICS; k++)
        if (strcmp(task_metric_names[k], metric) == 0)
            return t->ranked_by & 1u << k;
    return false;
}

int task_metric_list(const struct task *task, enum task_metric out[static TASK_METRICS])
{
    const unsigned rounds[] = {task->ranked_by, task->metrics & ~task->ranked_by};
    int n = 0;

    for (size_t r = 0; r < 2; r++) {
        for (int k = 0; k < TASK_METRICS; k++) {
            if (rounds[r] & 1u << k)
                out[n++] = (enum task_metric)k;
        }
    }
    if (task->head == MODEL_HEAD_PRETRAINING)
        out[n++] = TASK_NEXT_SENTENCE;
    out[n++] = TASK_EVAL_LOSS;
    return n;
}
