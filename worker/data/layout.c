#include "data/layout.h"

#include <stdio.h>
#include <string.h>

/* What differs between the published folders. */
struct published {
    const char *task;
    const char *text;
    const char *pair; /* NULL: one sentence a row */
    const char *label;
    const char *dev[LAYOUT_DEV_MAX];
    const char *test[LAYOUT_DEV_MAX];
    const char *submission[LAYOUT_DEV_MAX];
    const char *no_label;
    bool is_lenient;
};

#define ONE_DEV(name) .dev = {"dev.tsv"}, .test = {"test.tsv"}, .submission = {name}

static const struct published published[] = {
    {.task = "MNLI",
     .text = "sentence1",
     .pair = "sentence2",
     .label = "gold_label",
     .dev = {"dev_matched.tsv", "dev_mismatched.tsv"},
     .test = {"test_matched.tsv", "test_mismatched.tsv"},
     .submission = {"MNLI-m.tsv", "MNLI-mm.tsv"},
     .no_label = "-"},
    {.task = "QNLI", .text = "question", .pair = "sentence", .label = "label", ONE_DEV("QNLI.tsv")},
    {.task = "QQP",
     .text = "question1",
     .pair = "question2",
     .label = "is_duplicate",
     ONE_DEV("QQP.tsv"),
     .is_lenient = true},
    {.task = "RTE", .text = "sentence1", .pair = "sentence2", .label = "label", ONE_DEV("RTE.tsv")},
    {.task = "WNLI",
     .text = "sentence1",
     .pair = "sentence2",
     .label = "label",
     ONE_DEV("WNLI.tsv")},
    {.task = "SST2", .text = "sentence", .label = "label", ONE_DEV("SST-2.tsv")},
    {.task = "MRPC",
     .text = "#1 String",
     .pair = "#2 String",
     .label = "Quality",
     ONE_DEV("MRPC.tsv")},
    {.task = "CoLA", .text = "sentence", .label = "label", ONE_DEV("CoLA.tsv")},
    {.task = "STSB",
     .text = "sentence1",
     .pair = "sentence2",
     .label = "score",
     ONE_DEV("STS-B.tsv")},
};

static const struct layout_column no_column = {NULL, -1};

static const struct published *find(const char *task)
{
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        if (strcmp(published[i].task, task) == 0)
            return &published[i];
    return NULL;
}

static struct layout_column by_name(const char *name)
{
    return name && name[0] ? (struct layout_column){name, 0} : no_column;
}

static struct layout_split make_split(const char *file, const struct published *p, bool is_test)
{
    struct layout_split s = {.suffix = "",
                             .submission = "predictions.tsv",
                             .is_test = is_test,
                             .has_header = true,
                             .text = by_name(p->text),
                             .pair = by_name(p->pair),
                             .label = is_test ? no_column : by_name(p->label)};

    (void)snprintf(s.file, sizeof s.file, "%s", file);
    return s;
}

/* CoLA's files with labels have no header: source, label, the author's mark, sentence. */
static void lose_header(struct layout_split *s)
{
    if (layout_ends_in(s, LAYOUT_JSON))
        return;
    s->has_header = false;
    s->label = (struct layout_column){NULL, 1};
    s->text = (struct layout_column){NULL, 3};
}

static void fill_published(struct layout *l, const struct published *p)
{
    l->is_lenient = p->is_lenient;
    l->no_label = p->no_label;
    l->train = make_split("train.tsv", p, false);
    for (int i = 0; i < LAYOUT_DEV_MAX && p->dev[i]; i++) {
        l->dev[l->n_dev++] = make_split(p->dev[i], p, false);
        l->test[l->n_test++] = make_split(p->test[i], p, true);
        l->test[i].submission = p->submission[i];
    }
    if (l->n_dev > 1)
        l->dev[1].suffix = l->test[1].suffix = "Mismatched";
}

/* A user-defined task, or plain text, which has no columns. */
static void fill_own(struct layout *l, const struct spec *spec)
{
    bool is_text = l->task->head == MODEL_HEAD_MASKED_LM || l->task->head == MODEL_HEAD_PRETRAINING;
    const struct published p = {.text = spec->data.columns.text,
                                .pair = spec->data.columns.pair,
                                .label = spec->data.columns.label};

    l->train = make_split(is_text ? "train.txt" : "train.tsv", &p, false);
    l->dev[0] = make_split(is_text ? "dev.txt" : "dev.tsv", &p, false);
    l->n_dev = 1;
    l->test[0] = make_split("test.tsv", &p, true);
    l->n_test = is_text ? 0 : 1; /* a language model has nothing to predict */
}

/* A file named in the spec replaces all of its kind. */
static void rename_file(struct layout_split *splits, int *n, const char *name)
{
    if (!name[0] || *n == 0)
        return;
    (void)snprintf(splits[0].file, sizeof splits[0].file, "%s", name);
    *n = 1;
}

void layout_init(struct layout *out, const struct spec *spec)
{
    const struct task *task = task_find(spec->data.task);
    const struct published *p = find(spec->data.task);
    int one = 1;

    *out = (struct layout){.task = task};
    if (p)
        fill_published(out, p);
    else
        fill_own(out, spec);
    if (task->head == MODEL_HEAD_CLASSIFIER)
        out->n_labels = task->is_own ? spec->data.labels.n : task->n_labels;
    for (int i = 0; i < out->n_labels; i++)
        out->labels[i] = task->is_own ? spec->data.labels.names[i] : task->labels[i];
    rename_file(&out->train, &one, spec->data.files.train);
    rename_file(out->dev, &out->n_dev, spec->data.files.dev);
    rename_file(out->test, &out->n_test, spec->data.files.test);
    if (strcmp(task->name, "CoLA") == 0) {
        lose_header(&out->train);
        lose_header(&out->dev[0]);
    }
}

bool layout_ends_in(const struct layout_split *split, const char *ending)
{
    const char *end = strrchr(split->file, '.');

    return end && strcmp(end, ending) == 0;
}

enum err_code layout_explain(const struct layout *l, const struct layout_split *split,
                             enum err_code rc, struct err *err)
{
    struct err cause;

    if (rc != ERR_NOT_FOUND || !err)
        return rc;
    cause = *err;
    if (split == &l->train)
        return err_set(err, rc,
                       "%s; for %s the data folder must contain %s: add it, or set "
                       "spec.data.files.train to the file's name",
                       cause.text, l->task->name, split->file);
    return err_set(err, rc, "%s; add it to the data folder, or correct spec.data.files.%s",
                   cause.text, split->is_test ? "test" : "dev");
}
