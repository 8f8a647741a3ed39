/* text/lines.h - a text file line by line, of any size, each line of a bounded one.
 *
 * The file is mapped, so it may be larger than memory: a pass over it takes none, and a line that
 * was seen can be read again by its offset. It must not be cut short while it is open.
 * Layer: text. Threads: one; lines_at() any.
 */
#ifndef TEXT_LINES_H
#define TEXT_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

#define LINES_MAX_BYTES ((size_t)1 << 20) /* of one line */

struct lines {
    char *path;
    uint64_t offset; /* where the line that was read last begins in the file */
    bool skipped;    /* lines were skipped just before it */
    bool is_quoted;  /* CSV (RFC 4180): a line end within a quoted field does not end the line. Set
                      * before the first one, and not for a thinned file, whose runs could begin
                      * within a field. */
    const atomic_bool *stops; /* once it is true, lines_next() returns ERR_GONE; NULL: never */
    /* private */
    struct mapping map;
    size_t next;    /* where the next line begins */
    int64_t number; /* of the line that was read last */
    int64_t extra;  /* line ends within it */
    size_t each;    /* bytes of a run of a thinned file; 0: not thinned */
    size_t run;
};

/* Open a file. On ERR_OK the caller owns *out: lines_close(). A byte order mark at its start is
 * skipped. Errors of mapping_open(), ERR_NO_MEMORY. */
MUST_CHECK enum err_code lines_open(const char *path, struct lines *out, struct err *err);

/* The next line, without its "\n" or "\r\n", valid UTF-8 and borrowed until lines_close(). The
 * last line needs no line end.
 *
 * Returns ERR_OK with *out_text and *out_len set, or with *out_end true after the last line;
 * ERR_INVALID with path and line number for one that is too long or not UTF-8; ERR_GONE once it
 * was stopped.
 */
MUST_CHECK enum err_code lines_next(struct lines *l, const char **out_text, size_t *out_len,
                                    bool *out_end, struct err *err);

/* Sample the file: return only about `most_bytes` of lines, in runs from all over it, as it may be
 * sorted. Every line is equally likely. */
void lines_thin(struct lines *l, size_t most_bytes);

/* Number, from 1, of the line that was read last. */
int64_t lines_number(const struct lines *l);

/* Set ERR_INVALID for the line that was read last, "PATH line N: ...", and return it. */
enum err_code lines_refuse(const struct lines *l, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The line that begins at `offset`, like lines_next() but without the check for UTF-8. Returns
 * where the next line begins. */
uint64_t lines_at(const struct lines *l, uint64_t offset, const char **out_text, size_t *out_len);

/* Is it white space only, or nothing? */
bool lines_is_blank(const char *text, size_t len);

/* Set ERR_INVALID when what lines_at() found is not what was there during the pass. */
enum err_code lines_changed(const struct lines *l, struct err *err);

/* The pass is over: from now on lines are read in no order. */
void lines_settle(const struct lines *l);

void lines_close(struct lines *l); /* a zeroed one is fine */

#endif
