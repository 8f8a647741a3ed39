#include "files/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/jsonw.h"

struct safetensors_writer {
    int fd;
    uint64_t left; /* floats announced and not handed over yet */
    char path[PATH_MAX];
    char part[PATH_MAX]; /* the name while it is not complete */
};

static enum err_code write_all(struct safetensors_writer *w, const void *bytes, size_t n,
                               struct err *err)
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

/* Floats of a tensor, 0 when its shape cannot be. */
static uint64_t count_of(const struct safetensors_tensor *t)
{
    uint64_t count = 1;

    if (t->n_dims < 0 || t->n_dims > WEIGHT_DIMS_MAX)
        return 0;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->dims[i] < 1 || (uint64_t)t->dims[i] > (UINT64_C(1) << 50) / count)
            return 0;
        count *= (uint64_t)t->dims[i];
    }
    return count;
}

static enum err_code write_tensor(struct jsonw *json, const struct safetensors_tensor *t,
                                  uint64_t *floats, struct err *err)
{
    uint64_t count = count_of(t);

    if (!t->name || !*t->name || strlen(t->name) > SAFETENSORS_NAME_MAX_BYTES || count == 0)
        return err_set(err, ERR_INVALID, "tensor \"%.60s\" has a shape or name that no file holds",
                       t->name ? t->name : "");
    jsonw_open_object(json, t->name);
    jsonw_string(json, "dtype", "F32");
    jsonw_open_array(json, "shape");
    for (int i = 0; i < t->n_dims; i++)
        jsonw_int(json, NULL, t->dims[i]);
    jsonw_close(json);
    jsonw_open_array(json, "data_offsets");
    jsonw_int(json, NULL, (int64_t)(*floats * sizeof(float)));
    *floats += count;
    jsonw_int(json, NULL, (int64_t)(*floats * sizeof(float)));
    jsonw_close(json);
    jsonw_close(json);
    return ERR_OK;
}

/* The header, filled up with spaces so that the data begins at a multiple of 8 bytes. */
static enum err_code write_header(struct buf *header, const struct safetensors_tensor *tensors,
                                  int n, uint64_t *out_floats, struct err *err)
{
    struct jsonw json;
    uint64_t floats = 0;
    enum err_code rc = ERR_OK;

    jsonw_init(&json, header);
    jsonw_open_object(&json, NULL);
    jsonw_open_object(&json, "__metadata__"); /* transformers asks for it */
    jsonw_string(&json, "format", "pt");
    jsonw_close(&json);
    for (int i = 0; i < n && rc == ERR_OK; i++)
        rc = write_tensor(&json, &tensors[i], &floats, err);
    jsonw_close(&json);
    if (rc == ERR_OK)
        rc = jsonw_finish(&json, err);
    while (rc == ERR_OK && header->len % 8 != 0)
        rc = buf_add(header, " ", 1, err);
    *out_floats = floats;
    return rc;
}

enum err_code safetensors_begin(const char *path, const struct safetensors_tensor *tensors, int n,
                                struct safetensors_writer **out, struct err *err)
{
    struct buf header = {.max = SAFETENSORS_HEADER_MAX_BYTES};
    struct safetensors_writer *w = calloc(1, sizeof *w);
    uint64_t len;
    enum err_code rc;

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "no memory to write %s", path);
    w->fd = -1;
    rc = write_header(&header, tensors, n, &w->left, err);
    if (rc != ERR_OK)
        goto out;
    if (snprintf(w->path, sizeof w->path, "%s", path) >= (int)sizeof w->path - 8) {
        rc = err_set(err, ERR_INVALID, "path too long: %.80s", path);
        goto out;
    }
    (void)snprintf(w->part, sizeof w->part, "%.*s.part", PATH_MAX - 8, path);
    w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (w->fd < 0) {
        rc = file_error(err, "create", w->part);
        goto out;
    }
    len = htole64(header.len);
    rc = write_all(w, &len, sizeof len, err);
    if (rc == ERR_OK)
        rc = write_all(w, header.data, header.len, err);
    if (rc != ERR_OK)
        goto out;

    *out = w;
    w = NULL;
out:
    safetensors_abandon(w);
    buf_deinit(&header);
    return rc;
}

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "floats are written as they lie in memory");

enum err_code safetensors_put(struct safetensors_writer *w, const float *data, size_t count,
                              struct err *err)
{
    if (count > w->left)
        return err_set(err, ERR_INVALID, "%s: more floats than its tensors hold", w->path);
    w->left -= count;
    return write_all(w, data, count * sizeof *data, err);
}

/* Without this a power cut may forget the rename. */
static enum err_code sync_folder(const struct safetensors_writer *w, struct err *err)
{
    char copy[PATH_MAX];
    enum err_code rc = ERR_OK;
    int fd;

    memcpy(copy, w->path, sizeof copy);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        rc = file_error(err, "sync the folder of", w->path);
    if (fd >= 0)
        close(fd);
    return rc;
}

enum err_code safetensors_finish(struct safetensors_writer *w, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (w->left > 0)
        rc = err_set(err, ERR_INVALID, "%s: %llu floats were never handed over", w->path,
                     (unsigned long long)w->left);
    else if (fsync(w->fd) != 0)
        rc = file_error(err, "sync", w->part);
    else if (rename(w->part, w->path) != 0)
        rc = file_error(err, "rename to", w->path);
    if (rc != ERR_OK) {
        safetensors_abandon(w);
        return rc;
    }
    rc = sync_folder(w, err);
    close(w->fd);
    free(w);
    return rc;
}

void safetensors_abandon(struct safetensors_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0) {
        close(w->fd);
        (void)unlink(w->part);
    }
    free(w);
}
