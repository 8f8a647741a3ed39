#include "kube/known.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64 /* a power of two */

/* FNV-1a over "namespace/name". */
static size_t hash_of(const char *namespace, const char *name)
{
    uint64_t hash = 14695981039346656037u;

    for (const char *p = namespace; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    hash = (hash ^ '/') * 1099511628211u;
    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return (size_t)(hash ^ (hash >> 32));
}

static struct known_object **slot_of(const struct known *k, const char *namespace, const char *name)
{
    return &k->slots[hash_of(namespace, name) & (k->n_slots - 1)];
}

struct known_object *known_find(const struct known *k, const char *namespace, const char *name)
{
    struct known_object *o = k->n_slots ? *slot_of(k, namespace, name) : NULL;

    while (o && (strcmp(o->name, name) != 0 || strcmp(o->namespace, namespace) != 0))
        o = o->next;
    return o;
}

/* As many slots as objects, or more. */
static enum err_code grow(struct known *k, struct err *err)
{
    struct known old = *k;
    struct known bigger = {.n_objects = old.n_objects};

    if (old.n_objects < old.n_slots)
        return ERR_OK;
    bigger.n_slots = old.n_slots ? 2 * old.n_slots : SLOTS_FIRST;
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu objects", bigger.n_slots);
    for (size_t i = 0; i < old.n_slots; i++) {
        struct known_object *next;

        for (struct known_object *o = old.slots[i]; o; o = next) {
            struct known_object **slot = slot_of(&bigger, o->namespace, o->name);

            next = o->next;
            o->next = *slot;
            *slot = o;
        }
    }
    free(old.slots);
    *k = bigger;
    return ERR_OK;
}

enum err_code known_add(struct known *k, const char *namespace, const char *name, const char *uid,
                        struct known_object **out, struct err *err)
{
    size_t namespace_bytes = strlen(namespace) + 1;
    size_t name_bytes = strlen(name) + 1;
    size_t uid_bytes = strlen(uid) + 1;
    struct known_object *o;
    struct known_object **slot;
    char *texts;
    enum err_code rc;

    if (k->n_objects >= KNOWN_MAX)
        return err_set(err, ERR_LIMIT, "more than %d objects", KNOWN_MAX);
    rc = grow(k, err);
    if (rc != ERR_OK)
        return rc;
    o = malloc(sizeof *o + namespace_bytes + name_bytes + uid_bytes);
    if (!o)
        return err_set(err, ERR_NO_MEMORY, "no memory for an object");
    texts = (char *)(o + 1);
    *o = (struct known_object){.namespace = texts,
                               .name = texts + namespace_bytes,
                               .uid = texts + namespace_bytes + name_bytes};
    memcpy(texts, namespace, namespace_bytes);
    memcpy(texts + namespace_bytes, name, name_bytes);
    memcpy(texts + namespace_bytes + name_bytes, uid, uid_bytes);
    slot = slot_of(k, namespace, name);
    o->next = *slot;
    *slot = o;
    k->n_objects++;
    *out = o;
    return ERR_OK;
}

void known_remove(struct known *k, struct known_object *object)
{
    struct known_object **link = slot_of(k, object->namespace, object->name);

    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    free(object);
    k->n_objects--;
}

void known_sweep(struct known *k, uint64_t list,
                 void (*on_vanished)(void *ctx, const struct known_object *object), void *ctx)
{
    for (size_t i = 0; i < k->n_slots; i++) {
        struct known_object **link = &k->slots[i];

        while (*link) {
            struct known_object *o = *link;

            if (o->list == list) {
                link = &o->next;
                continue;
            }
            *link = o->next;
            k->n_objects--;
            on_vanished(ctx, o);
            free(o);
        }
    }
}

void known_deinit(struct known *k)
{
    for (size_t i = 0; i < k->n_slots; i++) {
        struct known_object *next;

        for (struct known_object *o = k->slots[i]; o; o = next) {
            next = o->next;
            free(o);
        }
    }
    free(k->slots);
    *k = (struct known){0};
}
