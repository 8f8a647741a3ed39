#include "base/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum err_code mapping_open(const char *path, struct mapping *out, struct err *err)
{
    static const unsigned char nothing[1]; /* an empty file cannot be mapped */
    struct mapping m = {.bytes = nothing};
    struct stat st;
    void *map;
    enum err_code rc = ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_error(err, "open", path);
    if (fstat(fd, &st) != 0)
        rc = file_error(err, "stat", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_INVALID, "%s: not a file", path);
    else
        m.n = (size_t)st.st_size;
    if (m.n > 0) {
        map = mmap(NULL, m.n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            rc = file_error(err, "map", path);
        m.bytes = map;
    }
    close(fd);
    if (rc == ERR_OK)
        *out = m;
    return rc;
}

void mapping_close(struct mapping *m)
{
    /* munmap() wants the pointer that mmap() gave, which was not const. */
    union {
        const unsigned char *bytes;
        void *map;
    } at = {.bytes = m->bytes};

    if (m->n > 0)
        munmap(at.map, m->n);
    *m = (struct mapping){0};
}
