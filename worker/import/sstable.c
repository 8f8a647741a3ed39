#include "import/sstable.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define FOOTER_BYTES  48
#define MAGIC_BYTES   8
#define MAGIC         0xdb4775248b80fb57u
#define TRAILER_BYTES 5 /* of a block: compression, checksum */
#define WORD_BYTES    4 /* of a restart point and of their number */

struct table {
    const char *name;
    const unsigned char *bytes;
    size_t blocks_bytes; /* without the footer */
    sstable_entry_fn *fn;
    void *arg;
    char last[SSTABLE_KEY_MAX_BYTES]; /* the last key */
    size_t last_len;
    bool has_last;
};

/* The entries of one block. */
struct block {
    const unsigned char *at;
    const unsigned char *end;
    uint64_t offset; /* in the file, for errors */
    char key[SSTABLE_KEY_MAX_BYTES];
    size_t key_len;
    const unsigned char *value;
    size_t value_len;
};

bool sstable_varint(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;

        if (shift == 63 && byte > 1)
            return false;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

uint32_t sstable_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static enum err_code damaged(const struct table *t, uint64_t offset, const char *what,
                             struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: block at byte %llu: %s; copy the file again", t->name,
                   (unsigned long long)offset, what);
}

/* `at` is where its handle lies: offset and size. */
static enum err_code open_block(const struct table *t, const unsigned char **at,
                                const unsigned char *end, struct block *out, struct err *err)
{
    const unsigned char *start;
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t n_restarts;

    if (!sstable_varint(at, end, &offset) || !sstable_varint(at, end, &size))
        return damaged(t, offset, "its place is not a whole number", err);
    if (offset > t->blocks_bytes || size > t->blocks_bytes - offset ||
        t->blocks_bytes - offset - size < TRAILER_BYTES || size < 2 * WORD_BYTES)
        return damaged(t, offset, "it does not lie inside the file", err);
    start = t->bytes + offset;
    if (bytes_get(start + size + 1, 4) != sstable_mask(crc32c(0, start, (size_t)size + 1)))
        return damaged(t, offset, "its checksum is wrong", err);
    if (start[size] != 0)
        return err_set(err, ERR_INVALID,
                       "%s: block at byte %llu is compressed, which TensorFlow's own Saver never "
                       "does; save the checkpoint with it",
                       t->name, (unsigned long long)offset);
    n_restarts = bytes_get(start + size - WORD_BYTES, WORD_BYTES);
    if (n_restarts < 1 || n_restarts > size / WORD_BYTES - 1)
        return damaged(t, offset, "its restart points do not fit into it", err);
    *out = (struct block){
        .at = start, .end = start + size - (n_restarts + 1) * WORD_BYTES, .offset = offset};
    return ERR_OK;
}

/* The next entry of a block that has one. */
static enum err_code next_entry(const struct table *t, struct block *b, struct err *err)
{
    uint64_t shared, rest, value_len;

    if (!sstable_varint(&b->at, b->end, &shared) || !sstable_varint(&b->at, b->end, &rest) ||
        !sstable_varint(&b->at, b->end, &value_len))
        return damaged(t, b->offset, "an entry is truncated", err);
    if (shared > b->key_len || rest > SSTABLE_KEY_MAX_BYTES - shared)
        return damaged(t, b->offset, "a key is too long", err);
    if (rest > (uint64_t)(b->end - b->at) || value_len > (uint64_t)(b->end - b->at) - rest)
        return damaged(t, b->offset, "an entry is longer than the block", err);
    memcpy(b->key + shared, b->at, (size_t)rest);
    b->key_len = (size_t)(shared + rest);
    b->value = b->at + rest;
    b->value_len = (size_t)value_len;
    b->at = b->value + value_len;
    return ERR_OK;
}

static enum err_code read_block(struct table *t, const unsigned char *at, const unsigned char *end,
                                struct err *err)
{
    struct block b;
    enum err_code rc = open_block(t, &at, end, &b, err);

    /* Otherwise the index could name one large block many times, and each costs a checksum. */
    if (rc == ERR_OK && b.at == b.end)
        rc = damaged(t, b.offset, "it has no entries", err);
    while (rc == ERR_OK && b.at < b.end) {
        int order;

        rc = next_entry(t, &b, err);
        if (rc != ERR_OK)
            break;
        /* Keys are ordered by bytes, prefixes first. */
        order = memcmp(b.key, t->last, b.key_len < t->last_len ? b.key_len : t->last_len);
        if (t->has_last && (order < 0 || (order == 0 && b.key_len <= t->last_len)))
            return damaged(t, b.offset, "its keys do not rise", err);
        memcpy(t->last, b.key, b.key_len);
        t->last_len = b.key_len;
        t->has_last = true;
        rc = t->fn(t->arg, b.key, b.key_len, b.value, b.value_len, err);
    }
    return rc;
}

enum err_code sstable_read(const char *name, const unsigned char *bytes, size_t len,
                           sstable_entry_fn *fn, void *arg, struct err *err)
{
    struct table t = {.name = name, .bytes = bytes, .fn = fn, .arg = arg};
    const unsigned char *at;
    const unsigned char *end;
    struct block index;
    uint64_t unused;
    enum err_code rc;

    if (len < FOOTER_BYTES || bytes_get(bytes + len - MAGIC_BYTES, MAGIC_BYTES) != MAGIC)
        return err_set(err, ERR_INVALID,
                       "%s: truncated, or not the index of a checkpoint; copy it again", name);
    t.blocks_bytes = len - FOOTER_BYTES;
    at = bytes + t.blocks_bytes;
    end = bytes + len - MAGIC_BYTES;
    /* First the meta index: not needed. */
    if (!sstable_varint(&at, end, &unused) || !sstable_varint(&at, end, &unused))
        return damaged(&t, t.blocks_bytes, "the footer is empty", err);
    rc = open_block(&t, &at, end, &index, err);
    while (rc == ERR_OK && index.at < index.end) {
        rc = next_entry(&t, &index, err);
        if (rc == ERR_OK)
            rc = read_block(&t, index.value, index.value + index.value_len, err);
    }
    return rc;
}
