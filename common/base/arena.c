#include "base/arena.h"

#include <assert.h>
#include <sys/mman.h>

#define PAGE_BYTES      ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum err_code arena_init(struct arena *a, size_t bytes, struct err *err)
{
    size_t page = bytes < HUGE_PAGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES;
    size_t size = (bytes + page - 1) / page * page;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu MiB", size >> 20);
    if (page == HUGE_PAGE_BYTES)
        (void)madvise(base, size, MADV_HUGEPAGE); /* fewer TLB misses; works without, too */
    *a = (struct arena){.base = base, .size = size};
    return ERR_OK;
}

void arena_deinit(struct arena *a)
{
    if (a->base)
        (void)munmap(a->base, a->size);
    *a = (struct arena){0};
}

void *arena_take(struct arena *a, size_t bytes)
{
    size_t at = a->used;

    a->used += (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    if (!a->base)
        return NULL;
    assert(a->used <= a->size);
    return a->base + at;
}

float *arena_floats(struct arena *a, size_t count)
{
    return arena_take(a, count * sizeof(float));
}

float *arena_rows(struct arena *a, int rows, int columns)
{
    return arena_floats(a, (size_t)rows * (size_t)columns);
}
