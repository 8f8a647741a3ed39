/* import/vocab_build.h - a WordPiece vocabulary from the words of a corpus.
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
#include "import/word_counts.h"

#define VOCAB_BUILD_SPECIALS  5
#define VOCAB_BUILD_COUNT_MIN 2 /* of a pair that becomes a token */

/* Append the vocabulary's text, vocab.txt, of `n_tokens` tokens or fewer: *out_n_tokens, when no
 * pair occurs VOCAB_BUILD_COUNT_MIN times any more.
 *
 * Returns ERR_INVALID for a corpus without words and for too few tokens, with what to do; ERR_LIMIT
 * above VOCAB_TOKENS_MAX or what `out` may hold; ERR_NO_MEMORY. Then `out` is not a vocabulary.
 */
MUST_CHECK enum err_code vocab_build(const struct word_counts *counts, int n_tokens,
                                     struct buf *out, int *out_n_tokens, struct err *err);

#endif
