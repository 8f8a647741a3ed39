#include "train/scalars.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define VERSION     "brain.Event:2"
#define VALUE_BYTES (SCALARS_TAG_BYTES + 16) /* with its key and length */
#define EVENT_BYTES (SCALARS_MAX * VALUE_BYTES + 64)
#define HEAD_BYTES  12 /* length, and its checksum */
#define FOOT_BYTES  4  /* checksum of the event */
#define MASK        0xa282ead8u

/* Field numbers with the wire types 0 (varint), 1 (8 bytes), 2 (length and bytes), 5 (4 bytes). */
enum {
    EVENT_WALL_TIME = 1 << 3 | 1,
    EVENT_STEP = 2 << 3 | 0,
    EVENT_FILE_VERSION = 3 << 3 | 2,
    EVENT_SUMMARY = 5 << 3 | 2,
    SUMMARY_VALUE = 1 << 3 | 2,
    VALUE_TAG = 1 << 3 | 2,
    VALUE_SIMPLE = 2 << 3 | 5,
};

/* The sizes above leave room for whatever is put. */
struct message {
    uint8_t bytes[EVENT_BYTES];
    size_t n;
};

static void put_varint(struct message *m, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        m->bytes[m->n++] = (uint8_t)(v | 0x80);
    m->bytes[m->n++] = (uint8_t)v;
}

static void put_bytes(struct message *m, int key, const void *bytes, size_t n)
{
    put_varint(m, (uint64_t)key);
    put_varint(m, n);
    memcpy(&m->bytes[m->n], bytes, n);
    m->n += n;
}

static void put_double(struct message *m, int key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_varint(m, (uint64_t)key);
    bytes_put(&m->bytes[m->n], bits, 8);
    m->n += 8;
}

static void put_float(struct message *m, int key, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_varint(m, (uint64_t)key);
    bytes_put(&m->bytes[m->n], bits, 4);
    m->n += 4;
}

/* Checksums of data that may itself contain checksums are rotated and shifted by a constant. */
static uint32_t masked_crc(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(0, bytes, n);

    return (crc >> 15 | crc << 17) + MASK;
}

static enum err_code add_record(struct buf *out, const struct message *event, struct err *err)
{
    uint8_t record[HEAD_BYTES + EVENT_BYTES + FOOT_BYTES];
    uint8_t *foot = &record[HEAD_BYTES + event->n];

    bytes_put(record, event->n, 8);
    bytes_put(record + 8, masked_crc(record, 8), 4);
    memcpy(record + HEAD_BYTES, event->bytes, event->n);
    bytes_put(foot, masked_crc(event->bytes, event->n), 4);
    return buf_add(out, record, HEAD_BYTES + event->n + FOOT_BYTES, err);
}

enum err_code scalars_begin(struct buf *out, double wall_seconds, struct err *err)
{
    struct message event = {.n = 0};

    put_double(&event, EVENT_WALL_TIME, wall_seconds);
    put_bytes(&event, EVENT_FILE_VERSION, VERSION, strlen(VERSION));
    return add_record(out, &event, err);
}

enum err_code scalars_add(struct buf *out, double wall_seconds, int64_t step,
                          const struct scalar *values, int n, struct err *err)
{
    struct message event = {.n = 0};
    struct message summary = {.n = 0};

    assert(n <= SCALARS_MAX);
    for (int i = 0; i < n; i++) {
        struct message value = {.n = 0};

        put_bytes(&value, VALUE_TAG, values[i].tag, strnlen(values[i].tag, SCALARS_TAG_BYTES - 1));
        put_float(&value, VALUE_SIMPLE, (float)values[i].value);
        put_bytes(&summary, SUMMARY_VALUE, value.bytes, value.n);
    }
    put_double(&event, EVENT_WALL_TIME, wall_seconds);
    put_varint(&event, EVENT_STEP);
    put_varint(&event, (uint64_t)step);
    put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.n);
    return add_record(out, &event, err);
}
