/* base/families.h - metric families in Prometheus' text format.
 *
 * A family is begun with its HELP and TYPE, and its samples follow. The first error stays and ends
 * the writing, so that it is asked for once, at the end.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 * Layer: base. Threads: one; pure but for memory.
 */
#ifndef BASE_FAMILIES_H
#define BASE_FAMILIES_H

#include "base/buf.h"

#define FAMILIES_TYPE "text/plain; version=0.0.4" /* the Content-Type of such a text */

struct families {
    struct buf *out; /* borrowed, like the next one */
    struct err *err;
    enum err_code rc; /* of all calls so far: ERR_LIMIT or ERR_NO_MEMORY */
    const char *name; /* of the family that was begun last */
};

/* `type` is "counter", "gauge" or "histogram"; `help` is a sentence without line breaks. Texts are
 * borrowed until the next family. */
void families_begin(struct families *f, const char *name, const char *type, const char *help);
/* A sample of it; `suffix` is that of a histogram's series, else "". */
void families_add(struct families *f, const char *suffix, double value);
/* One with a label, whose value needs no escapes. */
void families_add_with(struct families *f, const char *suffix, const char *label, const char *text,
                       double value);
/* A family of one sample. */
void families_one(struct families *f, const char *name, const char *type, const char *help,
                  double value);

#endif
