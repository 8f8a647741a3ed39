/* import/word_counts.h - the words of a corpus and how often each occurs.
 *
 * What a vocabulary is built from. The corpus is streamed and may be of any size: when there are
 * more than `words_max` different words, the rarer half is dropped and counted from zero when it
 * comes up again; in so large a corpus such words do not become tokens anyway. Characters are never
 * dropped, so every word can be spelled. Words of more than
 * WORDPIECE_WORD_MAX characters do not count: they are [UNK] whatever the vocabulary.
 * Layer: import. Threads: one.
 */
#ifndef IMPORT_WORD_COUNTS_H
#define IMPORT_WORD_COUNTS_H

#include "base/map.h"
#include "text/wordpiece.h"

#define WORD_COUNTS_CODE_POINTS 0x110000
#define WORD_COUNTS_FIRST       1u         /* it begins one ... */
#define WORD_COUNTS_REST        2u         /* ... or continues one */
#define WORD_COUNTS_WORDS_MAX   (1u << 21) /* up to 250 MiB */

struct word_counts {
    struct map words;  /* to how often each occurs, its value.number */
    uint64_t n_seen;   /* words of the corpus */
    uint64_t n_pruned; /* times that the rarer half was dropped */
    uint8_t *places;   /* [WORD_COUNTS_CODE_POINTS] of each character: where it stands in words */
    /* private */
    size_t words_max;
    size_t text_bytes; /* of all words */
    struct words reader;
};

/* `words_max` is WORD_COUNTS_WORDS_MAX, or less in tests, but at least 32. On ERR_OK the caller
 * calls word_counts_deinit(); otherwise ERR_NO_MEMORY. */
MUST_CHECK enum err_code word_counts_init(struct word_counts *c, bool keep_case, size_t words_max,
                                          struct err *err);

/* Count the words of a text: errors as of words_read(). */
MUST_CHECK enum err_code word_counts_add(struct word_counts *c, const char *text, size_t len,
                                         struct err *err);
/* Count the words of a file's lines: errors as of lines_open() and lines_next(). */
MUST_CHECK enum err_code word_counts_add_file(struct word_counts *c, const char *path,
                                              struct err *err);

void word_counts_deinit(struct word_counts *c);

#endif
