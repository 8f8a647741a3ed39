/* text/chars.h - the properties of characters (Unicode code points) that BERT's tokenizer needs.
 *
 * The tables behind it are utf8proc's. Layer: text. Threads: any; everything here is pure.
 */
#ifndef TEXT_CHARS_H
#define TEXT_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHARS_BYTES_MAX 4 /* of a character in UTF-8 */
#define CHARS_PARTS_MAX 8 /* a canonical decomposition has at most 4 code points */

/* Separates words: also the line and paragraph separators, as Python's str.split() has it. */
bool chars_is_whitespace(int32_t c);
/* Is dropped: categories Cc and Cf, U+0000 and the replacement character. Not tab or line end. */
bool chars_is_control(int32_t c);
/* Is a word by itself: category P, and all ASCII that is neither letter, digit nor space. */
bool chars_is_punctuation(int32_t c);
/* Is an ideograph, a word by itself. Not kana or hangul: they are written with spaces. */
bool chars_is_cjk(int32_t c);
/* Is an accent that lower-casing strips: category Mn. */
bool chars_is_accent(int32_t c);

/* The character at text[0], len > 0. Returns its length, 0 when it is not UTF-8. */
size_t chars_decode(const char *text, size_t len, int32_t *out);
/* Returns the bytes written, at most CHARS_BYTES_MAX. */
size_t chars_encode(int32_t c, char *out);
/* Offset of the first byte that is not UTF-8; `len` if there is none. */
size_t chars_check(const char *text, size_t len);

/* Lower case, then the canonical decomposition. Returns the number of code points.
 *
 * The text around it matters for one letter only: a capital sigma at the end of a word becomes a
 * final one (Unicode 3.13, Final_Sigma). `at` is where `c` begins in `text`.
 */
size_t chars_lower(int32_t c, const char *text, size_t len, size_t at,
                   int32_t out[static CHARS_PARTS_MAX]);

/* Put every run of combining marks into canonical order; with chars_lower() before it this is
 * Unicode's NFD. Runs longer than `run_max` are left as they are: sorting them would take
 * long, and a hostile text may have them. */
void chars_order(int32_t *chars, size_t n, size_t run_max);

#endif
