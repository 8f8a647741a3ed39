/* TensorFlow's checkpoints: every tensor that is handed out lies in a data file, has the bytes of
 * its shape and the checksum of its entry.
 *
 * An input is a list of orders from which a table is made, with the checksums it needs to be read:
 * entries with fields or with bytes of the input's own, where a block ends, and bytes to be changed
 * at last, before the checksums are made. So the fuzzer need not guess CRCs, and still can damage
 * everything behind them.
 */
#include "import/bundle.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "import/sstable.h"
#include "memory_file.h"

#define TABLE_MAX_BYTES  16384
#define BLOCK_MAX_BYTES  4096
#define NAME_MAX_BYTES   4
#define NAMES_MAX        64
#define PATCHES_MAX      8
#define DATA_BYTES       64
#define SHARDS           2
#define FOOTER_BYTES     48
#define FOOTER_MAGIC     0xdb4775248b80fb57u
#define DT_MAX           20
#define WIRE_VARINT(tag) (uint8_t)((tag) << 3)
#define WIRE_BYTES(tag)  (uint8_t)((tag) << 3 | 2)
#define WIRE_FIXED(tag)  (uint8_t)((tag) << 3 | 5)

/* What is left of the input: zeros when nothing is. */
struct input {
    const uint8_t *at;
    size_t n;
};

struct block {
    uint8_t bytes[BLOCK_MAX_BYTES];
    size_t n;
    char last[2]; /* a key that is not below those in it */
};

struct maker {
    uint8_t table[TABLE_MAX_BYTES];
    size_t n;
    struct block data, index;
    uint8_t patches[PATCHES_MAX][3]; /* where, in two bytes, and what */
    int n_patches;
    char names[NAMES_MAX][NAME_MAX_BYTES + 1]; /* of tensors */
    int n_names;
};

static struct memory_file index_file, data_files[SHARDS];
static uint8_t data[SHARDS][DATA_BYTES];
static char folder[] = "/tmp/fuzz-bundle-XXXXXX";

static uint8_t take(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->at++;
}

static void put_varint(uint8_t *to, size_t *n, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        to[(*n)++] = (uint8_t)(v | 0x80);
    to[(*n)++] = (uint8_t)v;
}

static void put_entry(struct block *b, const void *key, size_t key_len, const void *value,
                      size_t value_len)
{
    if (b->n + key_len + value_len + 40 > sizeof b->bytes)
        return;
    put_varint(b->bytes, &b->n, 0);
    put_varint(b->bytes, &b->n, key_len);
    put_varint(b->bytes, &b->n, value_len);
    memcpy(b->bytes + b->n, key, key_len);
    b->n += key_len;
    memcpy(b->bytes + b->n, value, value_len);
    b->n += value_len;
}

static void put_handle(uint8_t *to, size_t *n, uint64_t offset, uint64_t size)
{
    put_varint(to, n, offset);
    put_varint(to, n, size);
}

/* Move the block into the table, with its restart point and trailer. Writes its handle. */
static size_t end_block(struct maker *m, struct block *b, uint8_t *handle)
{
    size_t size = b->n + 8, n = 0;
    uint8_t *start = m->table + m->n;

    if (m->n + size + 5 + FOOTER_BYTES > sizeof m->table)
        return 0;
    memcpy(start, b->bytes, b->n);
    bytes_put(start + b->n, 0, 4);
    bytes_put(start + b->n + 4, 1, 4);
    start[size] = 0;
    for (int i = 0; i < m->n_patches; i++) {
        size_t place = bytes_get(m->patches[i], 2);

        if (place >= m->n && place - m->n < size)
            m->table[place] ^= m->patches[i][2];
    }
    bytes_put(start + size + 1, sstable_mask(crc32c(0, start, size + 1)), 4);
    put_handle(handle, &n, m->n, size);
    m->n += size + 5;
    b->n = 0;
    return n;
}

static void cut_block(struct maker *m)
{
    uint8_t handle[20];
    size_t n;

    if (m->data.n == 0)
        return;
    n = end_block(m, &m->data, handle);
    put_entry(&m->index, m->data.last, sizeof m->data.last, handle, n);
}

static void make_header(struct maker *m, struct input *in)
{
    uint8_t value[8];
    size_t n = 0;

    value[n++] = WIRE_VARINT(1);
    value[n++] = 1 + take(in) % SHARDS;
    value[n++] = WIRE_VARINT(2);
    value[n++] = take(in) == 255;
    put_entry(&m->data, "", 0, value, n);
}

static void put_shape(uint8_t *value, size_t *n, struct input *in)
{
    int n_dims = take(in) % 4;

    value[(*n)++] = WIRE_BYTES(2);
    value[(*n)++] = (uint8_t)(4 * n_dims);
    for (int d = 0; d < n_dims; d++) {
        value[(*n)++] = WIRE_BYTES(2);
        value[(*n)++] = 2;
        value[(*n)++] = WIRE_VARINT(1);
        value[(*n)++] = take(in) % 0x80;
    }
}

/* A name that the test asks for afterwards. */
static size_t make_name(struct maker *m, struct input *in, char name[NAME_MAX_BYTES + 1])
{
    size_t n = 1 + take(in) % NAME_MAX_BYTES;

    memset(name, 0, NAME_MAX_BYTES + 1);
    for (size_t i = 0; i < n; i++)
        name[i] = (char)take(in);
    if (m->n_names < NAMES_MAX)
        memcpy(m->names[m->n_names++], name, NAME_MAX_BYTES + 1);
    m->data.last[0] = m->data.last[1] = name[0];
    return n;
}

static void make_tensor(struct maker *m, struct input *in)
{
    char name[NAME_MAX_BYTES + 1];
    uint8_t value[64], crc[4];
    size_t n = 0, name_len = make_name(m, in, name);
    int shard;
    size_t offset, size;

    value[n++] = WIRE_VARINT(1);
    value[n++] = take(in) % DT_MAX;
    put_shape(value, &n, in);
    shard = take(in) % (SHARDS + 1);
    offset = take(in) % (DATA_BYTES + 2);
    size = take(in) % (DATA_BYTES + 2);
    value[n++] = WIRE_VARINT(3);
    value[n++] = (uint8_t)shard;
    value[n++] = WIRE_VARINT(4);
    value[n++] = (uint8_t)offset;
    value[n++] = WIRE_VARINT(5);
    value[n++] = (uint8_t)size;
    value[n++] = WIRE_FIXED(6);
    bytes_put(crc, take(in), 4);
    if (crc[0] != 255 && shard < SHARDS && offset + size <= DATA_BYTES)
        bytes_put(crc, sstable_mask(crc32c(0, data[shard] + offset, size)), 4);
    memcpy(value + n, crc, sizeof crc);
    put_entry(&m->data, name, name_len, value, n + sizeof crc);
}

static void make_raw(struct maker *m, struct input *in)
{
    char name[NAME_MAX_BYTES + 1];
    size_t name_len = make_name(m, in, name), n = take(in) % 32;

    n = n < in->n ? n : in->n;
    put_entry(&m->data, name, name_len, in->at, n);
    in->at += n;
    in->n -= n;
}

static void make_patch(struct maker *m, struct input *in)
{
    uint8_t *patch = m->patches[m->n_patches < PATCHES_MAX ? m->n_patches++ : 0];

    for (int i = 0; i < 3; i++)
        patch[i] = take(in);
}

static void make_table(struct maker *m, struct input in)
{
    static void (*const orders[])(struct maker *, struct input *) = {make_tensor, make_raw,
                                                                     make_patch, make_header};
    size_t n = 0;
    uint8_t *footer;

    m->n = m->data.n = m->index.n = 0;
    m->n_patches = m->n_names = 0;
    memset(m->data.last, 0, sizeof m->data.last);
    make_header(m, &in);
    while (in.n > 0) {
        uint8_t order = take(&in);

        if (order >= 0xf0)
            cut_block(m);
        else
            orders[order % 4](m, &in);
    }
    cut_block(m);
    footer = m->table + sizeof m->table - FOOTER_BYTES;
    memset(footer, 0, FOOTER_BYTES);
    put_handle(footer, &n, 0, 0);
    (void)end_block(m, &m->index, footer + n);
    memmove(m->table + m->n, footer, FOOTER_BYTES);
    bytes_put(m->table + m->n + FOOTER_BYTES - 8, FOOTER_MAGIC, 8);
    m->n += FOOTER_BYTES;
}

static void remove_folder(void)
{
    char path[64];

    (void)snprintf(path, sizeof path, "%s/b.index", folder);
    (void)unlink(path);
    for (int i = 0; i < SHARDS; i++)
        for (int n = 1; n <= SHARDS; n++) {
            (void)snprintf(path, sizeof path, "%s/b.data-%05d-of-%05d", folder, i, n);
            (void)unlink(path);
        }
    (void)rmdir(folder);
}

/* A checkpoint whose files are links to memory. */
static void make_folder(void)
{
    char path[64];

    MUST(mkdtemp(folder));
    MUST(atexit(remove_folder) == 0);
    memory_file_init(&index_file);
    (void)snprintf(path, sizeof path, "%s/b.index", folder);
    MUST(symlink(index_file.path, path) == 0);
    for (int i = 0; i < SHARDS; i++) {
        for (int k = 0; k < DATA_BYTES; k++)
            data[i][k] = (uint8_t)(k * 37 + i); /* finite and not, as floats */
        memory_file_init(&data_files[i]);
        memory_file_put(&data_files[i], data[i], DATA_BYTES);
        for (int n = 1; n <= SHARDS; n++) {
            (void)snprintf(path, sizeof path, "%s/b.data-%05d-of-%05d", folder, i, n);
            MUST(symlink(data_files[i].path, path) == 0);
        }
    }
}

/* All the bytes that belong to a tensor are there, in one of the data files. */
static void check_weight(const struct weight *w)
{
    float out[DATA_BYTES];
    size_t bytes = w->count * (w->type == WEIGHT_F32 ? 4 : 2), count = 1;
    bool is_found = false;

    for (int d = 0; d < w->n_dims; d++)
        count *= (size_t)w->dims[d];
    MUST(count == w->count);
    if (w->type == WEIGHT_OTHER)
        return;
    MUST(bytes <= DATA_BYTES);
    for (int i = 0; i < SHARDS; i++)
        for (size_t at = 0; at + bytes <= DATA_BYTES; at++)
            is_found = is_found || bytes == 0 || memcmp(w->data, data[i] + at, bytes) == 0;
    MUST(is_found);
    if (weight_read(w, out, NULL) == ERR_OK)
        for (size_t i = 0; i < w->count; i++)
            MUST(isfinite(out[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct maker m;
    struct bundle *b = NULL;
    struct err err = {0};
    char prefix[64];
    enum err_code rc;

    if (index_file.fd == 0)
        make_folder();
    make_table(&m, (struct input){bytes, n});
    memory_file_put(&index_file, m.table, m.n);
    (void)snprintf(prefix, sizeof prefix, "%s/b", folder);
    rc = bundle_open(prefix, &b, &err);
    MUST(rc == err.code);
    MUST(rc == ERR_OK || (rc == ERR_INVALID && strncmp(err.text, folder, strlen(folder)) == 0));
    for (int i = 0; rc == ERR_OK && i < m.n_names; i++) {
        struct weight w;

        if (bundle_find(b, m.names[i], &w, NULL) == ERR_OK) {
            MUST(strcmp(w.name, m.names[i]) == 0);
            check_weight(&w);
        }
    }
    bundle_close(b);
    return 0;
}
