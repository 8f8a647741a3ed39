#include "data/random.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* SplitMix64's step: 2^64 over the golden ratio */

uint64_t random_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t random_key(uint64_t key, uint64_t what)
{
    return random_mix(random_mix(key + GOLDEN) + what);
}

/* The high half of a product: bias below n / 2^64. In halves, as ISO C has no 128 bits. */
uint64_t random_below(uint64_t key, uint64_t counter, uint64_t n)
{
    uint64_t r = random_mix(key + GOLDEN * (counter + 1));
    uint64_t r_high = r >> 32;
    uint64_t r_low = r & UINT32_MAX;
    uint64_t n_high = n >> 32;
    uint64_t n_low = n & UINT32_MAX;
    uint64_t cross = r_high * n_low + (r_low * n_low >> 32);

    return r_high * n_high + (cross >> 32) + ((r_low * n_high + (cross & UINT32_MAX)) >> 32);
}
