/* data/tsv.h - the rows of a GLUE file: MNLI as it is published.
 *
 * The first line names the columns, and columns are found by name: sentence1, sentence2 and
 * gold_label here; what else there is does not matter. Tabs separate, nothing quotes. Rows whose
 * gold_label is "-" (the annotators did not agree) are left out and counted. Lines are read one at
 * a time, so a file may be larger than memory.
 *
 * Labels are numbered contradiction 0, entailment 1, neutral 2: the order of MnliProcessor in
 * google-research/bert and in transformers' GLUE processors. (The `glue` data set on the Hugging
 * Face hub numbers them differently; its numbers never appear in a TSV file.)
 * Layer: data (may use base). Threads: one.
 */
#ifndef DATA_TSV_H
#define DATA_TSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TSV_COLUMNS_MAX 64
#define TSV_LABELS      3

/* One row; the texts are borrowed until the next call, valid UTF-8, not NUL-terminated. */
struct tsv_row {
    const char *text_a;
    size_t text_a_bytes;
    const char *text_b;
    size_t text_b_bytes;
    int label;
    int64_t line; /* in the file, from 1 */
};

struct tsv; /* on the heap; all fields private */

/* Open a file and read its header. On ERR_OK the caller owns *out: tsv_close().
 *
 * Every error text names the file, and the line where there is one, and says what to do:
 * ERR_NOT_FOUND no such file; ERR_INVALID it is empty, a column is missing, or the header is not a
 * header; ERR_IO, ERR_DENIED, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code tsv_open(const char *path, struct tsv **out, struct err *err);

/* The next row that has a label.
 *
 * Returns ERR_OK with *out set, or with *out_end true and *out untouched after the last row.
 * ERR_INVALID: an unknown label, a row with more or fewer columns than the header, an empty
 * sentence, a line that is not UTF-8 or longer than LINES_MAX_BYTES. After an error only
 * tsv_close() is allowed.
 */
MUST_CHECK enum err_code tsv_next(struct tsv *t, struct tsv_row *out, bool *out_end,
                                  struct err *err);

/* Rows left out so far because their label is "-". */
int64_t tsv_skipped(const struct tsv *t);

void tsv_close(struct tsv *t); /* NULL is fine */

/* "contradiction", "entailment", "neutral". */
const char *tsv_label_name(int label);

#endif
