#include "wire/reader.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

static size_t smaller(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

static enum err_code feed_header(struct reader *r, const struct frame_limits *limits,
                                 const uint8_t **bytes, size_t *n, struct err *err)
{
    size_t part = smaller(*n, sizeof r->bytes - r->n_bytes);

    if (part == 0)
        return ERR_AGAIN;
    memcpy(r->bytes + r->n_bytes, *bytes, part);
    r->n_bytes += part;
    *bytes += part;
    *n -= part;
    return frame_decode(r->bytes, r->n_bytes, limits, &r->head, err);
}

static void feed_part(struct reader *r, uint8_t *to, size_t part, const uint8_t **bytes, size_t *n)
{
    memcpy(to, *bytes, part);
    /* Over the copy: what is handed out is what was checked. */
    r->crc = crc32c(r->crc, to, part);
    r->n_payload += part;
    *bytes += part;
    *n -= part;
}

static bool feed_payload(struct reader *r, const uint8_t **bytes, size_t *n)
{
    uint64_t meta = r->head.meta_bytes, all = meta + r->head.tensor_bytes;

    if (*n > 0 && r->n_payload < meta)
        feed_part(r, r->meta + r->n_payload, smaller(*n, meta - r->n_payload), bytes, n);
    if (*n > 0 && r->n_payload >= meta && r->n_payload < all)
        feed_part(r, r->tensor + (r->n_payload - meta), smaller(*n, all - r->n_payload), bytes, n);
    return r->n_payload == all;
}

enum err_code reader_feed(struct reader *r, const struct frame_limits *limits,
                          const uint8_t **bytes, size_t *n, enum reader_event *out_event,
                          struct err *err)
{
    enum err_code rc;

    *out_event = READER_EVENT_NONE;
    switch (r->phase) {
    case READER_HEADER:
        rc = feed_header(r, limits, bytes, n, err);
        if (rc == ERR_AGAIN)
            return ERR_OK;
        if (rc != ERR_OK)
            return rc;
        r->phase = READER_PLACE;
        *out_event = READER_EVENT_HEADER;
        return ERR_OK;
    case READER_PLACE:
        assert(r->phase != READER_PLACE); /* reader_place() was forgotten */
        return ERR_INVALID;
    case READER_PAYLOAD:
        if (!feed_payload(r, bytes, n))
            return ERR_OK;
        r->phase = READER_HEADER;
        r->n_bytes = 0;
        if (r->crc != r->head.payload_crc)
            return err_set(err, ERR_PROTOCOL, "%s frame: the payload has a wrong checksum",
                           frame_kind_name(r->head.kind));
        *out_event = READER_EVENT_FRAME;
        return ERR_OK;
    }
    return ERR_OK;
}

void reader_place(struct reader *r, void *meta, void *tensor)
{
    assert(r->phase == READER_PLACE);
    r->phase = READER_PAYLOAD;
    r->meta = meta;
    r->tensor = tensor;
    r->n_payload = 0;
    r->crc = 0;
}
