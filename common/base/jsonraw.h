/* base/jsonraw.h - find members and elements in JSON text without parsing it.
 *
 * For a large document whose parts are parsed one by one, so that one invalid part does not cost
 * the others. Only nesting and strings are checked: a value that is found may still be invalid
 * inside. Keys are compared as they are written, including escapes. Layer: base. Threads: any;
 * pure. Every function takes time in proportion to the text.
 */
#ifndef BASE_JSONRAW_H
#define BASE_JSONRAW_H

#include <stdbool.h>
#include <stddef.h>

/* A value inside a text, without the space around it. Borrowed, not NUL-terminated. */
struct jsonraw {
    const char *text;
    size_t len;
};

/* The first member `key` of an object. False when there is none, when `v` is no object, or when the
 * text breaks before the end of the member. */
bool jsonraw_member(struct jsonraw v, const char *key, struct jsonraw *out);

/* Walk an array: start with *place = 0; false after the last element, or where the text breaks. */
bool jsonraw_next(struct jsonraw v, size_t *place, struct jsonraw *out);

#endif
