/* data/layout.h - the files, columns and labels of a task.
 *
 * The tasks of GLUE are read from the TSV files of gluebenchmark.com, whose columns differ; a
 * user-defined task takes its files and columns from the spec. There is a training split, one or
 * two (MNLI) for evaluation and as many for prediction.
 * Layer: data. Threads: any; pure.
 */
#ifndef DATA_LAYOUT_H
#define DATA_LAYOUT_H

#include "api/spec.h"

#define LAYOUT_DEV_MAX    2 /* MNLI: matched and mismatched genres */
#define LAYOUT_SPLITS_MAX (1 + 2 * LAYOUT_DEV_MAX)

/* By name in the first line, or by number from 0 in a file that has no such line. */
struct layout_column {
    const char *name; /* NULL: by number */
    int number;       /* -1 with a NULL name: no such column */
};

/* One file of rows. */
struct layout_split {
    char file[SPEC_NAME_BYTES];
    const char *suffix;     /* of its metrics' names: "", "Mismatched" */
    const char *submission; /* file name of its predictions: "QNLI.tsv" */
    bool is_test;
    bool has_header;
    struct layout_column text;
    struct layout_column pair;
    struct layout_column label; /* a test split has none */
};

struct layout {
    const struct task *task;
    bool is_text; /* plain text, for a language model; not rows */
    /* QQP as published has rows broken by line ends and a few empty questions; like the usual
     * processors we skip the former and keep the latter. In a test set a broken row is an error, as
     * every row needs a prediction. */
    bool is_lenient;
    const char *no_label; /* rows with it are skipped: MNLI's "-". NULL: none */
    int n_labels;
    const char *labels[TASK_LABELS_MAX];
    struct layout_split train;
    int n_dev;
    struct layout_split dev[LAYOUT_DEV_MAX];
    int n_test;
    struct layout_split test[LAYOUT_DEV_MAX];
};

/* The layout of a job's data. Borrows names from `spec`, a valid one, which must outlive *out. */
void layout_init(struct layout *out, const struct spec *spec);

/* Does its file's name end in this? */
bool layout_ends_in(const struct layout_split *split, const char *ending);
#define LAYOUT_JSON ".jsonl" /* one JSON object per line */
#define LAYOUT_CSV  ".csv"   /* with quoted fields */

/* Returns `rc`. For ERR_NOT_FOUND, the most common error, it adds the remedy for `split`, one of
 * `l`, to the text of `err`. */
enum err_code layout_explain(const struct layout *l, const struct layout_split *split,
                             enum err_code rc, struct err *err);

#endif
