/* wire/frame.h - the header in front of every message between two workers.
 *
 * A frame is a 64-byte little-endian header, `meta_bytes` of meta data (lengths, labels, scalars;
 * opaque here) and `tensor_bytes` of tensor. The codec keeps no state and allocates nothing.
 * Decoding compares lengths with the caller's limits, so a hostile length is refused before memory
 * is set aside for it.
 * Layer: wire (may use base). Threads: any.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FRAME_HEADER_BYTES 64

/* What a frame is, and which parts it may carry: N nothing, M meta, B meta and tensor. */
#define FRAME_KINDS(X)                                                                             \
    X(HELLO, M)     /* identity and proof, once both nonces are known */                           \
    X(CREDIT, N)    /* `step` = how many frames the receiver has allowed since the start */        \
    X(DATA, B)      /* a message of the link's caller */                                           \
    X(BYE, N)       /* the last frame of its sender; `step` = frames it has sent or received */    \
    X(CHALLENGE, M) /* a nonce from the acceptor, whose HELLO follows once it is answered */

#define FRAME_ENUM(name, parts) FRAME_##name,
enum frame_kind { FRAME_NONE, FRAME_KINDS(FRAME_ENUM) N_FRAME_KINDS };
#undef FRAME_ENUM

#define FRAME_TYPE_MAX  255
#define FRAME_FLAGS_MAX 255

struct frame_header {
    enum frame_kind kind;
    uint32_t type;      /* of DATA, at most FRAME_TYPE_MAX: the caller's meaning; opaque here */
    uint32_t flags;     /* of DATA, at most FRAME_FLAGS_MAX: likewise */
    uint64_t plan_hash; /* of the job and its plan: both ends must agree */
    uint32_t revision;
    uint64_t step; /* of DATA the caller's, like the next one */
    uint32_t microbatch;
    uint32_t meta_bytes;
    uint64_t tensor_bytes;
    uint32_t payload_crc; /* crc32c over meta, then tensor; 0 for an empty payload */
};

/* What the caller accepts. */
struct frame_limits {
    uint32_t kinds; /* bit FRAME_KIND_BIT(kind) for each kind that is expected here */
    uint32_t meta_max_bytes;
    uint64_t tensor_max_bytes;
};

#define FRAME_KIND_BIT(kind) (1u << (kind))

/* Write the header of a frame to `out`. `head` must be one that frame_decode() would accept under
 * some limits (a kind that exists, with what it may carry): asserted. */
void frame_encode(const struct frame_header *head, uint8_t out[static FRAME_HEADER_BYTES]);

/* Read a header from the front of `bytes`.
 *
 * Returns ERR_OK        *out is set: the payload follows FRAME_HEADER_BYTES after `bytes`;
 *         ERR_AGAIN     fewer than FRAME_HEADER_BYTES so far, and nothing wrong with them;
 *         ERR_PROTOCOL  this can never become a frame that `limits` allow: drop the connection.
 * Not checked here: plan_hash and revision (the caller knows them) and the payload's checksum.
 */
MUST_CHECK enum err_code frame_decode(const uint8_t *bytes, size_t n,
                                      const struct frame_limits *limits, struct frame_header *out,
                                      struct err *err);

/* May a frame of this kind have meta data or a tensor at all, if their sizes are not 0? */
bool frame_may_carry(enum frame_kind kind, uint32_t meta_bytes, uint64_t tensor_bytes);

/* "CREDIT"; "unknown" for a number that is no kind. Never NULL. */
const char *frame_kind_name(enum frame_kind kind);

#endif
