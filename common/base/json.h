/* base/json.h - a strict JSON reader; the only user of the parser library (cJSON).
 *
 * The input is foreign, so only this is accepted: one document and nothing after it, valid UTF-8,
 * no duplicate keys, NUL or raw control characters, numbers in JSON's notation that fit a double,
 * at most JSON_DEPTH_MAX levels. Values are borrowed from the document that json_parse() made,
 * until json_free(). Every accessor takes NULL for a missing value and returns the fallback, so
 * lookups chain without checks: json_string(json_path(pod, "status.podIP"), ""). Objects of the API
 * server are never written back whole: numbers above 2^53 do not survive the parser. Layer: base.
 * Threads: one at a time per document.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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

/* For a large document whose parts are parsed one by one, so that one invalid part does not cost
 * the others. Only nesting and strings are checked: a value that is found may still be invalid
 * inside. Keys are compared as written, including escapes. Time is proportional to the text. */
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

#endif
