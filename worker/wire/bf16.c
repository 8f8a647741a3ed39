#include "wire/bf16.h"

#include <string.h>

/* Loops without branches, so that compilers make vectors of them. */

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void bf16_pack(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = bits_of(in[i]);
        uint32_t rounded = (x + 0x7fffu + (x >> 16 & 1u)) >> 16;
        uint32_t nan = x >> 16 | 0x40u; /* rounding could carry it into infinity */

        out[i] = (uint16_t)((x & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
}

void bf16_unpack(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;

        memcpy(&out[i], &bits, sizeof bits);
    }
}
