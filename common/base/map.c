#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define SLOTS_MIN 64

static uint32_t hash_of(const char *text, size_t len)
{
    uint64_t hash = hash_bytes(HASH_START, text, len);

    return (uint32_t)(hash ^ hash >> 32);
}

/* The slot of the key, or the free one that ends the search for it. An entry that was taken out
 * keeps its slot, so that keys after it are still found. */
static uint32_t *slot_of(const struct map *m, const char *text, size_t len, uint32_t hash)
{
    size_t i = hash & (m->n_slots - 1);

    for (; m->slots[i] > 0; i = (i + 1) & (m->n_slots - 1)) {
        const struct map_entry *e = &m->entries[m->slots[i] - 1];

        if (e->hash == hash && e->key && e->key_bytes == len && memcmp(e->key, text, len) == 0)
            break;
    }
    return &m->slots[i];
}

struct map_entry *map_find(const struct map *m, const char *text, size_t len)
{
    uint32_t slot = m->n_slots > 0 ? *slot_of(m, text, len, hash_of(text, len)) : 0;

    return slot > 0 ? &m->entries[slot - 1] : NULL;
}

/* Drop entries that were taken out, and make room for more: half of the slots are never used. */
static enum err_code rebuild(struct map *m, struct err *err)
{
    size_t n_slots = SLOTS_MIN;
    struct map_entry *entries;
    uint32_t *slots;

    while (n_slots / 2 <= m->n + m->n / 2)
        n_slots *= 2;
    if (n_slots / 2 > MAP_ENTRIES_MAX)
        return err_set(err, ERR_LIMIT, "more than %zu keys", MAP_ENTRIES_MAX);
    slots = calloc(n_slots, sizeof *slots);
    entries = malloc(n_slots / 2 * sizeof *entries);
    if (!slots || !entries) {
        free(slots);
        free(entries);
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu keys", n_slots / 2);
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n_slots;
    m->n = 0;
    for (size_t i = 0; i < m->n_entries; i++) {
        const struct map_entry *e = &m->entries[i];
        size_t at = e->hash & (n_slots - 1);

        if (!e->key)
            continue;
        entries[m->n++] = *e;
        while (slots[at] > 0)
            at = (at + 1) & (n_slots - 1);
        slots[at] = (uint32_t)m->n;
    }
    free(m->entries);
    m->entries = entries;
    m->n_entries = m->n;
    m->entries_max = n_slots / 2;
    return ERR_OK;
}

enum err_code map_add(struct map *m, const char *text, size_t len, struct map_entry **out,
                      struct err *err)
{
    struct map_entry *e = map_find(m, text, len);
    uint32_t hash = hash_of(text, len);
    enum err_code rc = ERR_OK;
    char *key;

    if (!e && m->n_entries == m->entries_max)
        rc = rebuild(m, err);
    if (rc == ERR_OK && !e) {
        key = len < UINT32_MAX ? malloc(len + 1) : NULL;
        if (!key)
            return err_set(err, ERR_NO_MEMORY, "no memory for a key of %zu bytes", len);
        memcpy(key, text, len);
        key[len] = '\0';
        e = &m->entries[m->n_entries];
        *e = (struct map_entry){.key = key, .key_bytes = (uint32_t)len, .hash = hash};
        *slot_of(m, text, len, hash) = (uint32_t)++m->n_entries;
        m->n++;
    }
    if (rc == ERR_OK)
        *out = e;
    return rc;
}

void *map_get(const struct map *m, const char *key)
{
    const struct map_entry *e = map_find(m, key, strlen(key));

    return e ? e->value.pointer : NULL;
}

enum err_code map_put(struct map *m, const char *key, void *pointer, struct err *err)
{
    struct map_entry *e;
    enum err_code rc = map_add(m, key, strlen(key), &e, err);

    if (rc == ERR_OK)
        e->value.pointer = pointer;
    return rc;
}

void *map_take(struct map *m, const char *key)
{
    struct map_entry *e = map_find(m, key, strlen(key));

    if (!e)
        return NULL;
    free(e->key);
    e->key = NULL;
    m->n--;
    return e->value.pointer;
}

void *map_next(const struct map *m, size_t *place, const char **out_key)
{
    while (*place < m->n_entries) {
        const struct map_entry *e = &m->entries[(*place)++];

        if (!e->key)
            continue;
        if (out_key)
            *out_key = e->key;
        return e->value.pointer;
    }
    return NULL;
}

void map_deinit(struct map *m)
{
    for (size_t i = 0; i < m->n_entries; i++)
        free(m->entries[i].key);
    free(m->entries);
    free(m->slots);
    *m = (struct map){0};
}
