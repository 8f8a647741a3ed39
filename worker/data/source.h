/* data/source.h - the samples of one split, from rows with labels or from plain text.
 *
 * Layer: data. Threads: one a source.
 */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "data/corpus.h"
#include "data/dataset.h"

struct source {
    size_t n_samples;
    struct dataset rows; /* zeroed when it is plain text */
    struct corpus text;  /* zeroed when it is not */
};

/* The tokenizer of a job: that of the model it starts from, else the one beside its data. Errors of
 * tokenizer_load(). On ERR_OK the caller owns *out: tokenizer_deinit(). */
MUST_CHECK enum err_code source_load_tokenizer(const struct spec *spec, const char *folder,
                                               const char *model_folder, struct tokenizer *out,
                                               struct err *err);

/* Errors of dataset_load() and corpus_load(). On ERR_OK the caller owns *out: source_deinit(). */
MUST_CHECK enum err_code source_load(const struct sequence_params *p, const char *folder,
                                     const struct layout_split *split, struct source *out,
                                     struct err *err);

/* Sample i; what is masked, and which sentences are a pair, depends on `epoch` too. Borrowed until
 * the next call. Errors of dataset_get() and corpus_get(). */
MUST_CHECK enum err_code source_get(struct source *s, size_t i, uint64_t epoch,
                                    struct sequence *out, struct err *err);

void source_deinit(struct source *s); /* a zeroed one is fine */

#endif
