#include "data/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define LENGTH_BYTES 8 /* of the number in front of the header */

struct safetensors {
    struct json *header; /* owns the names */
    struct safetensors_tensor *tensors;
    int n;
    void *map; /* NULL: the caller's memory */
    size_t map_bytes;
};

/* What is being read, for errors and bounds. */
struct source {
    const char *name;
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
};

static enum err_code refuse(const struct source *src, const char *tensor, const char *why,
                            struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: tensor \"%.80s\": %s; write the file anew", src->name,
                   tensor, why);
}

/* `shape`: a list of sizes whose product is *out_count. */
static enum err_code read_shape(const struct source *src, const struct json *v,
                                struct safetensors_tensor *t, uint64_t *out_count, struct err *err)
{
    const struct json *shape = json_get(v, "shape");
    uint64_t count = 1;

    if (json_kind_of(shape) != JSON_ARRAY || json_count(shape) > SAFETENSORS_DIMS_MAX)
        return refuse(src, t->name, "\"shape\" is not a list of at most 8 sizes", err);
    for (const struct json *d = json_first(shape); d; d = json_next(d)) {
        int64_t size = json_i64(d, 0);

        if (size < 1 || (uint64_t)size > src->data_bytes / sizeof(float) / count)
            return refuse(src, t->name, "its shape does not fit into the file", err);
        count *= (uint64_t)size;
        t->dims[t->n_dims++] = size;
    }
    *out_count = count;
    return ERR_OK;
}

static enum err_code read_tensor(const struct source *src, const struct json *v,
                                 struct safetensors_tensor *out, struct err *err)
{
    struct safetensors_tensor t = {.name = json_key(v)};
    const char *dtype = json_string(json_get(v, "dtype"), "");
    const struct json *offsets = json_get(v, "data_offsets");
    const struct json *first = json_first(offsets);
    int64_t begin = json_i64(first, -1);
    int64_t end = first ? json_i64(json_next(first), -1) : -1;
    uint64_t count = 0;
    enum err_code rc;

    if (json_kind_of(v) != JSON_OBJECT || json_count(v) != 3)
        return refuse(src, t.name, "it must have dtype, shape and data_offsets and no more", err);
    if (strlen(t.name) < 1 || strlen(t.name) > SAFETENSORS_NAME_MAX_BYTES)
        return refuse(src, t.name, "its name is empty or too long", err);
    if (strcmp(dtype, "F32") != 0)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.80s\" has dtype \"%.16s\"; only F32 can be read, convert it",
                       src->name, t.name, dtype);
    rc = read_shape(src, v, &t, &count, err);
    if (rc != ERR_OK)
        return rc;
    if (json_kind_of(offsets) != JSON_ARRAY || json_count(offsets) != 2 || begin < 0 ||
        end < begin || (uint64_t)end > src->data_bytes)
        return refuse(src, t.name, "\"data_offsets\" lie outside the file", err);
    if ((uint64_t)(end - begin) != count * sizeof(float))
        return refuse(src, t.name, "\"data_offsets\" do not fit its shape", err);
    if (begin % (int64_t)sizeof(float) != 0)
        return refuse(src, t.name, "its data is not aligned", err);
    t.data = (const float *)(const void *)(src->data + begin);
    t.count = (size_t)count;
    *out = t;
    return ERR_OK;
}

static int compare_places(const void *a, const void *b)
{
    const float *x = ((const struct safetensors_tensor *)a)->data;
    const float *y = ((const struct safetensors_tensor *)b)->data;

    return x < y ? -1 : x > y;
}

/* One tensor after the other, from the first byte to the last: no overlap, no hole, no rest. */
static enum err_code check_cover(const struct source *src, const struct safetensors *s,
                                 struct err *err)
{
    const unsigned char *next = src->data;

    for (int i = 0; i < s->n; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];
        const unsigned char *at = (const unsigned char *)(const void *)t->data;

        if (at != next)
            return refuse(
                src, t->name,
                at < next ? "its data overlaps another's" : "there is a hole before its data", err);
        next = at + t->count * sizeof(float);
    }
    if (next != src->data + src->data_bytes)
        return err_set(err, ERR_INVALID,
                       "%s: bytes that belong to no tensor at the end; write "
                       "the file anew",
                       src->name);
    return ERR_OK;
}

static enum err_code read_tensors(const struct source *src, struct safetensors *s, struct err *err)
{
    size_t n = json_count(s->header);
    enum err_code rc;

    if (json_kind_of(s->header) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s: the header is not a JSON object", src->name);
    if (n > SAFETENSORS_TENSORS_MAX)
        return err_set(err, ERR_LIMIT, "%s: more than %d tensors", src->name,
                       SAFETENSORS_TENSORS_MAX);
    s->tensors = calloc(n + 1, sizeof *s->tensors);
    if (!s->tensors)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu tensors", n);
    for (const struct json *v = json_first(s->header); v; v = json_next(v)) {
        if (strcmp(json_key(v), "__metadata__") == 0)
            continue;
        rc = read_tensor(src, v, &s->tensors[s->n], err);
        if (rc != ERR_OK)
            return rc;
        s->n++;
    }
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, compare_places);
    return check_cover(src, s, err);
}

enum err_code safetensors_open_memory(const char *name, const void *bytes, size_t len,
                                      struct safetensors **out, struct err *err)
{
    struct safetensors *s = NULL;
    struct source src = {.name = name};
    uint64_t header_bytes = 0;
    enum err_code rc;

    if (len >= LENGTH_BYTES) {
        memcpy(&header_bytes, bytes, sizeof header_bytes);
        header_bytes = le64toh(header_bytes);
    }
    if (header_bytes < 2 || header_bytes > len - LENGTH_BYTES)
        return err_set(err, ERR_INVALID, "%s: cut off, or not a safetensors file; copy it again",
                       name);
    if (header_bytes > SAFETENSORS_HEADER_MAX_BYTES || header_bytes > JSON_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%s: header of more than 64 MiB", name);
    if (header_bytes % sizeof(float) != 0)
        return err_set(err, ERR_INVALID,
                       "%s: header of %llu bytes, not a multiple of 4, so that no tensor is "
                       "aligned; write the file anew",
                       name, (unsigned long long)header_bytes);
    src.data = (const unsigned char *)bytes + LENGTH_BYTES + header_bytes;
    src.data_bytes = len - LENGTH_BYTES - header_bytes;
    s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", name);
    rc = json_parse((const char *)bytes + LENGTH_BYTES, (size_t)header_bytes, &s->header, err);
    if (rc != ERR_OK)
        rc = err_wrap(err, rc, "%s: header", name);
    else
        rc = read_tensors(&src, s, err);
    if (rc != ERR_OK) {
        safetensors_close(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

enum err_code safetensors_open(const char *path, struct safetensors **out, struct err *err)
{
    struct stat st;
    void *map = MAP_FAILED;
    enum err_code rc = ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return file_error(err, "open", path);
    if (fstat(fd, &st) != 0)
        rc = file_error(err, "stat", path);
    else if (!S_ISREG(st.st_mode) || st.st_size < LENGTH_BYTES)
        rc = err_set(err, ERR_INVALID, "%s: cut off, or not a safetensors file; copy it again",
                     path);
    else if ((map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        rc = file_error(err, "map", path);
    close(fd);
    if (rc == ERR_OK)
        rc = safetensors_open_memory(path, map, (size_t)st.st_size, out, err);
    if (rc == ERR_OK) {
        (*out)->map = map;
        (*out)->map_bytes = (size_t)st.st_size;
    } else if (map != MAP_FAILED) {
        munmap(map, (size_t)st.st_size);
    }
    return rc;
}

int safetensors_count(const struct safetensors *s)
{
    return s->n;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, int i)
{
    return &s->tensors[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    }
    return NULL;
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    json_free(s->header);
    free(s->tensors);
    if (s->map)
        munmap(s->map, s->map_bytes);
    free(s);
}
