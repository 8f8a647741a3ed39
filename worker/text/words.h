/* text/words.h - text to words, as BERT does it before WordPiece.
 *
 * After google-research/bert tokenization.py: control characters are dropped, every CJK ideograph
 * stands on its own, white space separates, letters are lower-cased and accents stripped (Unicode
 * NFD, then category Mn dropped) unless `keep_case`, and every punctuation mark is a word.
 * Holds scratch memory only, which grows with the longest text seen.
 * Layer: text. Threads: one.
 */
#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WORDS_TEXT_MAX_BYTES (1u << 20) /* of one text */

struct words {
    bool keep_case; /* a cased model: no lower case, accents stay */
    /* private: the folded text */
    int32_t *chars;
    size_t cap;
    size_t n;
    size_t at; /* where the next word is looked for */
};

/* Nothing to allocate yet. The caller calls words_deinit(). */
void words_init(struct words *w, bool keep_case);

/* Begin with a text; it is not needed afterwards.
 *
 * Returns ERR_INVALID for text that is not UTF-8 (with the byte's offset), ERR_LIMIT for more than
 * WORDS_TEXT_MAX_BYTES, ERR_NO_MEMORY; then there are no words.
 */
MUST_CHECK enum err_code words_read(struct words *w, const char *text, size_t len, struct err *err);

/* The next word: *out_n > 0 code points, borrowed until the next words_read(). False at the end. */
bool words_next(struct words *w, const int32_t **out_chars, size_t *out_n);

void words_deinit(struct words *w);

#endif
