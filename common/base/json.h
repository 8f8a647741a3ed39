/* base/json.h - JSON: a strict reader, the only user of the parser library (cJSON), and a writer.
 *
 * The input is foreign, so only this is accepted: one document and nothing after it, valid UTF-8,
 * no duplicate keys, NUL or raw control characters, numbers in JSON's notation that fit a double,
 * at most JSON_DEPTH_MAX levels. Values are borrowed from their document until json_free(). Every
 * accessor returns its fallback for a missing value, NULL, so lookups chain without checks:
 * json_int(json_path(pod, "spec.priority"), 0). Never write an object of the API server back
 * whole: numbers above 2^53 do not survive the parser.
 * Layer: base. Threads: one at a time per document.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

#define JSON_DEPTH_MAX      64
#define JSON_TEXT_MAX_BYTES ((size_t)64 << 20)

struct json; /* a value inside a document, or its root */

enum json_kind {
    JSON_ABSENT, /* the value is NULL */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* Parse `len` bytes; a byte order mark in front is skipped. On ERR_OK the caller owns *out:
 * json_free(). The texts of ERR_INVALID and ERR_LIMIT give the position. */
MUST_CHECK enum err_code json_parse(const char *text, size_t len, struct json **out,
                                    struct err *err);
/* For objects from an API server, where any user may put `\u0000` into a string or key: it is read
 * as U+FFFD instead of being refused. */
MUST_CHECK enum err_code json_parse_tolerant(const char *text, size_t len, struct json **out,
                                             struct err *err);
void json_free(struct json *root);

enum json_kind json_kind_of(const struct json *v);
const char *json_kind_name(enum json_kind kind);

/* Member `key` of an object; NULL when there is none or `v` is no object. */
const struct json *json_get(const struct json *v, const char *key);
/* A member by its path: "status.podIP". A key that contains a dot needs json_get(). */
const struct json *json_path(const struct json *v, const char *path);

/* Elements of an array or members of an object, in order; NULL after the last. */
const struct json *json_first(const struct json *v);
const struct json *json_next(const struct json *v);
/* Name of a member; "" for an array element. */
const char *json_key(const struct json *v);
size_t json_count(const struct json *v);

const char *json_string(const struct json *v, const char *fallback);
/* The string at a path, which must not be a key with a dot; "" when there is none. */
const char *json_text(const struct json *v, const char *path);
/* Copies a string, or "", into an array of chars, as far as there is room. */
#define JSON_COPY(array, v) (void)snprintf((array), sizeof(array), "%s", json_string((v), ""))
bool json_bool(const struct json *v, bool fallback);
double json_double(const struct json *v, double fallback);
/* A whole number within +-2^53, else the fallback. */
int64_t json_i64(const struct json *v, int64_t fallback);
/* A whole number that is an int, else the fallback. */
int json_int(const struct json *v, int fallback);
/* Is it a number without a fraction within +-2^53? */
bool json_is_i64(const struct json *v);

/* The value as compact JSON text; the caller frees it. NULL when out of memory. */
char *json_print(const struct json *v);
/* Same kind and content, whatever the order of members. */
bool json_equal(const struct json *a, const struct json *b);

/* --- without parsing --- */

/* For a large document whose parts are parsed one by one, so that an invalid part does not affect
 * the others. Only nesting and strings are checked: a value that is found may be invalid inside.
 * Keys are compared as written, including escapes. Time is proportional to the text. */
struct jsonraw {      /* a value inside a text, without the space around it; not NUL-terminated */
    const char *text; /* borrowed */
    size_t len;
};

/* The first member `key` of an object. False when there is none, when `v` is no object, or when the
 * text breaks before the end of the member. */
bool jsonraw_member(struct jsonraw v, const char *key, struct jsonraw *out);
/* Walk an array: start with *place = 0; false after the last element, or where the text breaks. */
bool jsonraw_next(struct jsonraw v, size_t *place, struct jsonraw *out);

/* Bytes of the UTF-8 character at text[0], `left` > 0 of them at most. 0 when they are not UTF-8,
 * also for overlong forms, surrogates and code points above U+10FFFF. */
size_t utf8_step(const char *text, size_t left);

/* --- writing --- */

/* As a stream, or by a template. After the first error every call does nothing, and jsonw_finish()
 * reports it. `key` names the member of an object and is NULL in an array and for the root. A
 * number that is not finite is an error. Bytes of a string that are not UTF-8 become U+FFFD: a text
 * may have been cut off within a character. */
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
 *   *name         in an object or array: the members or entries of a value that is one
 *
 * Values are quoted as needed, so they may contain anything. A template that is broken or names a
 * value that is not given is ERR_INVALID in jsonw_finish(). */
struct jsont_value {
    const char *name; /* a to z and _ */
    enum jsont_kind {
        JSONT_TEXT,
        JSONT_LIST, /* "key=value,key=value", as an object */
        JSONT_INT,
        JSONT_JSON,
    } kind;
    const char *text; /* borrowed; NULL: absent, unless it is of another kind */
    int64_t number;
    const struct json *json; /* borrowed; NULL or null: absent */
};

#define JSONT_S(name, text)     ((struct jsont_value){name, JSONT_TEXT, text, 0, NULL})
#define JSONT_I(name, number)   ((struct jsont_value){name, JSONT_INT, NULL, number, NULL})
#define JSONT_PAIRS(name, text) ((struct jsont_value){name, JSONT_LIST, text, 0, NULL})
#define JSONT_V(name, value)    ((struct jsont_value){name, JSONT_JSON, NULL, 0, value})
/* Present if `is_true`: a condition, and a number. */
#define JSONT_IF(name, is_true)                                                                    \
    ((struct jsont_value){name, JSONT_TEXT, (is_true) ? "" : NULL, 0, NULL})
#define JSONT_I_IF(name, is_true, number)                                                          \
    ((struct jsont_value){name, (is_true) ? JSONT_INT : JSONT_TEXT, NULL, number, NULL})

/* Write the document as the value of `key`, as the other functions do. */
void jsont_write(struct jsonw *w, const char *key, const char *text,
                 const struct jsont_value *values, size_t n_values);

#endif
