#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_BYTES 256
#define ITEMS_MIN       64

enum err_code buf_add(struct buf *b, const void *bytes, size_t n, struct err *err)
{
    size_t cap = b->cap ? b->cap : BUF_FIRST_BYTES;
    char *data = b->data;

    if (n > b->max || b->len > b->max - n)
        return err_set(err, ERR_LIMIT, "more than %zu bytes", b->max);
    while (cap <= b->len + n) /* with the closing NUL */
        cap *= 2;
    if (cap != b->cap)
        data = realloc(b->data, cap);
    if (!data)
        return err_set(err, ERR_NO_MEMORY, "no memory for a buffer of %zu bytes", cap);
    b->data = data;
    b->cap = cap;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = '\0';
    return ERR_OK;
}

enum err_code buf_addf(struct buf *b, struct err *err, const char *fmt, ...)
{
    va_list args;
    enum err_code rc;
    char *text;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        return err_set(err, ERR_NO_MEMORY, "no memory to format a text");
    rc = buf_add(b, text, (size_t)n, err);
    free(text);
    return rc;
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

const char *buf_text(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *data = b->data;

    b->data = NULL;
    b->len = 0;
    b->cap = 0;
    return data;
}

void buf_deinit(struct buf *b)
{
    free(buf_take(b));
}

void text_add(char *text, size_t bytes, const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text + n, bytes - n, fmt, args);
    va_end(args);
}

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
