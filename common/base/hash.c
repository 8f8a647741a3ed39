#include "base/hash.h"

#include <string.h>

#include "base/bytes.h"

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t hash_add(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

uint64_t hash_text(const char *text)
{
    return hash_bytes(HASH_START, text, strlen(text));
}

/* Remainders of each byte, reflected polynomial 0x82f63b78, alone and followed by 1 to 7 zero
 * bytes: to process eight bytes at a time without the instruction. */
#define TABLE_LEVELS 8
static uint32_t table[TABLE_LEVELS][256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        table[0][byte] = crc;
    }
    for (int level = 1; level < TABLE_LEVELS; level++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t shorter = table[level - 1][byte];

            table[level][byte] = (shorter >> 8) ^ table[0][shorter & 0xff];
        }
}

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = bytes_get(p, 8) ^ crc;

        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= table[7 - i][(v >> (8 * i)) & 0xff];
    }
    for (; n > 0; n--, p++)
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_sse42(uint32_t crc, const void *bytes,
                                                                  size_t n)
{
    const uint8_t *p = bytes;
    uint64_t crc64 = ~crc;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, sizeof v);
        crc64 = __builtin_ia32_crc32di(crc64, v);
    }
    crc = (uint32_t)crc64;
    for (; n > 0; n--, p++)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return ~crc;
}

#endif

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_by_sse42(crc, bytes, n);
#endif
    return crc32c_by_table(crc, bytes, n);
}
