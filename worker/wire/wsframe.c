#include "wire/wsframe.h"

#include <string.h>

#define FIN             0x80
#define OP_CONTINUATION 0x0
#define OP_BINARY       0x2
#define MASKED          0x80
#define LENGTH_IS_16    126
#define LENGTH_IS_64    127

/* `key` is the four bytes of the mask as they lie in memory. */
static void mask(uint8_t *bytes, size_t n, uint32_t key)
{
    uint64_t key64 = (uint64_t)key << 32 | key;
    const uint8_t *key_bytes = (const uint8_t *)&key;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t v;

        memcpy(&v, bytes + i, sizeof v);
        v ^= key64;
        memcpy(bytes + i, &v, sizeof v);
    }
    for (; i < n; i++)
        bytes[i] ^= key_bytes[i % 4];
}

static size_t put_length(uint8_t *p, size_t n)
{
    int n_bytes = n < LENGTH_IS_16 ? 0 : n <= UINT16_MAX ? 2 : 8;

    p[0] = (uint8_t)(MASKED | (n_bytes == 0 ? n : n_bytes == 2 ? LENGTH_IS_16 : LENGTH_IS_64));
    for (int i = 0; i < n_bytes; i++)
        p[1 + i] = (uint8_t)((uint64_t)n >> (8 * (n_bytes - 1 - i)));
    return 1 + (size_t)n_bytes;
}

size_t wsframe_wrap(uint8_t *bytes, size_t n, bool first, bool last, uint32_t key)
{
    uint8_t head[WSFRAME_HEAD_MAX];
    size_t at = 0;

    head[at++] = (uint8_t)((last ? FIN : 0) | (first ? OP_BINARY : OP_CONTINUATION));
    at += put_length(head + at, n);
    memcpy(head + at, &key, sizeof key);
    at += sizeof key;
    memcpy(bytes - at, head, at);
    mask(bytes, n, key);
    return at;
}
