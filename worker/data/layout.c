#include "data/layout.h"

#include <stdio.h>
#include <string.h>

/* What differs between the folders of the tasks. */
struct folder {
    const char *task;
    const char *text;
    const char *pair; /* NULL or "": one sentence per row */
    const char *label;
    const char *dev[LAYOUT_DEV_MAX];
    const char *test[LAYOUT_DEV_MAX];
    const char *submission[LAYOUT_DEV_MAX];
    const char *no_label;
    bool is_lenient;
    bool is_headless; /* files with labels have no header: source, label, author's mark, sentence */
};

#define ONE_DEV(name) .dev = {"dev.tsv"}, .test = {"test.tsv"}, .submission = {name}
#define SENTENCES     .text = "sentence1", .pair = "sentence2"

static const struct folder published[] = {
    {"MNLI", SENTENCES, .label = "gold_label", .dev = {"dev_matched.tsv", "dev_mismatched.tsv"},
     .test = {"test_matched.tsv", "test_mismatched.tsv"},
     .submission = {"MNLI-m.tsv", "MNLI-mm.tsv"}, .no_label = "-"},
    {"QNLI", "question", "sentence", "label", ONE_DEV("QNLI.tsv")},
    {"QQP", "question1", "question2", "is_duplicate", ONE_DEV("QQP.tsv"), .is_lenient = true},
    {"RTE", SENTENCES, .label = "label", ONE_DEV("RTE.tsv")},
    {"WNLI", SENTENCES, .label = "label", ONE_DEV("WNLI.tsv")},
    {"SST2", "sentence", NULL, "label", ONE_DEV("SST-2.tsv")},
    {"MRPC", "#1 String", "#2 String", "Quality", ONE_DEV("MRPC.tsv")},
    {"CoLA", "sentence", NULL, "label", ONE_DEV("CoLA.tsv"), .is_headless = true},
    {"STSB", SENTENCES, .label = "score", ONE_DEV("STS-B.tsv")},
};

static struct layout_column by_name(const char *name)
{
    return name && name[0] ? (struct layout_column){name, 0} : (struct layout_column){NULL, -1};
}

static struct layout_split make_split(const struct folder *f, const char *file, int i, bool is_test)
{
    struct layout_split s = {.suffix = i > 0 ? "Mismatched" : "",
                             .submission = f->submission[i],
                             .is_test = is_test,
                             .has_header = true,
                             .text = by_name(f->text),
                             .pair = by_name(f->pair),
                             .label = by_name(is_test ? NULL : f->label)};

    (void)snprintf(s.file, sizeof s.file, "%s", file);
    if (f->is_headless && !is_test && !layout_ends_in(&s, LAYOUT_JSON)) {
        s.has_header = false;
        s.label = (struct layout_column){NULL, 1};
        s.text = (struct layout_column){NULL, 3};
    }
    return s;
}

/* A file named in the spec replaces all of its kind. */
static int make_splits(const struct folder *f, const char *const *files, const char *named,
                       bool is_test, struct layout_split *out)
{
    int n = 0;

    for (; n < LAYOUT_DEV_MAX && files[n] && !(n > 0 && named[0]); n++)
        out[n] = make_split(f, named[0] ? named : files[n], n, is_test);
    return n;
}

void layout_init(struct layout *out, const struct spec *spec)
{
    const struct task *task = task_find(spec->data.task);
    bool is_text = task->head == MODEL_HEAD_MASKED_LM || task->head == MODEL_HEAD_PRETRAINING;
    /* Of a user-defined task, or plain text, which has no columns and nothing to predict. */
    const struct folder own = {.text = spec->data.columns.text,
                               .pair = spec->data.columns.pair,
                               .label = spec->data.columns.label,
                               .dev = {is_text ? "dev.txt" : "dev.tsv"},
                               .test = {is_text ? NULL : "test.tsv"},
                               .submission = {"predictions.tsv"}};
    const struct folder *f = &own;
    const char *train = spec->data.files.train;

    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++)
        if (strcmp(published[i].task, task->name) == 0)
            f = &published[i];
    if (!train[0])
        train = is_text ? "train.txt" : "train.tsv";
    *out = (struct layout){.task = task,
                           .is_text = is_text,
                           .is_lenient = f->is_lenient,
                           .no_label = f->no_label,
                           .train = make_split(f, train, 0, false)};
    out->n_dev = make_splits(f, f->dev, spec->data.files.dev, false, out->dev);
    out->n_test = make_splits(f, f->test, spec->data.files.test, true, out->test);
    if (task->head == MODEL_HEAD_CLASSIFIER)
        out->n_labels = task->is_own ? spec->data.labels.n : task->n_labels;
    for (int i = 0; i < out->n_labels; i++)
        out->labels[i] = task->is_own ? spec->data.labels.names[i] : task->labels[i];
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
