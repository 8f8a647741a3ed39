/* data/dataset.h - one split of a task, tokenised and in memory.
 *
 * A folder holds vocab.txt, train.tsv and dev_matched.tsv. Every row becomes one sequence
 * [CLS] a [SEP] b [SEP]; the longer sentence loses its last token until the sequence fits, as BERT
 * does it. All sequences lie end to end in one array of ids: 4 bytes a token, about 16 MB for each
 * 100,000 pairs of MNLI.
 * Layer: data (may use base). Threads: any, once loaded.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "data/vocab.h"

#define DATASET_LENGTH_MIN  8 /* tokens: [CLS] a [SEP] b [SEP] and a little to say */
#define DATASET_LENGTH_MAX  8192
#define DATASET_SAMPLES_MAX ((size_t)1 << 28)
#define DATASET_LABELS      3

#define DATASET_VOCAB_FILE "vocab.txt"
#define DATASET_TRAIN_FILE "train.tsv"
#define DATASET_DEV_FILE   "dev_matched.tsv"

struct dataset {
    size_t n_samples;
    int32_t *ids;       /* [starts[n_samples]] */
    uint64_t *starts;   /* [n_samples + 1]: sample i is ids[starts[i]] .. ids[starts[i + 1] - 1] */
    uint16_t *second;   /* [n_samples]: tokens of type 0 in the sample; the rest is of type 1 */
    uint8_t *labels;    /* [n_samples], see data/tsv.h */
    size_t n_skipped;   /* rows without a label */
    size_t n_truncated; /* samples that lost tokens */
    int length_max;     /* of the longest sample, in tokens */
};

struct dataset_params {
    const struct vocab *vocab; /* borrowed during the call */
    int max_length;            /* tokens, DATASET_LENGTH_MIN..DATASET_LENGTH_MAX */
    bool keep_case;
};

/* folder/vocab.txt. Like vocab_load(); ERR_NOT_FOUND says what the folder should hold. */
MUST_CHECK enum err_code dataset_vocab(const char *folder, struct vocab *out, struct err *err);

/* Read folder/file. On ERR_OK the caller owns *out: dataset_deinit().
 *
 * ERR_NOT_FOUND: the file is not there (the text names it and says what to add); it may come
 * later. ERR_INVALID: it is there and wrong (file, line, remedy), or has no row with a label.
 * Else ERR_LIMIT, ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code dataset_load(const struct dataset_params *p, const char *folder,
                                      const char *file, struct dataset *out, struct err *err);

/* Tokens of sample i. */
int dataset_length(const struct dataset *d, size_t i);

void dataset_deinit(struct dataset *d);

#endif
