/* data/layout.h - where a task keeps its rows: files, columns, labels.
 *
 * The tasks of GLUE lie in the TSV files of gluebenchmark.com, each with columns of its own; a task
 * of one's own takes them from the spec. Here is the one table of them. Splits are numbered: the
 * training set, then what is evaluated (dev, and MNLI's second dev), then what is predicted.
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
    int number;       /* -1 with a NULL name: there is no such column */
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
    /* QQP as published has rows broken by line ends and a few empty questions; the usual
     * processors leave the former out and keep the latter, and so do we. In a test set a broken
     * row is an error, as every row wants its prediction. */
    bool is_lenient;
    const char *no_label; /* rows with it are left out: MNLI's "-". NULL: none */
    int n_labels;
    const char *labels[TASK_LABELS_MAX];
    struct layout_split train;
    int n_dev;
    struct layout_split dev[LAYOUT_DEV_MAX];
    int n_test;
    struct layout_split test[LAYOUT_DEV_MAX];
};

/* Where the job's data is. Borrows names from `spec`, which must outlive *out. The task of a spec
 * that spec_parse() took is there; one of a language model has no columns. */
void layout_init(struct layout *out, const struct spec *spec);

/* Is it made of JSON objects, one per line? */
bool layout_is_json(const struct layout_split *split);

/* Is it CSV, with quoted fields? */
bool layout_is_csv(const struct layout_split *split);

/* Returns `rc`. A missing file is the error that people meet most: for ERR_NOT_FOUND `err` also
 * has the remedy for `split`, one of `l`. */
enum err_code layout_explain(const struct layout *l, const struct layout_split *split,
                             enum err_code rc, struct err *err);

#endif
