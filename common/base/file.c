#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 65536

enum err_code file_error(struct err *err, const char *what, const char *path)
{
    int code = errno;
    enum err_code rc = ERR_IO;

    if (code == ENOENT || code == ENOTDIR)
        rc = ERR_NOT_FOUND;
    else if (code == EACCES || code == EPERM || code == EROFS)
        rc = ERR_DENIED;
    return err_set(err, rc, "%s %s: %s", what, path, strerror(code));
}

enum err_code file_read(const char *path, struct buf *out, struct err *err)
{
    char chunk[CHUNK_BYTES];
    enum err_code rc = ERR_OK;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_error(err, "open", path);
    while (rc == ERR_OK && (n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0) {
            rc = errno == EINTR ? ERR_OK : file_error(err, "read", path);
            continue;
        }
        rc = buf_add(out, chunk, (size_t)n, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "read %s", path);
    }
    close(fd);
    return rc;
}

static enum err_code write_all(int fd, const char *path, const void *bytes, size_t n,
                               struct err *err)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t done = write(fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return file_error(err, "write", path);
        p += done;
        n -= (size_t)done;
    }
    return fsync(fd) == 0 ? ERR_OK : file_error(err, "sync", path);
}

/* Without this a power cut may forget the rename. */
static enum err_code sync_folder_of(const char *path, struct err *err)
{
    char copy[PATH_MAX];
    int fd;
    int failed;

    (void)snprintf(copy, sizeof copy, "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_error(err, "open the folder of", path);
    failed = fsync(fd);
    close(fd);
    return failed ? file_error(err, "sync the folder of", path) : ERR_OK;
}

enum err_code file_write(const char *path, const void *bytes, size_t n, struct err *err)
{
    char part[PATH_MAX];
    enum err_code rc;
    int fd;

    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part)
        return err_set(err, ERR_LIMIT, "path too long: %.80s", path);
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return file_error(err, "create", part);
    rc = write_all(fd, part, bytes, n, err);
    if (close(fd) != 0 && rc == ERR_OK)
        rc = file_error(err, "close", part);
    if (rc == ERR_OK && rename(part, path) != 0)
        rc = file_error(err, "rename to", path);
    if (rc != ERR_OK) {
        (void)unlink(part);
        return rc;
    }
    return sync_folder_of(path, err);
}
