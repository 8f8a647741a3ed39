/* wire/hello.h - the first frames in both directions of a connection: identity and proof.
 *
 *     acceptor -> dialer   CHALLENGE  a nonce
 *     dialer -> acceptor   HELLO      its identity, a nonce, a signature over both nonces
 *     acceptor -> dialer   HELLO      likewise
 *
 * Plan and revision are in every frame's header; a HELLO holds the rest that both ends must agree
 * on before a tensor moves. Both signatures need the key that the job's workers share, and cover
 * the sender's role, plan, revision, all fields and both nonces: a HELLO that was overheard is
 * useless on another connection, or in the other direction. The acceptor reveals nothing of its job
 * to a peer that has not proved that it belongs to it. Layer: wire (may use base). Threads: any.
 */
#ifndef WIRE_HELLO_H
#define WIRE_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hmac.h"

#define HELLO_NONCE_BYTES 32
#define HELLO_BYTES       (40 + HELLO_NONCE_BYTES + HMAC_BYTES)

struct hello {
    uint32_t from; /* the sender's number in the job ... */
    uint32_t from_incarnation;
    uint32_t to; /* ... and which worker it expects to be connected to */
    uint32_t to_incarnation;
    uint32_t edge; /* the edge's number */
    uint32_t meta_max_bytes;
    uint64_t tensor_max_bytes;
    uint8_t nonce[HELLO_NONCE_BYTES]; /* the sender's; the acceptor's is that of its CHALLENGE */
    uint8_t mac[HMAC_BYTES];          /* over all of the above, see hello_sign() */
};

/* What else a HELLO's signature covers. */
struct hello_context {
    struct hmac_key key;
    bool is_dialer;     /* the sender */
    uint64_t plan_hash; /* of the frame's header, like the revision */
    uint32_t revision;
    uint8_t peer_nonce[HELLO_NONCE_BYTES]; /* of the end that receives this HELLO */
};

void hello_encode(const struct hello *hello, uint8_t out[static HELLO_BYTES]);

/* ERR_PROTOCOL when `n` bytes are no HELLO; the caller checks its numbers. */
MUST_CHECK enum err_code hello_decode(const uint8_t *bytes, uint32_t n, struct hello *out,
                                      struct err *err);

/* Fill in hello->mac. ERR_NO_MEMORY. */
MUST_CHECK enum err_code hello_sign(struct hello *hello, const struct hello_context *context,
                                    struct err *err);
/* Does its sender have the key, and does it answer `context->peer_nonce`? */
bool hello_is_signed(const struct hello *hello, const struct hello_context *context);

#endif
