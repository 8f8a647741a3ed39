/* nn/lanes_philox.h (private) - Philox4x32-10 on 16 neighbouring counters, for nn/lanes_body.h
 * only.
 *
 * The 32-bit words stand in the low halves of 64-bit elements, since processors multiply 32 bits by
 * 32 to 64 there; what the high halves hold is never read. Compilers do not find that instruction
 * by themselves (GCC 12 takes the three times slower 64-bit product), so it is named here.
 */
#ifndef NN_LANES_PHILOX_H
#define NN_LANES_PHILOX_H

#include <string.h>

#include "nn/lanes.h"
#include "nn/lanes_math.h"
#include "nn/philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PHILOX_EACH 8 /* counters of one vector */

typedef uint64_t philox_words __attribute__((vector_size(PHILOX_EACH * sizeof(uint64_t))));

/* Products of the low halves. */
INLINE philox_words philox_multiply(philox_words a, uint32_t b)
{
#if defined(__AVX512F__)
    return (philox_words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64((long long)b));
#elif defined(__AVX2__)
    __m256i parts[2];

    memcpy(parts, &a, sizeof parts);
    for (int i = 0; i < 2; i++)
        parts[i] = _mm256_mul_epu32(parts[i], _mm256_set1_epi64x((long long)b));
    memcpy(&a, parts, sizeof parts);
    return a;
#elif defined(__x86_64__)
    __m128i parts[4];

    memcpy(parts, &a, sizeof parts);
    for (int i = 0; i < 4; i++)
        parts[i] = _mm_mul_epu32(parts[i], _mm_set1_epi64x((long long)b));
    memcpy(&a, parts, sizeof parts);
    return a;
#else
    return (a & 0xffffffffu) * b;
#endif
}

/* Counters `first`, first + 2 .. first + 14 of the row. */
INLINE void philox_half(philox_words c[4], const struct dropout_row *row, uint32_t first)
{
    const philox_words steps = {0, 2, 4, 6, 8, 10, 12, 14}, zero = {0};
    uint32_t k0 = row->key[0], k1 = row->key[1];
    philox_words c0 = steps + first, c1 = zero + row->row, c2 = zero + row->sample;
    philox_words c3 = zero + row->step;

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        philox_words even = philox_multiply(c0, PHILOX_MUL0);
        philox_words odd = philox_multiply(c2, PHILOX_MUL1);

        c0 = (odd >> 32) ^ c1 ^ k0;
        c1 = odd;
        c2 = (even >> 32) ^ c3 ^ k1;
        c3 = even;
        k0 += PHILOX_KEY0;
        k1 += PHILOX_KEY1;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/* Word w of counter first + i to words[w * LANES + i], i below LANES. */
INLINE void lanes_philox(uint32_t words[LANES_BLOCK], const struct dropout_row *row, uint32_t first)
{
    philox_words even[4], odd[4];

    philox_half(even, row, first);
    philox_half(odd, row, first + 1);
    for (int w = 0; w < 4; w++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        philox_words both = (even[w] & 0xffffffffu) | (odd[w] << 32);
#else
        philox_words both = (odd[w] & 0xffffffffu) | (even[w] << 32);
#endif
        memcpy(words + w * LANES, &both, sizeof both);
    }
}

#endif
