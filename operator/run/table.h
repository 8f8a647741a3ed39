/* run/table.h - text keys to pointers: the map under the store.
 *
 * Open addressing, grown by doubling. The table owns copies of its keys and not what they point to.
 * A zeroed struct is an empty table.
 * Layer: run (may use base). Threads: one.
 */
#ifndef RUN_TABLE_H
#define RUN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct table_slot {
    char *key; /* NULL: never used; "" with a NULL value: was used */
    uint64_t hash;
    void *value;
};

struct table {
    struct table_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n_used;  /* slots that are not fresh */
    size_t n;       /* keys */
};

/* NULL when it is not there. */
void *table_find(const struct table *t, const char *key);
/* `value` must not be NULL. Returns ERR_NO_MEMORY, and then nothing has changed. */
MUST_CHECK enum err_code table_put(struct table *t, const char *key, void *value, struct err *err);
/* Returns what was there, for the caller to free; NULL when nothing was. */
void *table_take(struct table *t, const char *key);

/* Walk: start with 0, NULL ends it. The table must not be changed meanwhile, except by taking the
 * key that was just returned. `out_key` may be NULL. */
void *table_next(const struct table *t, size_t *place, const char **out_key);

void table_deinit(struct table *t);

#endif
