/* nn/philox.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * Four random words are a pure function of a 128-bit counter and a 64-bit key: nothing is carried
 * from one call to the next, so any number of the stream can be had anywhere, in any order. The
 * macros are the two halves of a round, for kernels that run many counters side by side.
 * Layer: nn. Threads: any; pure.
 */
#ifndef NN_PHILOX_H
#define NN_PHILOX_H

#include <stdint.h>

#define PHILOX_MUL0 0xD2511F53u
#define PHILOX_MUL1 0xCD9E8D57u
#define PHILOX_KEY0 0x9E3779B9u
#define PHILOX_KEY1 0xBB67AE85u

/* Round `r` of ten on the words c0..c3 with the key words k0, k1. */
#define PHILOX_ROUND(r)                                                                            \
    do {                                                                                           \
        uint64_t even = (uint64_t)PHILOX_MUL0 * c0;                                                \
        uint64_t odd = (uint64_t)PHILOX_MUL1 * c2;                                                 \
        c0 = (uint32_t)(odd >> 32) ^ c1 ^ (k0 + (r)*PHILOX_KEY0);                                  \
        c1 = (uint32_t)odd;                                                                        \
        c2 = (uint32_t)(even >> 32) ^ c3 ^ (k1 + (r)*PHILOX_KEY1);                                 \
        c3 = (uint32_t)even;                                                                       \
    } while (0)

/* All ten, written out: a loop here would keep compilers from vectorising the loop around it. */
#define PHILOX_ROUNDS()                                                                            \
    do {                                                                                           \
        PHILOX_ROUND(0u);                                                                          \
        PHILOX_ROUND(1u);                                                                          \
        PHILOX_ROUND(2u);                                                                          \
        PHILOX_ROUND(3u);                                                                          \
        PHILOX_ROUND(4u);                                                                          \
        PHILOX_ROUND(5u);                                                                          \
        PHILOX_ROUND(6u);                                                                          \
        PHILOX_ROUND(7u);                                                                          \
        PHILOX_ROUND(8u);                                                                          \
        PHILOX_ROUND(9u);                                                                          \
    } while (0)

static inline void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    PHILOX_ROUNDS();
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
