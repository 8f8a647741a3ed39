/* base/map.h - a hash map from text to a pointer or a number.
 *
 * Open addressing over a list of entries in the order in which they were added, so an entry's index
 * can serve as its number as long as none is removed. The map owns its keys, which are
 * NUL-terminated and never move, but not what values point to. Entries move when one is added.
 * A zeroed struct is an empty map. Layer: base. Threads: one; any that only read.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MAP_ENTRIES_MAX ((size_t)1 << 31)

struct map_entry {
    char *key; /* NULL: taken out */
    uint32_t key_bytes;
    uint32_t hash;
    union {
        void *pointer;
        uint64_t number;
    } value;
};

struct map {
    size_t n;                  /* keys */
    struct map_entry *entries; /* [n_entries] in the order added, some taken out */
    size_t n_entries, entries_max;
    uint32_t *slots; /* entry + 1; 0 is free */
    size_t n_slots;  /* a power of two, or 0 */
};

/* The entry of the key text[0 .. len - 1]; NULL when there is none. */
struct map_entry *map_find(const struct map *m, const char *text, size_t len);
/* The same, added with a zero value if missing. ERR_NO_MEMORY, ERR_LIMIT: nothing has changed. */
MUST_CHECK enum err_code map_add(struct map *m, const char *text, size_t len,
                                 struct map_entry **out, struct err *err);

/* For a map to pointers: get one, NULL if missing; set one, which must not be NULL. */
void *map_get(const struct map *m, const char *key);
MUST_CHECK enum err_code map_put(struct map *m, const char *key, void *pointer, struct err *err);
/* Remove the key and return its pointer, for the caller to free; NULL when there is none. */
void *map_take(struct map *m, const char *key);
/* Iterate: start with *place = 0; NULL after the last. Keys may be taken meanwhile but not put.
 * `out_key` may be NULL. */
void *map_next(const struct map *m, size_t *place, const char **out_key);

void map_deinit(struct map *m);

#endif
