/* wire/reader.h - assembles frames from a connection's bytes, however they are cut.
 *
 * The owner feeds it what arrives. It stops twice per frame: after the header, so that the owner
 * can set where the payload goes, and when the payload is complete and its checksum right. The
 * payload is copied once and nothing is allocated. Layer: wire (may use base). Threads: one.
 */
#ifndef WIRE_READER_H
#define WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/frame.h"

enum reader_phase { READER_HEADER, READER_PLACE, READER_PAYLOAD };

/* A zeroed struct is ready for the first frame. */
struct reader {
    enum reader_phase phase;
    uint8_t bytes[FRAME_HEADER_BYTES]; /* of the header so far */
    size_t n_bytes;
    struct frame_header head; /* good from READER_EVENT_HEADER to READER_EVENT_FRAME */
    uint8_t *meta;            /* borrowed from reader_place() */
    uint8_t *tensor;
    uint64_t n_payload; /* bytes of payload so far */
    uint32_t crc;       /* over them */
};

enum reader_event {
    READER_EVENT_NONE,   /* all bytes are used up: come back with more */
    READER_EVENT_HEADER, /* `head` is set: call reader_place() before feeding on */
    READER_EVENT_FRAME,  /* the frame is complete */
};

/* Take bytes from the front of *bytes (*n of them) up to the next event, and advance both.
 *
 * Returns ERR_OK with *out_event set, or ERR_PROTOCOL: drop the connection and the reader. Call it
 * until READER_EVENT_NONE even when *n has become 0: an empty payload completes without bytes.
 */
MUST_CHECK enum err_code reader_feed(struct reader *r, const struct frame_limits *limits,
                                     const uint8_t **bytes, size_t *n, enum reader_event *out_event,
                                     struct err *err);

/* Set where the payload goes: memory for head.meta_bytes and head.tensor_bytes, which must stay
 * good until READER_EVENT_FRAME. A part of length 0 may be NULL. */
void reader_place(struct reader *r, void *meta, void *tensor);

#endif
