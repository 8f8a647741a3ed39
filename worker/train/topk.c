#include "train/topk.h"

#include <stdint.h>
#include <string.h>

#include "wire/bf16.h"

#define GAP_MAX  255
#define INFINITE 0x7f800000u /* as bits; NaN is above */

#define DIGIT_BITS 11 /* three digits hold the 31 bits of a magnitude */
#define DIGITS     (1u << DIGIT_BITS)

static size_t entries_of(const struct topk *t, size_t n)
{
    size_t k = n * (size_t)t->percent / 100;

    return k > 0 ? k : 1;
}

static size_t value_bytes(const struct topk *t)
{
    return t->is_bf16 ? sizeof(uint16_t) : sizeof(float);
}

size_t topk_max_bytes(const struct topk *t, size_t n)
{
    return entries_of(t, n) * (value_bytes(t) + 1) + n / GAP_MAX;
}

/* Floats without their sign are in the order of their bits. */
static uint32_t magnitude(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The k-th largest magnitude, digit by digit, and how many entries of just this one are among the k
 * largest. */
static uint32_t kth_largest(const float *x, size_t n, size_t k, size_t *out_n_equal)
{
    uint32_t found = 0, known = 0; /* bits */

    for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        size_t counts[DIGITS] = {0};
        uint32_t digit = DIGITS - 1;

        for (size_t i = 0; i < n; i++) {
            uint32_t m = magnitude(x[i]);

            if ((m & known) == found)
                counts[m >> shift & (DIGITS - 1)]++;
        }
        for (; counts[digit] < k; digit--)
            k -= counts[digit];
        found |= digit << shift;
        known |= (DIGITS - 1) << shift;
    }
    *out_n_equal = k;
    return found;
}

/* Write a value; returns what of it did not get into it. */
static float put_value(const struct topk *t, float value, char *to)
{
    uint16_t rounded;
    float sent;

    if (!t->is_bf16) {
        memcpy(to, &value, sizeof value);
        return 0;
    }
    bf16_pack(&rounded, &value, 1);
    memcpy(to, &rounded, sizeof rounded);
    bf16_unpack(&sent, &rounded, 1);
    return magnitude(sent) < INFINITE ? value - sent : 0;
}

size_t topk_take(const struct topk *t, float *grads, float *unsent, size_t n, void *out)
{
    size_t k = entries_of(t, n), n_equal, gap = 0;
    char *value = out;
    unsigned char *gaps = (unsigned char *)out + k * value_bytes(t);
    uint32_t least;

    for (size_t i = 0; i < n; i++)
        unsent[i] += grads[i];
    memset(grads, 0, n * sizeof *grads);
    least = kth_largest(unsent, n, k, &n_equal);
    for (size_t i = 0; i < n; i++) {
        uint32_t m = magnitude(unsent[i]);

        if (m < least || (m == least && n_equal == 0)) {
            if (m >= INFINITE)
                unsent[i] = 0;
            gap++;
            continue;
        }
        n_equal -= m == least;
        unsent[i] = put_value(t, unsent[i], value);
        value += value_bytes(t);
        for (; gap >= GAP_MAX; gap -= GAP_MAX)
            *gaps++ = GAP_MAX;
        *gaps++ = (unsigned char)gap;
        gap = 0;
    }
    return (size_t)((char *)gaps - (char *)out);
}

enum err_code topk_read(const struct topk *t, const void *in, size_t bytes, float *out, size_t n,
                        struct err *err)
{
    size_t k = entries_of(t, n), size = value_bytes(t), n_read = 0, at = 0;
    const char *value = in;
    const unsigned char *gaps = (const unsigned char *)in + k * size;
    const unsigned char *end = (const unsigned char *)in + bytes;

    memset(out, 0, n * sizeof *out);
    if (bytes < k * (size + 1) || bytes > topk_max_bytes(t, n))
        return err_set(err, ERR_PROTOCOL,
                       "%zu bytes with the largest of %zu gradients, not %zu to %zu", bytes, n,
                       k * (size + 1), topk_max_bytes(t, n));
    for (; gaps < end; gaps++) {
        at += *gaps;
        if (*gaps == GAP_MAX)
            continue;
        if (at >= n || n_read == k)
            return err_set(err, ERR_PROTOCOL, "entry %zu of %zu is at %zu of %zu gradients",
                           n_read + 1, k, at, n);
        if (t->is_bf16) {
            uint16_t rounded;

            memcpy(&rounded, value, size);
            bf16_unpack(&out[at++], &rounded, 1);
        } else {
            memcpy(&out[at++], value, size);
        }
        value += size;
        n_read++;
    }
    if (n_read < k)
        return err_set(err, ERR_PROTOCOL, "%zu of %zu entries", n_read, k);
    return ERR_OK;
}
