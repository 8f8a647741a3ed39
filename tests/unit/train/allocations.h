/* How often a test program has asked for memory: it replaces the C library's functions.
 *
 * Counted is what our code and the libraries take. Under sanitizers, which have allocators of their
 * own, nothing is: COUNTS is false.
 */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static _Atomic int n_allocations;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define COUNTS false
#else
#define COUNTS true
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

void *malloc(size_t n)
{
    n_allocations++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t bytes)
{
    n_allocations++;
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t n)
{
    n_allocations++;
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    n_allocations++;
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    n_allocations++;
    *out = __libc_memalign(alignment, n);
    return *out ? 0 : 12;
}
#endif

#endif
