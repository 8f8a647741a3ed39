/* base/file.h - whole files in and out.
 *
 * Layer: base. Threads: any.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

/* Append the file to `out`, whose `max` is the most that is read.
 *
 * Returns ERR_NOT_FOUND, ERR_DENIED, ERR_LIMIT (larger than `out` may hold) or ERR_IO, each with
 * the path in the text.
 */
MUST_CHECK enum err_code file_read(const char *path, struct buf *out, struct err *err);

/* Replace the file whole: written beside it, synced, renamed; a reader sees the old or the new. */
MUST_CHECK enum err_code file_write(const char *path, const void *bytes, size_t n, struct err *err);

/* The error of the last system call on `path`: "open PATH: No such file or directory". */
enum err_code file_error(struct err *err, const char *what, const char *path);

#endif
