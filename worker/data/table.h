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
#include "text/lines.h"

#define TABLE_CELLS_MAX 64 /* of a row */

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

enum table_column { TABLE_TEXT, TABLE_PAIR, TABLE_LABEL, TABLE_COLUMNS };

struct table {
    int64_t n_unlabelled; /* rows skipped so far: without a label (MNLI's "-") ... */
    int64_t n_broken;     /* ... and broken ones (QQP) */
    struct lines lines;   /* lines_settle() after the pass, when only table_at() is called */
    /* private */
    const struct layout *layout;
    const struct layout_split *split;
    struct layout_column columns[TABLE_COLUMNS]; /* of the split, to walk over */
    bool is_json;
    bool is_csv;
    bool skips_broken; /* rows that were broken by line ends or tabs */
    uint64_t end;      /* of a thinned CSV file: rows from here on are left out; 0: none */
    char *unquoted;    /* fields of a CSV row without their quotes */
    size_t unquoted_cap;
    int n_columns;             /* of every row; 0: not known yet */
    int places[TABLE_COLUMNS]; /* where each column is; -1: nowhere */
    struct json *object;       /* of the last row */
    char number[24];           /* a label that is a number in JSON, as text */
};

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

void table_close(struct table *t); /* NULL is fine */

#endif
