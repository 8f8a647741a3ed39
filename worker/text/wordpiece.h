/* text/wordpiece.h - text to token ids, as BERT does it.
 *
 * After google-research/bert tokenization.py. The text is cut into words: control characters are
 * dropped, every CJK ideograph stands on its own, white space separates, letters are lower-cased
 * and accents stripped (Unicode NFD, then category Mn dropped) unless `keep_case`, and every
 * punctuation mark is a word. Of a word WordPiece takes the longest piece that is in the
 * vocabulary, again and again ("##" marks a piece that does not begin a word). A word with a rest
 * that nothing matches, or of more than WORDPIECE_WORD_MAX characters, becomes one [UNK] (100
 * characters as in every Hugging Face tokenizer; tokenization.py has 200 today).
 *
 * That published algorithm is the reference, and all 10,000 golden lines equal it, because weights
 * were pre-trained with it and it follows Unicode. What transformers loads today, Hugging Face's
 * tokenizers, differs in 636 of those hostile lines uncased and 296 cased: it has older Unicode
 * tables, drops private use characters, lacks the ideographs U+2B820..2B91F and the final
 * sigma; of 190,721 real lines in many languages two differ, both Greek capitals.
 *
 * Special tokens written in the text ("[SEP]") are ordinary characters, as in the reference: data
 * cannot forge them.
 * The tokenizer only holds scratch memory, which grows with the longest text seen.
 * Layer: text. Threads: one per tokenizer; the vocabulary is only read.
 */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include "text/vocab.h"

#define WORDPIECE_TEXT_MAX_BYTES (1u << 20) /* of one text */
#define WORDPIECE_WORD_MAX       100        /* characters */

/* Words or tokens of one text after another; the caller owns it. With the first two fields set it
 * is ready for use. */
struct wordpiece {
    const struct vocab *vocab; /* borrowed; only tokens need it */
    bool keep_case;            /* a cased model: no lower case, accents stay */
    /* private: the folded text */
    int32_t *chars;
    size_t cap;
    size_t n;
    size_t at; /* where the next word is looked for */
};

/* Begin with a text; it is not needed afterwards.
 *
 * Returns ERR_INVALID for text that is not UTF-8 (with the byte's offset), ERR_LIMIT for more than
 * WORDPIECE_TEXT_MAX_BYTES, ERR_NO_MEMORY; then there are no words.
 */
MUST_CHECK enum err_code wordpiece_read(struct wordpiece *w, const char *text, size_t len,
                                        struct err *err);

/* The next word: *out_n > 0 code points, borrowed until the next wordpiece_read(). False at the
 * end. */
bool wordpiece_next(struct wordpiece *w, const int32_t **out_chars, size_t *out_n);

/* The caller owns it and frees `ids`. Zeroed is empty. */
struct token_list {
    int32_t *ids;
    size_t n;
    size_t cap;
};

/* Append the tokens of `text` to `out`. Errors of wordpiece_read(); then `out` is as before. */
MUST_CHECK enum err_code wordpiece_encode(struct wordpiece *w, const char *text, size_t len,
                                          struct token_list *out, struct err *err);

void wordpiece_deinit(struct wordpiece *w); /* a zeroed one is fine */

/* Append `n` tokens. ERR_NO_MEMORY. */
MUST_CHECK enum err_code token_list_add(struct token_list *t, const int32_t *ids, size_t n,
                                        struct err *err);
void token_list_deinit(struct token_list *t);

#endif
