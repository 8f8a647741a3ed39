#include "api/task.h"

#include <string.h>

/* Ids in the order of google-research/bert's and transformers' processors for the TSV files. */
static const char *const inference[] = {"contradiction", "entailment", "neutral"};
static const char *const entailment[] = {"entailment", "not_entailment"};
static const char *const binary[] = {"0", "1"};

#define LABELS(list) .n_labels = (int)(sizeof(list) / sizeof(list)[0]), .labels = (list)

static const struct task tasks[] = {
    {.name = "MNLI", .metrics = TASK_ACCURACY, LABELS(inference)},
    {.name = "QNLI", .metrics = TASK_ACCURACY, LABELS(entailment)},
    {.name = "QQP", .metrics = TASK_ACCURACY | TASK_F1, LABELS(binary)},
    {.name = "RTE", .metrics = TASK_ACCURACY, LABELS(entailment)},
    {.name = "WNLI", .metrics = TASK_ACCURACY, LABELS(binary)},
    {.name = "SST2", .metrics = TASK_ACCURACY, LABELS(binary)},
    {.name = "MRPC", .metrics = TASK_ACCURACY | TASK_F1, LABELS(binary)},
    {.name = "CoLA", .metrics = TASK_MATTHEWS | TASK_ACCURACY, LABELS(binary)},
    {.name = "STSB", .head = MODEL_HEAD_REGRESSION, .metrics = TASK_PEARSON | TASK_SPEARMAN},
    {.name = "Classification", .is_own = true, .metrics = TASK_ACCURACY | TASK_F1 | TASK_MATTHEWS},
    {.name = "Regression",
     .is_own = true,
     .head = MODEL_HEAD_REGRESSION,
     .metrics = TASK_PEARSON | TASK_SPEARMAN},
    {.name = "MaskedLM", .is_own = true, .head = MODEL_HEAD_MASKED_LM, .metrics = TASK_ACCURACY},
    {.name = "Pretraining",
     .is_own = true,
     .head = MODEL_HEAD_PRETRAINING,
     .metrics = TASK_ACCURACY},
};

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
