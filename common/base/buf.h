/* base/buf.h - a byte buffer that grows up to a ceiling given when it is made, and text in arrays.
 *
 * `data` is NUL-terminated after every successful call, so text can be handed to C functions; the
 * NUL is not counted in `len`. A zeroed struct with `max` set is ready for use. The owner calls
 * buf_deinit(); buf_take() hands the memory over instead.
 * Layer: base. Threads: one.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

#include "base/err.h"

struct buf {
    char *data; /* NULL before the first byte */
    size_t len;
    size_t cap;
    size_t max; /* most bytes it may hold; 0 holds nothing */
};

/* Append. Returns ERR_LIMIT when `max` would be passed and ERR_NO_MEMORY; then nothing changed. */
MUST_CHECK enum err_code buf_add(struct buf *b, const void *bytes, size_t n, struct err *err);
MUST_CHECK enum err_code buf_addf(struct buf *b, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Remove the first `n` bytes (at most all of them). */
void buf_drop(struct buf *b, size_t n);

/* Empty it but keep the memory. */
void buf_reset(struct buf *b);

/* The text so far, never NULL. Borrowed: good until the next change. */
const char *buf_text(const struct buf *b);

/* Hand over the memory (free() it); the buffer is empty afterwards. NULL when nothing was added. */
char *buf_take(struct buf *b);

void buf_deinit(struct buf *b);

/* Append to the NUL-terminated `text` in an array of `bytes`; what does not fit is cut off, so this
 * is for messages. No argument may point into `text`. */
void text_add(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
