/* import/vocab_build.h - a WordPiece vocabulary from the words of a corpus.
 *
 * First the words are counted. The corpus is streamed and may be of any size: when there are
 * more than `words_max` different words, the rarer half is dropped and counted from zero when it
 * comes up again; in so large a corpus such words do not become tokens anyway. Characters are never
 * dropped, so every word can be spelled. Words of more than WORDPIECE_WORD_MAX characters do not
 * count: they are [UNK] whatever the vocabulary.
 *
 * The special tokens [PAD], [UNK], [CLS], [SEP], [MASK] come first (ids 0 to 4), then the alphabet
 * (characters that begin a word, then "##" and those that go on with one, each in code point
 * order), so that every word of the corpus can be spelled; then byte pair encoding as Hugging
 * Face's WordPieceTrainer does it: the most frequent pair of neighbours becomes a token, again and
 * again. Equally frequent pairs come in the order of their tokens' ids: the result depends on the
 * words' counts only, not on the order of the lines. Layer: import. Threads: one.
 */
#ifndef IMPORT_VOCAB_BUILD_H
#define IMPORT_VOCAB_BUILD_H

#include "base/buf.h"
#include "base/map.h"
#include "text/wordpiece.h"

#define VOCAB_BUILD_SPECIALS    5
#define VOCAB_BUILD_COUNT_MIN   2 /* of a pair that becomes a token */
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
    struct wordpiece reader;
};

/* `words_max` is WORD_COUNTS_WORDS_MAX, or less in tests, but at least 32. On ERR_OK the caller
 * calls word_counts_deinit(); otherwise ERR_NO_MEMORY. */
MUST_CHECK enum err_code word_counts_init(struct word_counts *c, bool keep_case, size_t words_max,
                                          struct err *err);

/* Count the words of a text: errors as of wordpiece_read(). */
MUST_CHECK enum err_code word_counts_add(struct word_counts *c, const char *text, size_t len,
                                         struct err *err);
/* Count the words of a file's lines: errors as of lines_open() and lines_next(). */
MUST_CHECK enum err_code word_counts_add_file(struct word_counts *c, const char *path,
                                              struct err *err);

void word_counts_deinit(struct word_counts *c);

/* Append the vocabulary's text, vocab.txt, of `n_tokens` tokens or fewer: *out_n_tokens, when no
 * pair occurs VOCAB_BUILD_COUNT_MIN times any more.
 *
 * Returns ERR_INVALID for a corpus without words and for too few tokens, with what to do; ERR_LIMIT
 * above VOCAB_TOKENS_MAX or what `out` may hold; ERR_NO_MEMORY. Then `out` is not a vocabulary.
 */
MUST_CHECK enum err_code vocab_build(const struct word_counts *counts, int n_tokens,
                                     struct buf *out, int *out_n_tokens, struct err *err);

#endif
