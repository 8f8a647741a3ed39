/* data/source.h - the samples of one split, made on demand: rows with labels, or plain text.
 *
 * source_load() reads the file once and checks it; data may be larger than memory.
 *
 * Rows (data/table.h): a sample is a row. Kept are its offset (8 bytes) and its label (1 byte) or
 * score (4).
 *
 * Plain text, for a language model: one sentence per line, an empty line between documents.
 * Consecutive sentences of a document form chunks of at most max_length - 3 tokens, and 16 bytes
 * per chunk are kept; a longer sentence is a chunk by itself and is cut. A sample is a chunk in an
 * epoch: tokenised again, masked (data/mask.h) and, for next-sentence prediction, made into a pair,
 * all as a function of (seed, epoch, chunk).
 *
 * Pairs as in google-research/bert's create_pretraining_data.py: the chunk is split after one of
 * its sentences; half of the time, and always when it is one sentence, the second part is taken
 * from another document (label 1, else 0), from a random sentence of a random chunk to its end.
 * Unlike there, no chunk is made short on purpose, and chunks rather than documents are equally
 * likely.
 * Layer: data. Threads: one per source; the vocabulary is only read.
 */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "data/batch.h"
#include "data/layout.h"
#include "data/mask.h"
#include "data/table.h"
#include "text/lines.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

#define SOURCE_SAMPLES_MAX ((size_t)1 << 31)

/* How a split becomes sequences. What it points to must outlive the source. */
struct source_params {
    const struct layout *layout;
    const struct tokenizer *tokenizer;
    int max_length;          /* tokens of a sequence, 8..8192 */
    size_t most_bytes;       /* read about this much, from all over the file; 0: all */
    double mask_probability; /* of a language model, like the seed */
    uint64_t seed;
    const atomic_bool *stops; /* see struct lines; for source_load() only */
};

struct source_chunk {
    uint64_t offset; /* of its first line */
    uint32_t n_lines;
    uint32_t document;
};

struct source {
    size_t n_samples;
    size_t n_unlabelled, n_broken; /* rows left out */
    size_t n_documents;            /* of plain text */
    size_t n_cut;                  /* its sentences longer than a chunk */
    /* private */
    struct source_params params;
    bool has_pairs;
    struct wordpiece wordpiece;
    struct token_list a, b;
    /* of rows */
    struct table *table;
    uint64_t *offsets; /* [n_samples] */
    uint8_t *labels;   /* [n_samples] of a classification */
    float *scores;     /* [n_samples] of a regression */
    /* of plain text */
    struct lines lines;
    struct mask mask;
    struct source_chunk *chunks; /* [n_samples] */
    size_t *firsts;              /* [n_documents + 1] first chunk of each */
    size_t *ends;                /* [lines of the longest chunk] tokens up to each sentence's end */
    int32_t *rows, *target_ids;  /* [max_length] */
};

/* Read folder/split->file. On ERR_OK the caller owns *out: source_deinit(). `split` is borrowed.
 *
 * ERR_NOT_FOUND: the file is not there (the text names it and what to add); it may come later.
 * ERR_INVALID with file, line and remedy: the file is wrong or has no samples; next-sentence
 * prediction needs two documents, and a language model needs [MASK] in its vocabulary. Else
 * ERR_GONE (stopped), ERR_LIMIT, ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code source_load(const struct source_params *p, const char *folder,
                                     const struct layout_split *split, struct source *out,
                                     struct err *err);

/* Sample i of `epoch`, [CLS] a [SEP] b [SEP] or [CLS] a [SEP]; borrowed until the next call. What
 * is too long is cut as Hugging Face's tokenizers do ("longest_first"): the longer sentence loses
 * tokens first; when both are cut and the room is odd, the one that was longer keeps the odd token,
 * the second if they were equally long (google-research/bert leaves it to the first).
 *
 * ERR_INVALID when there is no such sample or the file was changed, ERR_NO_MEMORY. Once the longest
 * row was seen, a TSV file costs no allocation. */
MUST_CHECK enum err_code source_get(struct source *s, size_t i, uint64_t epoch,
                                    struct sequence *out, struct err *err);

void source_deinit(struct source *s); /* a zeroed one is fine */

#endif
