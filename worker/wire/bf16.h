/* wire/bf16.h - floats as bfloat16: half the bytes on a slow link.
 *
 * bfloat16 is the upper half of a float: its range, with 8 bits of precision. Rounded to nearest,
 * ties to even, so the relative error is at most 2^-8 in the normal range; infinities stay and NaN
 * stays one. Layer: wire (uses nothing). Threads: any; pure.
 */
#ifndef WIRE_BF16_H
#define WIRE_BF16_H

#include <stddef.h>
#include <stdint.h>

void bf16_pack(uint16_t *out, const float *in, size_t n);
void bf16_unpack(float *out, const uint16_t *in, size_t n);

#endif
