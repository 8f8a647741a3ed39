/* base/err.h - errors: a code for the caller and a message for people.
 *
 * A fallible function returns an err_code (ERR_OK is 0), is MUST_CHECK and takes `struct err *err`
 * last; err may be NULL when only the code matters. The text is inside the struct, so reporting an
 * error cannot itself fail. Callers branch on the code, people read the text; callers add context
 * to it: "load spec /etc/skyjob/spec.json: line 3: ...". Layer: base. Threads: any; a struct err
 * belongs to one.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

#define MUST_CHECK __attribute__((warn_unused_result))

#define ERR_TEXT_BYTES 400

/* Exit codes of all our programs. */
#define EXIT_DONE   0
#define EXIT_FAILED 1 /* a retry may help */
#define EXIT_CONFIG 2 /* wrong usage or configuration: a retry is useless */
/* The process has ended itself because it hung: as if SIGALRM had. */
#define EXIT_STALLED (128 + 14)

enum err_code {
    ERR_OK,
    ERR_INVALID,   /* the document or argument is wrong */
    ERR_NO_MEMORY, /* out of memory */
    ERR_LIMIT,     /* a fixed limit was reached */
    ERR_AGAIN,     /* not yet: call again */
    ERR_PROTOCOL,  /* the peer broke the protocol */
    ERR_NOT_FOUND, /* no such object */
    ERR_CONFLICT,  /* the object has changed meanwhile */
    ERR_GONE,      /* the version is too old */
    ERR_DENIED,    /* not allowed */
    ERR_TIMEOUT,   /* it took too long */
    ERR_IO,        /* input or output failed */
};

struct err {
    enum err_code code;
    char text[ERR_TEXT_BYTES]; /* cut off at the end when a chain grows too long */
};

/* Set a new error; returns `code`, so that `return err_set(...)` reads as one step. */
enum err_code err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prefix the text of `err` with "context: " and set its code to `code`; returns it. */
enum err_code err_wrap(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* May the same call succeed later, unchanged? */
bool err_is_transient(enum err_code code);

#endif
