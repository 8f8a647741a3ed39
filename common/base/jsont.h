/* base/jsont.h - a JSON document from a template that reads like the document.
 *
 * A template is JSON with strings in single quotes, without escapes, and with placeholders:
 *
 *   $name         a value; what has none (NULL, absent) is left out together with its key
 *   'a ${name}b'  its text inside a string of at most 511 bytes, which is left out likewise
 *   ?name value   `value` if `name` has a value, else left out
 *
 * Values are quoted as needed, so they may hold anything. Templates are part of the program: one
 * that is broken, or names a value that is not given, is ERR_INVALID in jsonw_finish().
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_JSONT_H
#define BASE_JSONT_H

#include "base/jsonw.h"

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
