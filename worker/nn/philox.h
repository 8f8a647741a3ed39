/* nn/philox.h (private) - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * Four random words are a pure function of a 128-bit counter and a 64-bit key: nothing is carried
 * from one call to the next, so any number of the stream can be had anywhere, in any order.
 * nn/lanes_philox.h computes the same for 16 counters side by side.
 * Layer: nn. Threads: any; pure.
 */
#ifndef NN_PHILOX_H
#define NN_PHILOX_H

#include <stdint.h>

#define PHILOX_MUL0 0xD2511F53u
#define PHILOX_MUL1 0xCD9E8D57u
#define PHILOX_KEY0 0x9E3779B9u
#define PHILOX_KEY1 0xBB67AE85u

#define PHILOX_ROUNDS 10

static inline void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t even = (uint64_t)PHILOX_MUL0 * c0;
        uint64_t odd = (uint64_t)PHILOX_MUL1 * c2;

        c0 = (uint32_t)(odd >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)odd;
        c2 = (uint32_t)(even >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)even;
        k0 += PHILOX_KEY0;
        k1 += PHILOX_KEY1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
