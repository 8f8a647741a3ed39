#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES         65536
#define JSON_FILE_MAX_BYTES ((size_t)16 << 20)

enum err_code file_error_code(int number)
{
    if (number == ENOENT || number == ENOTDIR)
        return ERR_NOT_FOUND;
    return number == EACCES || number == EPERM || number == EROFS ? ERR_DENIED : ERR_IO;
}

enum err_code file_error(struct err *err, const char *what, const char *path)
{
    int number = errno;

    return err_set(err, file_error_code(number), "%s %s: %s", what, path, strerror(number));
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

enum err_code file_begin(struct file_writer *w, const char *path, struct err *err)
{
    if (snprintf(w->part, sizeof w->part, "%s.part", path) >= (int)sizeof w->part)
        return err_set(err, ERR_INVALID, "path too long: %.80s", path);
    (void)snprintf(w->path, sizeof w->path, "%s", path);
    w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return w->fd < 0 ? file_error(err, "create", w->part) : ERR_OK;
}

enum err_code file_add(struct file_writer *w, const void *bytes, size_t n, struct err *err)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t done = write(w->fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return file_error(err, "write", w->part);
        p += done;
        n -= (size_t)done;
    }
    return ERR_OK;
}

enum err_code file_sync_folder(const char *folder, struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err_code rc = fd >= 0 && fsync(fd) == 0 ? ERR_OK : file_error(err, "sync", folder);

    if (fd >= 0)
        (void)close(fd);
    return rc;
}

enum err_code file_finish(struct file_writer *w, struct err *err)
{
    enum err_code rc = fsync(w->fd) == 0 ? ERR_OK : file_error(err, "sync", w->part);

    if (close(w->fd) != 0 && rc == ERR_OK)
        rc = file_error(err, "close", w->part);
    if (rc == ERR_OK && rename(w->part, w->path) != 0)
        rc = file_error(err, "rename to", w->path);
    if (rc != ERR_OK) {
        (void)unlink(w->part);
        return rc;
    }
    return file_sync_folder(dirname(w->path), err); /* else a power cut may undo the rename */
}

void file_abandon(struct file_writer *w)
{
    (void)close(w->fd);
    (void)unlink(w->part);
}

enum err_code file_write(const char *path, const void *bytes, size_t n, struct err *err)
{
    struct file_writer w;
    enum err_code rc = file_begin(&w, path, err);

    if (rc != ERR_OK)
        return rc;
    rc = file_add(&w, bytes, n, err);
    if (rc == ERR_OK)
        return file_finish(&w, err);
    file_abandon(&w);
    return rc;
}

enum err_code folder_path(const char *folder, const char *file, char out[static PATH_MAX],
                          struct err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path of folder %.80s is too long", folder);
    return ERR_OK;
}

bool folder_has(const char *folder, const char *file)
{
    char path[PATH_MAX];

    return folder_path(folder, file, path, NULL) == ERR_OK && access(path, F_OK) == 0;
}

enum err_code folder_is_empty(const char *folder, bool *out, struct err *err)
{
    DIR *dir = opendir(folder);
    int n = 0;

    if (!dir)
        return file_error(err, "open folder", folder);
    while (n <= 2 && readdir(dir)) /* "." and ".." are always there */
        n++;
    (void)closedir(dir);
    *out = n <= 2;
    return ERR_OK;
}

enum err_code folder_make(const char *folder, struct err *err)
{
    /* Several stages may create it at the same time. */
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return file_error(err, "create folder", folder);
    return ERR_OK;
}

enum err_code folder_remove(const char *folder, struct err *err)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[PATH_MAX];

    if (!dir)
        return file_error(err, "open", folder);
    while ((entry = readdir(dir)))
        if (folder_path(folder, entry->d_name, path, NULL) == ERR_OK)
            (void)unlink(path);
    (void)closedir(dir);
    return rmdir(folder) == 0 ? ERR_OK : file_error(err, "remove", folder);
}

enum err_code folder_json(const char *folder, const char *file, struct json **out, struct err *err)
{
    struct buf text = {.max = JSON_FILE_MAX_BYTES};
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, file, path, err);

    if (rc == ERR_OK)
        rc = file_read(path, &text, err);
    if (rc == ERR_OK) {
        rc = json_parse(buf_text(&text), text.len, out, err);
        if (rc != ERR_OK)
            err_wrap(err, rc, "%s", path);
    }
    buf_deinit(&text);
    return rc;
}

enum err_code mapping_open(const char *path, struct mapping *out, struct err *err)
{
    static const unsigned char nothing[1]; /* an empty file cannot be mapped */
    struct mapping m = {.bytes = nothing};
    struct stat st;
    void *map;
    enum err_code rc = ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block */

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
    if (m->n > 0)
        munmap((void *)(uintptr_t)m->bytes, m->n);
    *m = (struct mapping){0};
}
