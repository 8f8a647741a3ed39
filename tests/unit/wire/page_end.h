/* Bytes that end where a mapped page ends: reading one too many is a crash, not luck. */
#ifndef TESTS_WIRE_PAGE_END_H
#define TESTS_WIRE_PAGE_END_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_END_MAX 65536

/* A mapping of PAGE_END_MAX bytes with an unmapped page behind; NULL on failure. */
static inline uint8_t *page_end_new(void)
{
    uint8_t *p =
        mmap(NULL, PAGE_END_MAX + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || mprotect(p + PAGE_END_MAX, 4096, PROT_NONE) != 0)
        return NULL;
    return p;
}

/* Copy `n` bytes to the end of the mapping and return where they start. */
static inline uint8_t *page_end_put(uint8_t *page, const void *bytes, size_t n)
{
    return memcpy(page + PAGE_END_MAX - n, bytes, n);
}

#endif
