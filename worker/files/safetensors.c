#include "files/safetensors.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define LENGTH_BYTES 8 /* of the number in front of the header */

/* --- writing --- */

enum err_code safetensors_begin(const char *path, const struct model_tensor *tensors, int n,
                                struct safetensors_writer *out, struct err *err)
{
    struct buf header = {.max = SAFETENSORS_HEADER_MAX_BYTES};
    struct safetensors_writer w = {.left = 0};
    uint8_t length[LENGTH_BYTES];
    struct jsonw json;
    enum err_code rc;

    jsonw_init(&json, &header);
    jsonw_open_object(&json, NULL);
    jsonw_open_object(&json, "__metadata__"); /* transformers requires it */
    jsonw_string(&json, "format", "pt");
    jsonw_close(&json);
    for (int i = 0; i < n; i++) {
        jsonw_open_object(&json, tensors[i].name);
        jsonw_string(&json, "dtype", "F32");
        jsonw_open_array(&json, "shape");
        for (int k = 0; k < tensors[i].n_dims; k++)
            jsonw_int(&json, NULL, tensors[i].dims[k]);
        jsonw_close(&json);
        jsonw_open_array(&json, "data_offsets");
        jsonw_int(&json, NULL, (int64_t)(w.left * sizeof(float)));
        w.left += tensors[i].count;
        jsonw_int(&json, NULL, (int64_t)(w.left * sizeof(float)));
        jsonw_close(&json);
        jsonw_close(&json);
    }
    jsonw_close(&json);
    rc = jsonw_finish(&json, err);
    while (rc == ERR_OK && header.len % 8 != 0) /* the data is to be aligned */
        rc = buf_add(&header, " ", 1, err);
    if (rc == ERR_OK)
        rc = file_begin(&w.file, path, err);
    if (rc == ERR_OK) {
        bytes_put(length, header.len, LENGTH_BYTES);
        w.header_crc = crc32c(crc32c(0, length, LENGTH_BYTES), header.data, header.len);
        w.file_bytes = LENGTH_BYTES + header.len + w.left * sizeof(float);
        rc = file_add(&w.file, length, LENGTH_BYTES, err);
        if (rc == ERR_OK)
            rc = file_add(&w.file, header.data, header.len, err);
        if (rc == ERR_OK)
            *out = w;
        else
            file_abandon(&w.file);
    }
    buf_deinit(&header);
    return rc;
}

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "floats are written as they lie in memory");

enum err_code safetensors_put(struct safetensors_writer *w, const float *data, size_t count,
                              struct err *err)
{
    if (count > w->left)
        return err_set(err, ERR_INVALID, "%s: more floats than its tensors hold", w->file.path);
    w->left -= count;
    return file_add(&w->file, data, count * sizeof *data, err);
}

enum err_code safetensors_finish(struct safetensors_writer *w, struct err *err)
{
    if (w->left == 0)
        return file_finish(&w->file, err);
    safetensors_abandon(w);
    return err_set(err, ERR_INVALID, "%s: %llu floats were never written", w->file.path,
                   (unsigned long long)w->left);
}

void safetensors_abandon(struct safetensors_writer *w)
{
    file_abandon(&w->file);
}

/* --- reading --- */

static const struct dtype {
    const char *name;
    enum weight_type type;
    size_t bytes; /* of an element */
} dtypes[] = {
    {"F32", WEIGHT_F32, 4},       {"F16", WEIGHT_F16, 2},       {"BF16", WEIGHT_BF16, 2},
    {"F64", WEIGHT_OTHER, 8},     {"I64", WEIGHT_OTHER, 8},     {"I32", WEIGHT_OTHER, 4},
    {"I16", WEIGHT_OTHER, 2},     {"I8", WEIGHT_OTHER, 1},      {"U64", WEIGHT_OTHER, 8},
    {"U32", WEIGHT_OTHER, 4},     {"U16", WEIGHT_OTHER, 2},     {"U8", WEIGHT_OTHER, 1},
    {"F8_E4M3", WEIGHT_OTHER, 1}, {"F8_E5M2", WEIGHT_OTHER, 1}, {"BOOL", WEIGHT_OTHER, 1},
};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    }
    return NULL;
}

static enum err_code refuse(const struct safetensors *s, const char *tensor, const char *why,
                            struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: tensor \"%.96s\": %s; save the file again", s->name,
                   tensor, why);
}

static enum err_code read_tensor(const struct safetensors *s, const struct json *v,
                                 struct weight *out, struct err *err)
{
    struct weight t = {
        .file = s->name, .name = json_key(v), .type_name = json_text(v, "dtype"), .count = 1};
    const struct dtype *dtype = find_dtype(t.type_name);
    const struct json *shape = json_get(v, "shape");
    const struct json *offsets = json_get(v, "data_offsets");
    const struct json *first = json_first(offsets);
    int64_t begin = json_i64(first, -1);
    int64_t end = first ? json_i64(json_next(first), -1) : -1;

    if (json_kind_of(v) != JSON_OBJECT || json_count(v) != 3)
        return refuse(s, t.name, "it must have dtype, shape and data_offsets and no more", err);
    if (strlen(t.name) < 1 || strlen(t.name) > SAFETENSORS_NAME_MAX_BYTES)
        return refuse(s, t.name, "its name is empty or too long", err);
    if (!dtype)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" has unknown dtype \"%.16s\"; save the file again "
                       "with F32, F16 or BF16",
                       s->name, t.name, t.type_name);
    t.type = dtype->type;
    if (json_kind_of(shape) != JSON_ARRAY || json_count(shape) > WEIGHT_DIMS_MAX)
        return refuse(s, t.name, "\"shape\" is not a list of at most 8 sizes", err);
    for (const struct json *d = json_first(shape); d; d = json_next(d)) {
        int64_t size = json_i64(d, 0);

        if (size < 1 || (uint64_t)size > s->data_bytes / dtype->bytes / t.count)
            return refuse(s, t.name, "its shape does not fit into the file", err);
        t.count *= (size_t)size;
        t.dims[t.n_dims++] = size;
    }
    if (json_kind_of(offsets) != JSON_ARRAY || json_count(offsets) != 2 || begin < 0 ||
        end < begin || (uint64_t)end > s->data_bytes)
        return refuse(s, t.name, "\"data_offsets\" lie outside the file", err);
    if ((uint64_t)(end - begin) != t.count * dtype->bytes)
        return refuse(s, t.name, "\"data_offsets\" do not fit its shape and dtype", err);
    t.data = s->data + begin;
    *out = t;
    return ERR_OK;
}

static int compare_places(const void *a, const void *b)
{
    const unsigned char *x = ((const struct weight *)a)->data;
    const unsigned char *y = ((const struct weight *)b)->data;

    return x < y ? -1 : x > y;
}

static enum err_code read_tensors(struct safetensors *s, struct err *err)
{
    const unsigned char *next = s->data;
    size_t n = json_count(s->header);
    enum err_code rc = ERR_OK;

    if (json_kind_of(s->header) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s: the header is not a JSON object", s->name);
    if (n > SAFETENSORS_TENSORS_MAX)
        return err_set(err, ERR_LIMIT, "%s: more than %d tensors", s->name,
                       SAFETENSORS_TENSORS_MAX);
    s->tensors = calloc(n + 1, sizeof *s->tensors);
    if (!s->tensors)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu tensors", n);
    for (const struct json *v = json_first(s->header); v; v = json_next(v)) {
        if (strcmp(json_key(v), "__metadata__") == 0)
            continue;
        rc = read_tensor(s, v, &s->tensors[s->n], err);
        if (rc != ERR_OK)
            return rc;
        s->n++;
    }
    /* One after the other, from the first byte to the last: no overlap, no hole, no rest. */
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, compare_places);
    for (int i = 0; i < s->n; i++) {
        const struct weight *t = &s->tensors[i];

        if (t->data != next)
            return refuse(s, t->name,
                          t->data < next ? "its data overlaps another's"
                                         : "there is a hole before its data",
                          err);
        next = t->data + t->count * find_dtype(t->type_name)->bytes;
    }
    if (next != s->data + s->data_bytes)
        return err_set(err, ERR_INVALID,
                       "%s: bytes that belong to no tensor at the end; save the file again",
                       s->name);
    for (int i = 0; i < s->n && rc == ERR_OK; i++)
        rc = map_put(&s->by_name, s->tensors[i].name, &s->tensors[i], err);
    return rc;
}

enum err_code safetensors_open_memory(const char *name, const void *bytes, size_t len,
                                      struct safetensors **out, struct err *err)
{
    struct safetensors *s;
    uint64_t header_bytes = 0;
    enum err_code rc;

    if (len >= LENGTH_BYTES)
        header_bytes = bytes_get(bytes, LENGTH_BYTES);
    if (header_bytes < 2 || header_bytes > len - LENGTH_BYTES)
        return err_set(err, ERR_INVALID, "%s: truncated, or not a safetensors file; copy it again",
                       name);
    if (header_bytes > SAFETENSORS_HEADER_MAX_BYTES || header_bytes > JSON_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%s: header of more than 64 MiB", name);
    s = calloc(1, sizeof *s);
    if (!s || !(s->name = strdup(name))) {
        free(s);
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", name);
    }
    s->data = (const unsigned char *)bytes + LENGTH_BYTES + header_bytes;
    s->data_bytes = len - LENGTH_BYTES - header_bytes;
    s->header_crc = crc32c(0, bytes, LENGTH_BYTES + (size_t)header_bytes);
    rc = json_parse((const char *)bytes + LENGTH_BYTES, (size_t)header_bytes, &s->header, err);
    if (rc != ERR_OK)
        rc = err_wrap(err, rc, "%s: header", name);
    else
        rc = read_tensors(s, err);
    if (rc == ERR_OK)
        *out = s;
    else
        safetensors_close(s);
    return rc;
}

enum err_code safetensors_open(const char *path, struct safetensors **out, struct err *err)
{
    struct mapping map;
    enum err_code rc = mapping_open(path, &map, err);

    if (rc != ERR_OK)
        return rc;
    rc = safetensors_open_memory(path, map.bytes, map.n, out, err);
    if (rc == ERR_OK)
        (*out)->map = map;
    else
        mapping_close(&map);
    return rc;
}

const struct weight *safetensors_find(const struct safetensors *s, const char *name)
{
    return map_get(&s->by_name, name);
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    json_free(s->header);
    free(s->name);
    free(s->tensors);
    map_deinit(&s->by_name);
    mapping_close(&s->map);
    free(s);
}
