/* base/fields.h - a JSON document as a table: its reader, writer and bounds follow from the rows.
 *
 * A row names one member of a JSON object, where its value is in a struct, its kind and its bounds.
 * Objects and lists have tables of their own. What spans members is checked by the caller.
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include <stddef.h>

#include "base/json.h"

enum field_kind {
    FIELD_END,          /* closes a table */
    FIELD_INT,          /* int; where it has `words`, one of them stands for its index in them */
    FIELD_INT64,        /* int64_t */
    FIELD_MILLISECONDS, /* double: ms, written as a whole number; bounds apply to that */
    FIELD_MICROSECONDS, /* double: ms, written as a whole number of microseconds, likewise */
    FIELD_DOUBLE,       /* double */
    FIELD_DECIMAL,      /* double, written as a string: the API conventions forbid floats */
    FIELD_BOOL,         /* bool */
    FIELD_ANSWER,       /* enum: 0 is unknown and not written, 1 is true, 2 is false */
    FIELD_TEXT,         /* char[] of at least `min` bytes and, unless `max` is 0, at most `max` */
    FIELD_WORD,         /* char[] that holds one of `words` */
    FIELD_ENUM,         /* enum: index into `words` */
    FIELD_TIME,         /* int64_t: wall clock in ms, written as RFC 3339; 0 is not set */
    FIELD_OBJECT,       /* struct with the table `fields` */
    FIELD_LIST,         /* array with the number of entries in an int: see FIELD_ITEMS */
    FIELD_HASH,         /* uint64_t: of any value, which the caller reads; only for reading */
};

enum field_flag {
    FIELD_REQUIRED = 1 << 0, /* must be present, in every mode of reading */
    FIELD_ABOVE = 1 << 1,    /* a number: above `min`, not equal to it */
    FIELD_UNIQUE = 1 << 2,   /* a text of a list's entries: no two are the same */
    FIELD_OMIT = 1 << 3,     /* left out when empty */
    FIELD_NULL = 1 << 4,     /* null when empty, so that a merge patch removes it */
    FIELD_SHORT = 1 << 5,    /* a double: written with six digits */
    /* A text: written as one line of up to 511 bytes. Control characters, which would take six
     * bytes each, become spaces. */
    FIELD_LINE = 1 << 6,
};

/* A member is empty when it has the value of `fallback` or, without one, is 0, "", not set or
 * without entries. So is a double that is not finite, and an object whose required member is
 * empty, unless that is a double of 0 and may be 0. */
struct field {
    const char *key; /* may be a path ("training.batchSize") in a table that is only read; "" is a
                      * list's entry itself, for entries that are no objects */
    enum field_kind kind;
    size_t offset, bytes; /* FIELD_AT() */
    double min, max;      /* of a number (both 0: any), of a text's bytes, of a list's entries */
    const char *fallback; /* a missing member's value, as text; NULL: leave the place alone */
    const char *const *words; /* NULL-terminated */
    unsigned flags;
    const struct field *fields; /* of an object or of a list's entries */
    size_t entry_bytes, count_offset;
};

#define FIELD_AT(type, member)                                                                     \
    .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

/* In place of FIELD_AT() for the array `member` and its count, with room for as many entries as the
 * array has. */
#define FIELD_ITEMS(type, member, count)                                                           \
    FIELD_AT(type, member), .entry_bytes = sizeof(((type *)0)->member[0]),                         \
                            .count_offset = offsetof(type, count)
/* In place of FIELD_AT() for a list's entry itself. */
#define FIELD_ENTRY(type) .offset = 0, .bytes = sizeof(type)

enum fields_mode {
    FIELDS_STRICT,   /* an invalid member is an error, an unknown one is ignored */
    FIELDS_CLOSED,   /* an unknown member is an error too */
    FIELDS_TOLERANT, /* an invalid member counts as missing; long texts are cut off; of a list,
                      * invalid and repeated entries and those it has no room for are dropped */
};

/* Read `json` into the struct at `out`, which the caller has zeroed or filled with defaults.
 *
 * Returns ERR_INVALID with the member's full name below `name` ("" for none), the reason and what
 * is allowed: "spec.training.epochs: 0 is not in 1..100000". Then `out` is half filled.
 */
MUST_CHECK enum err_code fields_read(const struct field *fields, const struct json *json,
                                     enum fields_mode mode, const char *name, void *out,
                                     struct err *err);

/* The same for the text of a document. */
MUST_CHECK enum err_code fields_parse(const struct field *fields, const char *text, size_t len,
                                      enum fields_mode mode, void *out, struct err *err);

/* Append the members of the struct at `from` to the object that is open in `w`. */
void fields_write(const struct field *fields, const void *from, struct jsonw *w);

/* Append them as one JSON object. Fails where jsonw_finish() does. */
MUST_CHECK enum err_code fields_print(const struct field *fields, const void *from, struct buf *out,
                                      struct err *err);

#endif
