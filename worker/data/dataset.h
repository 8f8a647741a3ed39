/* data/dataset.h - one split of a task: an index over its file; sequences are made on demand.
 *
 * dataset_load() reads the file once, checks every row and keeps where it begins (8 bytes) and its
 * label (1 byte) or score (4): data may be larger than memory. dataset_get() makes the sequence
 * [CLS] a [SEP] b [SEP], or [CLS] a [SEP], of one row; the longer sentence loses tokens until the
 * sequence fits, see sequence_truncate().
 * Layer: data. Threads: one per data set; the vocabulary is only read.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "data/sequence.h"
#include "data/table.h"
#include "text/wordpiece.h"

#define DATASET_SAMPLES_MAX ((size_t)1 << 31)

struct dataset {
    size_t n_samples;
    size_t n_unlabelled; /* rows left out, see data/table.h */
    size_t n_broken;
    uint8_t *labels; /* [n_samples]; NULL for a regression */
    float *scores;   /* [n_samples]; NULL for a classification */
    /* private */
    struct sequence_params params;
    struct table *table;
    uint64_t *offsets; /* [n_samples] of the rows */
    struct wordpiece wordpiece;
    struct token_list a;
    struct token_list b;
};

/* Read folder/split->file. On ERR_OK the caller owns *out: dataset_deinit(). `split` is borrowed.
 *
 * ERR_NOT_FOUND: the file is not there (the text names it and what to add); it may come
 * later. ERR_INVALID: it is there and wrong (file, line, remedy), or has no row with a label.
 * Else ERR_LIMIT, ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code dataset_load(const struct sequence_params *p, const char *folder,
                                      const struct layout_split *split, struct dataset *out,
                                      struct err *err);

/* Sample i as a sequence; its ids are borrowed until the next call. Once the longest row was seen,
 * nothing is allocated for a TSV file. ERR_INVALID for a sample that there is not and for a file
 * that was changed, ERR_NO_MEMORY. */
MUST_CHECK enum err_code dataset_get(struct dataset *d, size_t i, struct sequence *out,
                                     struct err *err);

void dataset_deinit(struct dataset *d); /* a zeroed one is fine */

#endif
