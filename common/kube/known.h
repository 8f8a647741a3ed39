/* kube/known.h - the objects that a watch has reported, so that it can tell what vanished.
 *
 * A hash table from (namespace, name) to the uid behind it and the list that saw it last.
 * Layer: kube. Threads: one. Limit: KNOWN_MAX objects. A zeroed struct is an empty table.
 */
#ifndef KUBE_KNOWN_H
#define KUBE_KNOWN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define KNOWN_MAX 200000 /* a watch of more is not for a program of this kind */

struct known_object {
    struct known_object *next; /* in its slot */
    uint64_t list;             /* number of the list that saw it last */
    const char *namespace;     /* these three point behind the struct */
    const char *name;
    const char *uid;
};

struct known {
    struct known_object **slots;
    size_t n_slots;
    size_t n_objects;
};

/* NULL when it is not there. */
struct known_object *known_find(const struct known *k, const char *namespace, const char *name);

/* Add one that is not there yet. ERR_LIMIT, ERR_NO_MEMORY; then nothing changed. */
MUST_CHECK enum err_code known_add(struct known *k, const char *namespace, const char *name,
                                   const char *uid, struct known_object **out, struct err *err);

/* Remove and free it. */
void known_remove(struct known *k, struct known_object *object);

/* Remove every object that list number `list` did not see, after a call of `on_vanished`, which
 * must not touch the table. */
void known_sweep(struct known *k, uint64_t list,
                 void (*on_vanished)(void *ctx, const struct known_object *object), void *ctx);

void known_deinit(struct known *k);

#endif
