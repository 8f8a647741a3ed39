#include "run/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define SLOTS_FIRST 64

static bool is_live(const struct table_slot *s)
{
    return s->value != NULL;
}

/* The slot of `key`, or the one where it would go; n_slots must not be 0 and not be full. */
static struct table_slot *probe(const struct table *t, const char *key, uint64_t hash)
{
    struct table_slot *grave = NULL;

    for (size_t i = 0;; i++) {
        struct table_slot *s = &t->slots[(hash + i) & (t->n_slots - 1)];

        if (!s->key)
            return grave ? grave : s;
        if (!is_live(s)) {
            grave = grave ? grave : s;
            continue;
        }
        if (s->hash == hash && strcmp(s->key, key) == 0)
            return s;
    }
}

void *table_find(const struct table *t, const char *key)
{
    return t->n_slots == 0 ? NULL : probe(t, key, hash_text(key))->value;
}

/* Make room for one more: at most three quarters of the slots may be other than fresh. */
static enum err_code grow(struct table *t, struct err *err)
{
    struct table bigger = {.n_slots = t->n_slots ? t->n_slots : SLOTS_FIRST};

    if (t->n_slots > 0 && (t->n_used + 1) * 4 <= t->n_slots * 3)
        return ERR_OK;
    if (t->n * 2 >= bigger.n_slots)
        bigger.n_slots *= 2; /* else only graves are cleared away */
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu keys", bigger.n_slots);
    for (size_t i = 0; i < t->n_slots; i++) {
        struct table_slot *s = &t->slots[i];

        if (is_live(s))
            *probe(&bigger, s->key, s->hash) = *s;
        else
            free(s->key);
    }
    free(t->slots);
    bigger.n = bigger.n_used = t->n;
    *t = bigger;
    return ERR_OK;
}

enum err_code table_put(struct table *t, const char *key, void *value, struct err *err)
{
    uint64_t hash = hash_text(key);
    struct table_slot *s;
    enum err_code rc = grow(t, err);
    char *copy;

    if (rc != ERR_OK)
        return rc;
    s = probe(t, key, hash);
    if (is_live(s)) {
        s->value = value;
        return ERR_OK;
    }
    copy = strdup(key);
    if (!copy)
        return err_set(err, ERR_NO_MEMORY, "no memory for key %.60s", key);
    t->n_used += s->key == NULL;
    t->n++;
    free(s->key);
    *s = (struct table_slot){.key = copy, .hash = hash, .value = value};
    return ERR_OK;
}

void *table_take(struct table *t, const char *key)
{
    struct table_slot *s;
    void *value;

    if (t->n_slots == 0)
        return NULL;
    s = probe(t, key, hash_text(key));
    value = s->value;
    if (value) {
        s->value = NULL; /* the key stays as a grave, so that others behind it are still found */
        t->n--;
    }
    return value;
}

void *table_next(const struct table *t, size_t *place, const char **out_key)
{
    for (; *place < t->n_slots; (*place)++) {
        const struct table_slot *s = &t->slots[*place];

        if (!is_live(s))
            continue;
        if (out_key)
            *out_key = s->key;
        (*place)++;
        return s->value;
    }
    return NULL;
}

void table_deinit(struct table *t)
{
    for (size_t i = 0; i < t->n_slots; i++)
        free(t->slots[i].key);
    free(t->slots);
    *t = (struct table){0};
}
