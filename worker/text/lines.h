/* text/lines.h - a text file line by line, of any size, each line of a bounded one.
 *
 * The file is mapped, so that it may be larger than memory: a pass over it takes none, and a line
 * that was seen can be had again by its offset. It must not be cut short while it is open.
 * Layer: text. Threads: one; lines_at() any.
 */
#ifndef TEXT_LINES_H
#define TEXT_LINES_H

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

/* The next line, without its "\n" or "\r\n", valid UTF-8 and borrowed until lines_close(). The
 * last line needs no line end.
 *
 * Returns ERR_OK with *out_text and *out_len set, or with *out_end true after the last line;
 * ERR_INVALID with path and line number for one that is too long or not UTF-8.
 */
MUST_CHECK enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len,
                                    bool *out_end, struct err *err);

/* Lines of CSV (RFC 4180): a line end within a quoted field does not end the line. Before the first
 * one; not for a thinned file, whose runs could begin within a field. */
void lines_quote(struct lines *l);

/* Sample the file: return only about `most_bytes` of lines, in runs from all over it, as it may be
 * sorted. Every line is equally likely. */
void lines_thin(struct lines *l, size_t most_bytes);
/* Were lines skipped just before the one that was read last? */
bool lines_skipped(const struct lines *l);

/* Number of the line that was read last, or of its first line of text, from 1, and where it begins
 * in the file. */
int64_t lines_number(const struct lines *l);
uint64_t lines_offset(const struct lines *l);
const char *lines_path(const struct lines *l);

/* The line that begins at `offset`, which lines_offset() has returned, like lines_next() but
 * without the check for UTF-8. Returns where the next line begins. */
uint64_t lines_at(const struct lines *l, uint64_t offset, const char **out_text, size_t *out_len);

/* The pass is over: from now on lines are read in no order. */
void lines_settle(const struct lines *l);

void lines_close(struct lines *l); /* NULL is fine */

#endif
