/* data/corpus.h - plain text for a language model: one sentence per line, an empty line between
 * documents.
 *
 * corpus_load() reads the text once and groups sentences of a document that follow one another into
 * chunks of at most max_length - 3 tokens; it keeps 16 bytes per chunk. A longer sentence is a
 * chunk by itself and is cut. A sample is a chunk in an epoch: corpus_get() tokenises it again,
 * masks it, and for pairs makes two of it, all as a function of (seed, epoch, chunk).
 *
 * Pairs as in google-research/bert's create_pretraining_data.py: the chunk is cut behind one of its
 * sentences; in half of the cases, and always when it is one sentence, what follows is taken from
 * another document (label 1, else 0), from a random sentence of a random chunk to its end. Other
 * than there no chunk is made short on purpose, and chunks rather than documents are equally
 * likely. Layer: data. Threads: one per corpus; the vocabulary is only read.
 */
#ifndef DATA_CORPUS_H
#define DATA_CORPUS_H

#include "data/layout.h"
#include "data/mask.h"
#include "data/sequence.h"
#include "text/lines.h"

struct corpus_chunk {
    uint64_t offset; /* of its first line */
    uint32_t n_lines;
    uint32_t document;
};

struct corpus {
    size_t n_samples; /* chunks */
    size_t n_documents;
    size_t n_cut; /* sentences longer than a chunk */
    /* private */
    struct sequence_params params;
    bool has_pairs;
    struct mask mask;
    struct lines *lines;
    struct corpus_chunk *chunks; /* [n_samples] */
    size_t *firsts;              /* [n_documents + 1] first chunk of each */
    struct wordpiece wordpiece;
    struct token_list a, b;
    size_t *ends;               /* [lines of the longest chunk] tokens up to each sentence's end */
    int32_t *rows, *target_ids; /* [max_length] */
};

/* Read folder/split->file. On ERR_OK the caller owns *out: corpus_deinit().
 *
 * ERR_NOT_FOUND as dataset_load(); ERR_INVALID: a line that is too long or not UTF-8, no words at
 * all, for pairs fewer than two documents, no [MASK] in the vocabulary. Else ERR_LIMIT, ERR_DENIED,
 * ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code corpus_load(const struct sequence_params *p, const char *folder,
                                     const struct layout_split *split, struct corpus *out,
                                     struct err *err);

/* Chunk i as it is in `epoch`; borrowed until the next call. ERR_INVALID for a chunk that there is
 * not and for a file that was changed, ERR_NO_MEMORY. */
MUST_CHECK enum err_code corpus_get(struct corpus *c, size_t i, uint64_t epoch,
                                    struct sequence *out, struct err *err);

void corpus_deinit(struct corpus *c); /* a zeroed one is fine */

#endif
