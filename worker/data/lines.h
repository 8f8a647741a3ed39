/* data/lines.h - a text file line by line, of any size, each line of a bounded one.
 *
 * Layer: data (may use base). Threads: one.
 */
#ifndef DATA_LINES_H
#define DATA_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LINES_MAX_BYTES ((size_t)1 << 20) /* of one line */

struct lines; /* on the heap; all fields private */

/* Open a file. On ERR_OK the caller owns *out: lines_close(). A byte order mark at its start is
 * skipped. ERR_NOT_FOUND, ERR_DENIED, ERR_IO (also for a folder), ERR_NO_MEMORY, all with the
 * path. */
MUST_CHECK enum err_code lines_open(const char *path, struct lines **out, struct err *err);

/* The next line, without its "\n" or "\r\n", valid UTF-8 and borrowed until the next call. The
 * last line needs no line end.
 *
 * Returns ERR_OK with *out_text and *out_len set, or with *out_end true after the last line;
 * ERR_INVALID with path and line number for one that is too long or not UTF-8; ERR_IO.
 */
MUST_CHECK enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len,
                                    bool *out_end, struct err *err);

/* Number of the line that was read last, from 1. */
int64_t lines_number(const struct lines *l);
const char *lines_path(const struct lines *l);

void lines_close(struct lines *l); /* NULL is fine */

#endif
