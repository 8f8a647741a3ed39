/* Makes sorted tables, good and bad, for the tests that read them. */
#ifndef TABLE_H
#define TABLE_H

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "import/sstable.h"

struct table {
    unsigned char bytes[8192];
    size_t n;
    unsigned char handles[256]; /* entries of the index block */
    size_t n_handles;
    size_t block; /* start of the open block */
};

static inline size_t table_varint(unsigned char *at, uint64_t v)
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        at[n++] = (unsigned char)(v | 0x80);
    at[n++] = (unsigned char)v;
    return n;
}

/* `key` is what comes behind the `shared` bytes of the key before. */
static inline void table_add(struct table *t, size_t shared, const char *key, const void *value,
                             size_t value_len)
{
    t->n += table_varint(t->bytes + t->n, shared);
    t->n += table_varint(t->bytes + t->n, strlen(key));
    t->n += table_varint(t->bytes + t->n, value_len);
    memcpy(t->bytes + t->n, key, strlen(key));
    t->n += strlen(key);
    memcpy(t->bytes + t->n, value, value_len);
    t->n += value_len;
}

/* Checksum of the block [start, start + size), whose compression is behind it. */
static inline void table_seal(unsigned char *start, size_t size)
{
    bytes_put(start + size + 1, sstable_mask(crc32c(0, start, size + 1)), 4);
}

static inline void table_end_with(struct table *t, uint32_t n_restarts, unsigned char compression)
{
    size_t size;
    unsigned char *h = t->handles + t->n_handles;
    unsigned char value[20];
    size_t n;

    bytes_put(t->bytes + t->n, 0, 4);
    bytes_put(t->bytes + t->n + 4, n_restarts, 4);
    t->n += 8;
    size = t->n - t->block;
    t->bytes[t->n] = compression;
    table_seal(t->bytes + t->block, size);
    t->n += 5;
    n = table_varint(value, t->block);
    n += table_varint(value + n, size);
    h += table_varint(h, 0);
    h += table_varint(h, 1);
    h += table_varint(h, n);
    *h++ = 'k';
    memcpy(h, value, n);
    t->n_handles = (size_t)(h - t->handles) + n;
    t->block = t->n;
}

static inline void table_end_block(struct table *t)
{
    table_end_with(t, 1, 0);
}

/* The index block and the footer. */
static inline void table_finish(struct table *t)
{
    size_t index = t->n;
    size_t size = t->n_handles + 8;
    unsigned char *footer;
    size_t n;

    memcpy(t->bytes + t->n, t->handles, t->n_handles);
    bytes_put(t->bytes + index + t->n_handles, 0, 4);
    bytes_put(t->bytes + index + t->n_handles + 4, 1, 4);
    t->bytes[index + size] = 0;
    table_seal(t->bytes + index, size);
    t->n += size + 5;
    footer = t->bytes + t->n;
    memset(footer, 0, 40);
    n = 2; /* the meta index: nobody asks for it */
    n += table_varint(footer + n, index);
    n += table_varint(footer + n, size);
    bytes_put(footer + 40, 0xdb4775248b80fb57u, 8);
    t->n += 48;
}

#endif
