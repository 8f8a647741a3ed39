/* wire/frame.h - the header in front of every message between two stages.
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

/* What a frame is about, and which parts it may carry: N nothing, M meta, T tensor, B both. */
#define FRAME_KINDS(X)                                                                             \
    X(HELLO, M)     /* identity and proof, once both nonces are known */                           \
    X(CREDIT, N)    /* `step` = how many frames the receiver has allowed since the start */        \
    X(FORWARD, B)   /* activations of one micro-batch, to the last stage */                        \
    X(BACKWARD, B)  /* gradients of one micro-batch, to the first stage */                         \
    X(STEP_SUM, M)  /* summed over all stages at a step's end: squared norm, times */              \
    X(STEP_END, M)  /* for all stages at a step's end: the totals */                               \
    X(TIE, T)       /* a piece of the word embeddings or of their gradient */                      \
    X(COMMAND, M)   /* the facts of the run, before its first step */                              \
    X(STOP, M)      /* the end of a run: were the files written? */                                \
    X(BYE, N)       /* the last frame of its sender; `step` = frames it has sent or received */    \
    X(CHALLENGE, M) /* a nonce from the acceptor, whose HELLO follows once it is answered */

#define FRAME_ENUM(name, parts) FRAME_##name,
enum frame_kind { FRAME_NONE, FRAME_KINDS(FRAME_ENUM) N_FRAME_KINDS };
#undef FRAME_ENUM

/* Bits of frame_header.flags; other bits are refused. */
#define FRAME_EVAL      0x01u /* no backward pass follows */
#define FRAME_FLAGS_ALL 0x01u

struct frame_header {
    enum frame_kind kind;
    uint32_t flags;     /* FRAME_* bits */
    uint64_t plan_hash; /* of job, attempt and cut: both ends must agree */
    uint32_t attempt;
    uint64_t step;       /* 0-based */
    uint32_t microbatch; /* 0-based within the step */
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

/* What the link itself sends, and the rest: what travels with the data. */
#define FRAME_KINDS_OF_LINK                                                                        \
    (FRAME_KIND_BIT(FRAME_HELLO) | FRAME_KIND_BIT(FRAME_CREDIT) | FRAME_KIND_BIT(FRAME_BYE) |      \
     FRAME_KIND_BIT(FRAME_CHALLENGE))
#define FRAME_KINDS_OF_DATA ((1u << N_FRAME_KINDS) - 2u - FRAME_KINDS_OF_LINK)

/* Write the header of a frame to `out`. `head` must be one that frame_decode() would accept under
 * some limits (a kind and flags that exist, parts that the kind may carry): asserted. */
void frame_encode(const struct frame_header *head, uint8_t out[static FRAME_HEADER_BYTES]);

/* Read a header from the front of `bytes`.
 *
 * Returns ERR_OK        *out is set: the payload follows FRAME_HEADER_BYTES after `bytes`;
 *         ERR_AGAIN     fewer than FRAME_HEADER_BYTES so far, and nothing wrong with them;
 *         ERR_PROTOCOL  this can never become a frame that `limits` allow: drop the connection.
 * Not checked here: plan_hash and attempt (the caller knows them) and the payload's checksum.
 */
MUST_CHECK enum err_code frame_decode(const uint8_t *bytes, size_t n,
                                      const struct frame_limits *limits, struct frame_header *out,
                                      struct err *err);

/* May a frame of this kind have meta data or a tensor at all, if their sizes are not 0? */
bool frame_may_carry(enum frame_kind kind, uint32_t meta_bytes, uint64_t tensor_bytes);

/* "FORWARD"; "unknown" for a number that is no kind. Never NULL. */
const char *frame_kind_name(enum frame_kind kind);

#endif
