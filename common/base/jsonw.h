/* base/jsonw.h - write JSON as a stream into a buf.
 *
 * Errors stick: after the first one every call does nothing and jsonw_finish() reports it, so a
 * document is written without a check per line. `key` names the member inside an object and is NULL
 * inside an array and for the root. A number that is not finite is an error: JSON has no notation
 * for it. A byte of a string that is not UTF-8 becomes U+FFFD: texts are cut off at a number of
 * bytes, and half a character must not make the whole document unreadable. Layer: base. Threads:
 * one.
 */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

struct jsonw {
    struct buf *out; /* borrowed; its `max` is the limit of the document */
    struct err err;
    int depth;
    char closers[JSON_DEPTH_MAX]; /* '}' or ']' of every open level */
    bool needs_comma;
};

void jsonw_init(struct jsonw *w, struct buf *out);

void jsonw_open_object(struct jsonw *w, const char *key);
void jsonw_open_array(struct jsonw *w, const char *key);
void jsonw_close(struct jsonw *w);

void jsonw_string(struct jsonw *w, const char *key, const char *value);
/* Up to 511 bytes on one line: control characters, which would take six bytes each, become spaces.
 */
void jsonw_line(struct jsonw *w, const char *key, const char *text);
/* Up to 4095 bytes. */
void jsonw_stringf(struct jsonw *w, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void jsonw_int(struct jsonw *w, const char *key, int64_t value);
void jsonw_bool(struct jsonw *w, const char *key, bool value);
/* Shortest text that reads back as the same double. */
void jsonw_double(struct jsonw *w, const char *key, double value);
void jsonw_null(struct jsonw *w, const char *key);
/* A value from a parsed document, copied. */
void jsonw_value(struct jsonw *w, const char *key, const struct json *value);

/* Returns the first error there was, or ERR_INVALID when levels are still open. */
MUST_CHECK enum err_code jsonw_finish(struct jsonw *w, struct err *err);

#endif
