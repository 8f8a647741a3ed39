#include "import/bundle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/hash.h"
#include "import/sstable.h"

#define USUAL           "bert_model.ckpt"
#define INDEX_END       ".index"
#define INDEX_MAX_BYTES ((size_t)64 << 20)

struct entry {
    struct weight weight; /* its data comes last, when the data files are open */
    char name[BUNDLE_NAME_MAX_BYTES + 1];
    uint64_t type; /* enum DataType of TensorFlow */
    uint64_t shard;
    uint64_t offset;
    uint64_t bytes;
    uint32_t crc; /* masked */
    bool is_sliced;
};

struct shard {
    struct mapping map;
    char path[PATH_MAX];
};

struct bundle {
    char index_path[PATH_MAX];
    uint64_t n_shards; /* 0 before the header was read */
    bool is_big_endian;
    struct shard *shards;  /* [n_shards]; NULL before they are opened */
    struct entry *entries; /* in the order of their names */
    int n;
    size_t entries_cap;
};

static const struct type {
    uint64_t id;
    const char *name;
    enum weight_type type;
    uint64_t bytes; /* of an element; 0: not known */
} types[] = {
    {0, "of no type", WEIGHT_OTHER, 0},  {1, "DT_FLOAT", WEIGHT_F32, 4},
    {2, "DT_DOUBLE", WEIGHT_OTHER, 8},   {3, "DT_INT32", WEIGHT_OTHER, 4},
    {7, "DT_STRING", WEIGHT_OTHER, 0},   {9, "DT_INT64", WEIGHT_OTHER, 8},
    {14, "DT_BFLOAT16", WEIGHT_BF16, 2}, {19, "DT_HALF", WEIGHT_F16, 2},
};

/* What is not in the table is never read. */
static const struct type *type_of(uint64_t id)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == id)
            return &types[i];
    }
    return &types[0];
}

/* --- protocol buffers, as far as they occur here --- */

struct field {
    uint64_t number;
    uint64_t value;             /* a varint or a fixed number */
    const unsigned char *bytes; /* of a message; NULL when it is none */
    size_t len;
};

struct message {
    const unsigned char *at;
    const unsigned char *end;
    bool is_bad; /* the bytes are no message */
};

/* The next field; false at the end, and where the bytes are no message. */
static bool next_field(struct message *m, struct field *out)
{
    enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
    struct field f = {0};
    uint64_t tag = 0;
    size_t left;

    if (m->at == m->end)
        return false;
    m->is_bad = true;
    if (!sstable_varint(&m->at, m->end, &tag))
        return false;
    f.number = tag >> 3;
    switch (tag & 7) {
    case VARINT:
        if (!sstable_varint(&m->at, m->end, &f.value))
            return false;
        break;
    case LENGTH:
        if (!sstable_varint(&m->at, m->end, &f.value) || f.value > (uint64_t)(m->end - m->at))
            return false;
        f.bytes = m->at;
        f.len = (size_t)f.value;
        m->at += f.len;
        break;
    case FIXED32:
    case FIXED64:
        left = (tag & 7) == FIXED32 ? 4 : 8;
        if ((uint64_t)(m->end - m->at) < left)
            return false;
        f.value = bytes_get(m->at, (int)left);
        m->at += left;
        break;
    default:
        return false;
    }
    m->is_bad = false;
    *out = f;
    return true;
}

#define NUMBERS_MAX 8 /* the fields that are read have smaller numbers */

/* The numbers of a message by field; of a field that is itself a message its bytes. The last of
 * each counts. */
static bool read_message(const unsigned char *bytes, size_t len,
                         struct field out[static NUMBERS_MAX])
{
    struct message m = {bytes, bytes + len, false};
    struct field f;

    memset(out, 0, NUMBERS_MAX * sizeof *out);
    while (next_field(&m, &f)) {
        if (f.number < NUMBERS_MAX)
            out[f.number] = f;
    }
    return !m.is_bad;
}

/* TensorShapeProto; a size of 0 is not written. */
static bool read_shape(struct weight *w, const struct field *shape)
{
    enum { DIM = 2, UNKNOWN_RANK = 3, SIZE = 1 };
    struct message m = {shape->bytes, shape->bytes + shape->len, false};
    struct field f;

    while (next_field(&m, &f)) {
        struct field dim[NUMBERS_MAX];
        uint64_t size;

        if (f.number == UNKNOWN_RANK && f.value != 0)
            return false;
        if (f.number != DIM)
            continue;
        if (!f.bytes || !read_message(f.bytes, f.len, dim))
            return false;
        size = dim[SIZE].value;
        if (w->n_dims == WEIGHT_DIMS_MAX || size > (UINT64_C(1) << 40) ||
            (size > 0 && w->count > (UINT64_C(1) << 40) / size))
            return false;
        w->dims[w->n_dims++] = (int64_t)size;
        w->count *= (size_t)size;
    }
    return !m.is_bad;
}

/* BundleEntryProto. */
static bool read_entry(struct entry *e, const unsigned char *bytes, size_t len)
{
    enum { DTYPE = 1, SHAPE, SHARD, OFFSET, SIZE, CRC, SLICES };
    struct field fields[NUMBERS_MAX];

    if (!read_message(bytes, len, fields))
        return false;
    e->type = fields[DTYPE].value;
    e->shard = fields[SHARD].value;
    e->offset = fields[OFFSET].value;
    e->bytes = fields[SIZE].value;
    e->crc = (uint32_t)fields[CRC].value;
    e->is_sliced = fields[SLICES].number != 0;
    return fields[SHAPE].number == 0 ||
           (fields[SHAPE].bytes && read_shape(&e->weight, &fields[SHAPE]));
}

/* --- the index --- */

static enum err_code take_entry(void *arg, const char *key, size_t key_len,
                                const unsigned char *value, size_t value_len, struct err *err)
{
    enum { N_SHARDS = 1, ENDIANNESS = 2 }; /* of BundleHeaderProto */
    struct bundle *b = arg;
    struct field header[NUMBERS_MAX];
    struct entry *e;
    enum err_code rc;

    if (key_len == 0) {
        if (!read_message(value, value_len, header))
            return err_set(err, ERR_INVALID, "%s: the header is damaged; copy it again",
                           b->index_path);
        b->n_shards = header[N_SHARDS].value;
        b->is_big_endian = header[ENDIANNESS].value != 0;
        return ERR_OK;
    }
    /* Slices of a tensor have keys that begin with a zero; the tensor's own entry refers to them.
     */
    if (key[0] == '\0')
        return ERR_OK;
    if (key_len > BUNDLE_NAME_MAX_BYTES || memchr(key, '\0', key_len))
        return err_set(err, ERR_INVALID,
                       "%s: a key of %zu bytes is not the name of a tensor; copy it again",
                       b->index_path, key_len);
    if (b->n == BUNDLE_TENSORS_MAX)
        return err_set(err, ERR_LIMIT, "%s: more than %d tensors", b->index_path,
                       BUNDLE_TENSORS_MAX);
    rc = array_reserve(&b->entries, sizeof *b->entries, &b->entries_cap, (size_t)b->n + 1, err);
    if (rc != ERR_OK)
        return rc;
    e = &b->entries[b->n];
    *e = (struct entry){.weight = {.count = 1}};
    memcpy(e->name, key, key_len);
    if (!read_entry(e, value, value_len))
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\": its entry is damaged; copy the file again",
                       b->index_path, e->name);
    b->n++;
    return ERR_OK;
}

static enum err_code read_index(struct bundle *b, const char *prefix, struct err *err)
{
    struct mapping map;
    enum err_code rc;

    if (snprintf(b->index_path, sizeof b->index_path, "%s" INDEX_END, prefix) >= PATH_MAX)
        return err_set(err, ERR_INVALID, "the path %.80s is too long", prefix);
    rc = mapping_open(b->index_path, &map, err);
    if (rc != ERR_OK)
        return rc;
    if (map.n > INDEX_MAX_BYTES)
        rc = err_set(err, ERR_LIMIT, "%s: more than 64 MiB", b->index_path);
    else
        rc = sstable_read(b->index_path, map.bytes, map.n, take_entry, b, err);
    mapping_close(&map);
    if (rc != ERR_OK)
        return rc;
    if (b->n_shards < 1 || b->n_shards > BUNDLE_SHARDS_MAX)
        return err_set(err, ERR_INVALID, "%s: no header with 1..%d data files; copy it again",
                       b->index_path, BUNDLE_SHARDS_MAX);
    if (b->is_big_endian)
        return err_set(err, ERR_INVALID,
                       "%s: written on a big-endian machine; save the checkpoint on another one",
                       b->index_path);
    return ERR_OK;
}

/* --- the data files --- */

static enum err_code open_shards(struct bundle *b, const char *prefix, struct err *err)
{
    enum err_code rc = ERR_OK;

    b->shards = calloc((size_t)b->n_shards, sizeof *b->shards);
    if (!b->shards)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d data files", (int)b->n_shards);
    for (uint64_t i = 0; i < b->n_shards && rc == ERR_OK; i++) {
        char *path = b->shards[i].path;

        if (snprintf(path, PATH_MAX, "%s.data-%05llu-of-%05llu", prefix, (unsigned long long)i,
                     (unsigned long long)b->n_shards) >= PATH_MAX)
            return err_set(err, ERR_INVALID, "the path %.80s is too long", prefix);
        rc = mapping_open(path, &b->shards[i].map, err);
        if (rc == ERR_NOT_FOUND)
            rc = err_set(err, ERR_INVALID,
                         "%s: the index names this file, but it is missing; copy the whole "
                         "checkpoint",
                         path);
    }
    return rc;
}

static enum err_code place_entry(struct bundle *b, struct entry *e, struct err *err)
{
    const struct type *type = type_of(e->type);
    const struct shard *shard;

    if (e->shard >= b->n_shards)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" lies in data file %llu of %llu; copy the checkpoint "
                       "again",
                       b->index_path, e->name, (unsigned long long)e->shard,
                       (unsigned long long)b->n_shards);
    shard = &b->shards[e->shard];
    if (e->offset > shard->map.n || e->bytes > shard->map.n - e->offset)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" lies outside of %zu bytes; the file "
                       "is truncated, copy it again",
                       shard->path, e->name, shard->map.n);
    if (type->bytes > 0 && !e->is_sliced && e->bytes != type->bytes * e->weight.count)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" has %llu bytes, which does not match its shape; "
                       "copy the checkpoint again",
                       b->index_path, e->name, (unsigned long long)e->bytes);
    e->weight.file = shard->path;
    e->weight.name = e->name;
    e->weight.type_name = type->name;
    e->weight.type = type->type;
    e->weight.data = shard->map.bytes + e->offset;
    return ERR_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a;
    const struct entry *y = *(struct entry *const *)b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Two tensors never share a byte. */
static enum err_code check_overlaps(const struct bundle *b, struct err *err)
{
    struct entry **list = calloc((size_t)b->n + 1, sizeof *list);
    enum err_code rc = ERR_OK;

    if (!list)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d tensors", b->n);
    for (int i = 0; i < b->n; i++)
        list[i] = &b->entries[i];
    qsort(list, (size_t)b->n, sizeof(struct entry *), compare_places);
    for (int i = 1; i < b->n && rc == ERR_OK; i++) {
        const struct entry *before = list[i - 1];

        if (list[i]->shard == before->shard && list[i]->offset < before->offset + before->bytes)
            rc = err_set(err, ERR_INVALID,
                         "%s: tensors \"%.96s\" and \"%.96s\" overlap; copy the checkpoint again",
                         b->index_path, before->name, list[i]->name);
    }
    free(list);
    return rc;
}

enum err_code bundle_open(const char *prefix, struct bundle **out, struct err *err)
{
    struct bundle *b = calloc(1, sizeof *b);
    enum err_code rc;

    if (!b)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", prefix);
    rc = read_index(b, prefix, err);
    if (rc == ERR_OK)
        rc = open_shards(b, prefix, err);
    for (int i = 0; i < b->n && rc == ERR_OK; i++)
        rc = place_entry(b, &b->entries[i], err);
    if (rc == ERR_OK)
        rc = check_overlaps(b, err);
    if (rc != ERR_OK) {
        bundle_close(b);
        return rc;
    }
    *out = b;
    return ERR_OK;
}

static int compare_name(const void *key, const void *entry)
{
    const struct entry *e = entry;

    return strcmp(key, e->name);
}

enum err_code bundle_find(const struct bundle *b, const char *name, struct weight *out,
                          struct err *err)
{
    const struct entry *e =
        b->n > 0 ? bsearch(name, b->entries, (size_t)b->n, sizeof *e, compare_name) : NULL;

    if (!e)
        return ERR_NOT_FOUND;
    if (e->is_sliced)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" is stored in slices; save the checkpoint without a "
                       "partitioner",
                       b->index_path, name);
    if (e->weight.type != WEIGHT_OTHER &&
        sstable_mask(crc32c(0, e->weight.data, (size_t)e->bytes)) != e->crc)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\": its checksum is wrong; copy the file again",
                       e->weight.file, name);
    *out = e->weight;
    return ERR_OK;
}

void bundle_name(const char *name, char out[static MODEL_NAME_BYTES], bool *out_transposed)
{
    static const struct {
        const char *end, *by;
        bool transposed;
    } ends[] = {
        {"_embeddings.weight", "_embeddings", false},
        {"LayerNorm.weight", "LayerNorm.gamma", false},
        {"LayerNorm.bias", "LayerNorm.beta", false},
        {"predictions.bias", "predictions.output_bias", false},
        {"seq_relationship.weight", "seq_relationship.output_weights", false},
        {"seq_relationship.bias", "seq_relationship.output_bias", false},
        {"classifier.weight", "output_weights", false},
        {"classifier.bias", "output_bias", false},
        {".weight", ".kernel", true},
    };
    size_t i = 0;
    char *layer;

    (void)snprintf(out, MODEL_NAME_BYTES, "%s", name);
    while (i < sizeof ends / sizeof ends[0] && !weight_rename(out, ends[i].end, ends[i].by))
        i++;
    *out_transposed = i < sizeof ends / sizeof ends[0] && ends[i].transposed;
    layer = strstr(out, ".layer.");
    if (layer)
        layer[strlen(".layer")] = '_';
    for (char *p = out; *p; p++)
        *p = *p == '.' ? '/' : *p;
}

enum err_code bundle_find_ours(const void *bundle, const char *name, struct weight *out,
                               struct err *err)
{
    char path[MODEL_NAME_BYTES];
    bool is_transposed;
    enum err_code rc;

    bundle_name(name, path, &is_transposed);
    rc = bundle_find(bundle, path, out, err);
    if (rc == ERR_OK && is_transposed && out->n_dims == 2) {
        int64_t rows = out->dims[0];

        out->is_transposed = true;
        out->dims[0] = out->dims[1];
        out->dims[1] = rows;
    }
    return rc;
}

void bundle_close(struct bundle *b)
{
    if (!b)
        return;
    for (uint64_t i = 0; b->shards && i < b->n_shards; i++)
        mapping_close(&b->shards[i].map);
    free(b->shards);
    free(b->entries);
    free(b);
}

/* --- where it is --- */

enum err_code bundle_prefix(const char *folder, char out[static PATH_MAX], struct err *err)
{
    char found[NAME_MAX + 1] = "";
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    int n = 0;

    if (!dir)
        return file_error(err, "open folder", folder);
    while ((entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');

        if (!end || end == entry->d_name || strcmp(end, INDEX_END) != 0)
            continue;
        n++;
        (void)snprintf(found, sizeof found, "%.*s", (int)(end - entry->d_name), entry->d_name);
    }
    (void)closedir(dir);
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "%s: no TensorFlow checkpoint", folder);
    if (folder_has(folder, USUAL INDEX_END))
        return folder_path(folder, USUAL, out, err);
    if (n > 1)
        return err_set(err, ERR_INVALID,
                       "%s: %d checkpoints (.index files); keep the one to start from", folder, n);
    return folder_path(folder, found, out, err);
}
