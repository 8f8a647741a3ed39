/* base/bytes.h - little-endian numbers in bytes, and mebibytes. Layer: base. Threads: any. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>

#define MIB ((int64_t)1 << 20)

/* Rounded up. */
static inline int64_t mib_of(int64_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

/* `n_bytes` is 1 to 8. */
static inline void bytes_put(uint8_t *p, uint64_t v, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint64_t bytes_get(const uint8_t *p, int n_bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < n_bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

#endif
