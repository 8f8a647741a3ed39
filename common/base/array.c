#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MIN 64

enum err_code array_reserve(void *array, size_t item_bytes, size_t *cap, size_t n, struct err *err)
{
    size_t wanted = *cap + *cap / 2;
    void *items;

    if (n <= *cap)
        return ERR_OK;
    if (wanted < ITEMS_MIN)
        wanted = ITEMS_MIN;
    if (wanted < n)
        wanted = n;
    memcpy(&items, array, sizeof items); /* a pointer of whatever type */
    items = wanted > SIZE_MAX / item_bytes ? NULL : realloc(items, wanted * item_bytes);
    if (!items)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu items of %zu bytes", wanted,
                       item_bytes);
    memcpy(array, &items, sizeof items);
    *cap = wanted;
    return ERR_OK;
}
