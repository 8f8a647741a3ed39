/* base/buf.h - a byte buffer with a ceiling, arrays that grow, text in arrays of a fixed size.
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

/* Empty it but keep the memory. */
void buf_reset(struct buf *b);

/* The text so far, never NULL. Borrowed: good until the next change. */
const char *buf_text(const struct buf *b);

/* Hand over the memory (free() it); the buffer is empty afterwards. NULL when nothing was added. */
char *buf_take(struct buf *b);

void buf_deinit(struct buf *b);

/* Append to the `text` in an array of `bytes`. What does not fit is cut off: use it for messages.
 * No argument may point into `text`. */
void text_add(char *text, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Make room for `n` items in the array that the pointer at `array` owns and that has room for
 * *cap; it may move, and grows by half at least. ERR_NO_MEMORY; then nothing changed. */
MUST_CHECK enum err_code array_reserve(void *array, size_t item_bytes, size_t *cap, size_t n,
                                       struct err *err);

#endif
