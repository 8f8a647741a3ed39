/* base/jsonw.h - write JSON into a buf: as a stream, or by a template.
 *
 * After the first error every call does nothing and jsonw_finish() reports it, so a document is
 * written without a check per line. `key` names the member inside an object and is NULL inside an
 * array and for the root. A number that is not finite is an error. A byte of a string that is not
 * UTF-8 becomes U+FFFD: texts may have been cut off within a character.
 * Layer: base. Threads: one.
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

/* Returns the first error, or ERR_INVALID when levels are still open. */
MUST_CHECK enum err_code jsonw_finish(struct jsonw *w, struct err *err);

/* --- templates --- */

/* A template is JSON with strings in single quotes, without escapes, and with placeholders:
 *
 *   $name         a value; an absent one is left out together with its key
 *   'a ${name}b'  its text inside a string of at most 511 bytes, which is left out likewise
 *   ?name value   `value` unless `name` is absent
 *
 * Values are quoted as needed, so they may contain anything. A template that is broken or names a
 * value that is not given is ERR_INVALID in jsonw_finish(). */
struct jsont_value {
    const char *name; /* a to z and _ */
    enum jsont_kind {
        JSONT_TEXT,
        JSONT_LIST, /* "key=value,key=value", as an object */
        JSONT_INT,
    } kind;
    const char *text; /* borrowed; NULL: absent, unless it is a number */
    int64_t number;
};

#define JSONT_S(name, text)     ((struct jsont_value){name, JSONT_TEXT, text, 0})
#define JSONT_I(name, number)   ((struct jsont_value){name, JSONT_INT, NULL, number})
#define JSONT_PAIRS(name, text) ((struct jsont_value){name, JSONT_LIST, text, 0})
/* Present if `is_true`: a condition, and a number. */
#define JSONT_IF(name, is_true) ((struct jsont_value){name, JSONT_TEXT, (is_true) ? "" : NULL, 0})
#define JSONT_I_IF(name, is_true, number)                                                          \
    ((struct jsont_value){name, (is_true) ? JSONT_INT : JSONT_TEXT, NULL, number})

/* Write the document as the value of `key`, as the other functions of jsonw.h do. */
void jsont_write(struct jsonw *w, const char *key, const char *text,
                 const struct jsont_value *values, size_t n_values);

#endif
