/* api/closed.h - does a Node take workers, and if not, why?
 *
 * Judged in this one place for the operator, for plans without one, and for files of nodes.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_CLOSED_H
#define API_CLOSED_H

#include "base/json.h"

/* The first that holds, in the order in which they tell people most: a node that does not answer
 * is also tainted, and so is one that is cordoned or short of something. */
enum closed {
    CLOSED_NOT, /* it does */
    CLOSED_NOT_READY,
    CLOSED_DELETED,
    CLOSED_CORDONED,
    CLOSED_PRESSED, /* short of memory, disk or processes */
    CLOSED_TAINTED, /* other than by what workers tolerate: names.h */
    CLOSED_COUNT,
};

/* `unseen` is what counts for a Node without any condition "Ready", which is CLOSED_NOT_READY in a
 * cluster; in a file, where people need not write it down, it is CLOSED_NOT. */
enum closed closed_read(const struct json *node, enum closed unseen);

/* To stand behind "is" or a number of nodes: "not ready", "cordoned". */
const char *closed_word(enum closed why);

#endif
