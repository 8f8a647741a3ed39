/* base/text.h - build a message in an array of fixed size, piece by piece.
 *
 * What does not fit is cut off, as in base/err.h: a message that ends early is better than none.
 * Text that must be complete belongs in a struct buf.
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

/* Append to the NUL-terminated `text` in an array of `bytes`. No argument may point into `text`. */
void text_add(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
