/* wire/hello.h - the first frame in both directions of a connection: who speaks, and about what.
 *
 * Job and attempt are in every frame's header; a HELLO's meta data holds the rest that both ends
 * must agree on before a tensor moves. Layer: wire (may use base). Threads: any.
 */
#ifndef WIRE_HELLO_H
#define WIRE_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HELLO_BYTES 40

struct hello {
    uint32_t from_stage; /* who speaks */
    uint32_t to_stage;   /* whom it believes to speak to */
    uint32_t n_stages;
    bool is_backward; /* the edge is one for gradients */
    uint64_t plan_hash;
    uint64_t tensor_max_bytes;
    uint32_t meta_max_bytes;
};

void hello_encode(const struct hello *hello, uint8_t out[static HELLO_BYTES]);

/* ERR_PROTOCOL when `n` bytes are no HELLO; what its numbers mean is the caller's to judge. */
MUST_CHECK enum err_code hello_decode(const uint8_t *bytes, uint32_t n, struct hello *out,
                                      struct err *err);

#endif
