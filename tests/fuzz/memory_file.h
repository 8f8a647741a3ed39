/* Files for parsers that want a path: in memory, so that a target writes to no disk. */
#ifndef TESTS_FUZZ_MEMORY_FILE_H
#define TESTS_FUZZ_MEMORY_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

struct memory_file {
    int fd;
    char path[32]; /* opens the same bytes, from their start */
};

static inline void memory_file_init(struct memory_file *f)
{
    f->fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(f->fd >= 0);
    (void)snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
}

/* Replace what is in it. Nobody may have it mapped. */
static inline void memory_file_put(const struct memory_file *f, const void *bytes, size_t n)
{
    MUST(ftruncate(f->fd, 0) == 0);
    MUST(pwrite(f->fd, bytes, n, 0) == (ssize_t)n);
}

#endif
