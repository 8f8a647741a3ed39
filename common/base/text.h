/* base/text.h - a sentence in an array of fixed size, put together piece by piece.
 *
 * What does not fit is cut off at the end, as in base/err.h: for people a text that ends early is
 * better than none. Text that must be whole belongs into a struct buf.
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

/* Append to the NUL-terminated `text` in an array of `bytes`. No argument may point into `text`. */
void text_add(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
