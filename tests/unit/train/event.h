/* Reads an event file of TensorBoard back, with a parser of its own: records with their checksums,
 * and of the protocol buffers the fields of scalars. */
#ifndef TEST_EVENT_H
#define TEST_EVENT_H

#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"

#define EVENT_VALUES_MAX 32

struct event {
    double wall_seconds;
    int64_t step;
    char version[32];
    int n_values;
    struct {
        char tag[80];
        float value;
    } values[EVENT_VALUES_MAX];
};

static inline uint64_t event_varint(const uint8_t **at, const uint8_t *end)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(*at < end);
        v |= (uint64_t)(**at & 0x7f) << shift;
        if (!(*(*at)++ & 0x80))
            return v;
    }
    fail_msg("a varint of more than ten bytes");
    return 0;
}

/* The field at *at: its number, and its bytes or its value. */
struct event_field {
    int number;
    const uint8_t *bytes;
    size_t n;
    uint64_t varint;
};

static inline struct event_field event_field(const uint8_t **at, const uint8_t *end)
{
    uint64_t key = event_varint(at, end);
    struct event_field f = {.number = (int)(key >> 3)};

    if ((key & 7) == 0) {
        f.varint = event_varint(at, end);
        return f;
    }
    assert_true((key & 7) == 1 || (key & 7) == 2 || (key & 7) == 5);
    f.n = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : (size_t)event_varint(at, end);
    assert_true(f.n <= (size_t)(end - *at));
    f.bytes = *at;
    *at += f.n;
    return f;
}

static inline void event_value(struct event *e, struct event_field value)
{
    int i = e->n_values++;

    assert_true(i < EVENT_VALUES_MAX);
    for (const uint8_t *at = value.bytes, *end = at + value.n; at < end;) {
        struct event_field f = event_field(&at, end);

        assert_in_range(f.number, 1, 2);
        if (f.number == 1) {
            assert_true(f.n < sizeof e->values[i].tag);
            memcpy(e->values[i].tag, f.bytes, f.n);
        } else {
            assert_int_equal(f.n, 4);
            memcpy(&e->values[i].value, f.bytes, 4);
        }
    }
}

static inline uint32_t event_crc(const uint8_t *bytes, size_t n)
{
    uint32_t crc = crc32c_by_table(0, bytes, n);

    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

/* The record at *place, which is moved behind it; false at the end. */
static inline bool event_next(const struct buf *file, size_t *place, struct event *out)
{
    const uint8_t *record = (const uint8_t *)buf_text(file) + *place;
    size_t n;

    *out = (struct event){.step = 0};
    if (*place == file->len)
        return false;
    assert_true(file->len - *place >= 16);
    n = (size_t)bytes_get(record, 8);
    assert_true(n <= file->len - *place - 16);
    assert_int_equal(bytes_get(record + 8, 4), event_crc(record, 8));
    assert_int_equal(bytes_get(record + 12 + n, 4), event_crc(record + 12, n));
    *place += 16 + n;
    for (const uint8_t *at = record + 12, *end = at + n; at < end;) {
        struct event_field f = event_field(&at, end);

        if (f.number == 1)
            memcpy(&out->wall_seconds, f.bytes, 8);
        else if (f.number == 2)
            out->step = (int64_t)f.varint;
        else if (f.number == 3)
            memcpy(out->version, f.bytes, f.n);
        else if (f.number == 5)
            for (const uint8_t *v = f.bytes, *last = v + f.n; v < last;)
                event_value(out, event_field(&v, last));
        else
            fail_msg("field %d of an event", f.number);
    }
    return true;
}

#endif
