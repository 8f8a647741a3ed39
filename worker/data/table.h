/* data/table.h - the rows of one split: TSV as GLUE publishes it, CSV, or JSON objects, one per
 * line.
 *
 * In a TSV file the first line names the columns (data/layout.h lists those that have none), and
 * columns are found by name; other columns are ignored. Tabs separate, nothing quotes.
 * A file that ends in .csv is CSV as RFC 4180 has it: commas separate, and a field in quotes may
 * hold commas, line ends and, doubled, quotes. In one that ends in .jsonl every line is an object
 * with the columns as members: texts are strings, a label is a string or a whole number, a score a
 * number. A pass over the file checks every row; afterwards a row can be read again by its offset.
 * Layer: data. Threads: one.
 */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H

#include "data/layout.h"

#define TABLE_COLUMNS_MAX 64

/* One row; the texts are borrowed until the next call, valid UTF-8, not NUL-terminated. */
struct table_row {
    const char *text;
    size_t text_bytes;
    const char *pair; /* NULL: one sentence per row */
    size_t pair_bytes;
    int label;       /* of a classification; 0 in a test split */
    float score;     /* of a regression; 0 in a test split */
    uint64_t offset; /* in the file */
};

struct table; /* on the heap; all fields private */

/* Open a split and read its header. On ERR_OK the caller owns *out: table_close(). `layout` and
 * `split` are borrowed for as long.
 *
 * Every error text names the file, the line where there is one, and the remedy:
 * ERR_NOT_FOUND no such file; ERR_INVALID it is empty or a column is missing; ERR_IO, ERR_DENIED,
 * ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code table_open(const char *path, const struct layout *layout,
                                    const struct layout_split *split, struct table **out,
                                    struct err *err);

/* The next row that has a label.
 *
 * Returns ERR_OK with *out set, or with *out_end true and *out untouched after the last row.
 * ERR_INVALID: an unknown label, a row with more or fewer columns than the header, an empty
 * sentence, an empty line that is not the last, a line that is not UTF-8 or longer than
 * LINES_MAX_BYTES. After an error only table_close() is allowed.
 */
MUST_CHECK enum err_code table_next(struct table *t, struct table_row *out, bool *out_end,
                                    struct err *err);

/* The texts of the row at `offset`, which table_next() gave; the rest of *out is 0. TSV allocates
 * nothing, CSV nothing once the longest row was seen. ERR_INVALID when it is no longer a row: the
 * file was changed. */
MUST_CHECK enum err_code table_at(struct table *t, uint64_t offset, struct table_row *out,
                                  struct err *err);

/* See lines_thin(); before the first row. Of a CSV file the beginning is taken. */
void table_thin(struct table *t, size_t most_bytes);

/* The pass is over: from now on only table_at() is called. */
void table_settle(const struct table *t);

/* Rows skipped so far: without a label (MNLI's "-"), and broken ones (QQP). */
int64_t table_unlabelled(const struct table *t);
int64_t table_broken(const struct table *t);

void table_close(struct table *t); /* NULL is fine */

#endif
