/* nn/lanes_math.h (private) - elementary functions in float that compilers turn into vector code.
 *
 * For nn/lanes_body.h only: the code depends on the flags of the file that includes it. Branch-free
 * and without library calls. Measured against libm in double over all arguments in use:
 *   lanes_expf   1e-7 relative for -87 <= x <= 88; below -87.3 it stays at 1.2e-38
 *   lanes_tanhf  1e-7 relative
 *   lanes_phi    see nn/gelu.h
 */
#ifndef NN_LANES_MATH_H
#define NN_LANES_MATH_H

#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__FMA__) || defined(__aarch64__)
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

INLINE uint32_t float_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } pun = {.f = x};

    return pun.u;
}

INLINE float float_of(uint32_t bits)
{
    union {
        uint32_t u;
        float f;
    } pun = {.u = bits};

    return pun.f;
}

/* exp(x + low) for a small correction `low`: 2^n e^r with r in -ln2/2 .. ln2/2. */
INLINE float lanes_expf2(float x, float low)
{
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum. */
    const float magic = 12582912.0f;
    float y = x < -87.3f ? -87.3f : x;
    float t, n, r, p;

    y = y > 88.0f ? 88.0f : y;
    t = FMA(y, 1.44269504f, magic);
    n = t - magic;
    r = FMA(n, -0.693359375f, y); /* ln 2 in two parts: the first product is exact */
    r = FMA(n, 2.12194440e-4f, r);
    r = r + low;
    p = FMA(0.001392624648f, r, 0.008363229402f);
    p = FMA(p, r, 0.04166655424f);
    p = FMA(p, r, 0.1666657669f);
    p = FMA(p, r, 0.5f);
    p = FMA(p, r, 1.0f);
    p = FMA(p, r, 1.0f);
    return float_of(float_bits(p) + (float_bits(t) << 23));
}

INLINE float lanes_expf(float x)
{
    return lanes_expf2(x, 0.0f);
}

/* The normal distribution: returns Phi(x), and its density in *out_density.
 *
 * The small half Phi(-|x|) = exp(-x^2/2) t p(t) keeps its relative accuracy; the other half is one
 * less it. x^2 is split so that rounding it does not spoil the exponential: 12 bits squared are
 * exact. Beyond |x| = 12 both stay at their value there, 2e-33. */
INLINE float lanes_phi(float x, float *out_density)
{
    float z = x < 0.0f ? -x : x;
    float high, low, e, t, p;

    z = z > 12.0f ? 12.0f : z;
    high = float_of(float_bits(z) & 0xfffff000u);
    low = z - high;
    e = lanes_expf2(-0.5f * high * high, -0.5f * low * (z + high));
    t = 1.0f / FMA(0.35f, z, 1.0f);
    p = FMA(-0.02960979549f, t, 0.1462242065f);
    p = FMA(p, t, -0.2603379054f);
    p = FMA(p, t, 0.1643917355f);
    p = FMA(p, t, -0.02663309792f);
    p = FMA(p, t, 0.1069582404f);
    p = FMA(p, t, 0.1194794327f);
    p = FMA(p, t, 0.139908265f);
    p = FMA(p, t, 0.139618902f);
    p = p * t * e;
    *out_density = 0.3989422804f * e;
    return x < 0.0f ? p : 1.0f - p;
}

INLINE float lanes_tanhf(float x)
{
    float z = x < 0.0f ? -x : x;
    float zz = x * x;
    float e, large, small;

    z = z > 15.0f ? 15.0f : z;
    e = lanes_expf(z + z);
    large = 1.0f - 2.0f / (e + 1.0f);
    large = x < 0.0f ? -large : large;
    small = FMA(0.002060621432f, zz, -0.008113507018f);
    small = FMA(small, zz, 0.0216894059f);
    small = FMA(small, zz, -0.05394817033f);
    small = FMA(small, zz, 0.1333325017f);
    small = FMA(small, zz, -0.3333333277f);
    small = FMA(small * zz, x, x);
    return z < 0.7f ? small : large;
}

#endif
