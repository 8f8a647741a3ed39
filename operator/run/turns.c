#include "run/turns.h"

#include <string.h>

#define REST 2 /* times as long as the search */

void turns_deinit(struct turns *t)
{
    map_deinit(&t->namespaces);
}

int64_t turns_wait_ms(const struct turns *t, const char *namespace, int64_t now_ms)
{
    const struct map_entry *own = map_find(&t->namespaces, namespace, strlen(namespace));
    int64_t after_ms = own ? (int64_t)own->value.number : 0;

    if (!own || now_ms >= after_ms + TURNS_FRESH_MS)
        return 0;
    after_ms = after_ms > t->after_ms ? after_ms : t->after_ms;
    return after_ms > now_ms ? after_ms - now_ms : 0;
}

void turns_add(struct turns *t, const char *namespace, int64_t took_ms, int64_t now_ms)
{
    struct map_entry *own;

    if (took_ms < TURNS_LONG_MS)
        return;
    if (t->namespaces.n >= TURNS_NAMESPACES_MAX) {
        map_deinit(&t->namespaces);
        t->namespaces = (struct map){.n = 0};
    }
    t->after_ms = now_ms + REST * took_ms;
    /* Without memory it is fresh the next time, too. */
    if (map_add(&t->namespaces, namespace, strlen(namespace), &own, NULL) == ERR_OK)
        own->value.number = (uint64_t)t->after_ms;
}
