#include "train/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum err_code arena_init(struct arena *s, size_t bytes, struct err *err)
{
    size_t size = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu MiB of tensors", size >> 20);
    (void)madvise(base, size, MADV_HUGEPAGE); /* fewer TLB misses; works without, too */
    *s = (struct arena){.base = base, .size = size};
    return ERR_OK;
}

void arena_deinit(struct arena *s)
{
    if (s->base)
        (void)munmap(s->base, s->size);
    *s = (struct arena){0};
}

void *arena_take(struct arena *s, size_t bytes)
{
    size_t at = s->used;

    s->used += (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    if (!s->base)
        return NULL;
    assert(s->used <= s->size);
    return s->base + at;
}

float *arena_floats(struct arena *s, size_t count)
{
    return arena_take(s, count * sizeof(float));
}
