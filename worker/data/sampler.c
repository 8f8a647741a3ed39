#include "data/sampler.h"

#define ROUNDS 8
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

enum err_code sampler_init(struct sampler *s, uint64_t seed, uint64_t n_samples,
                           uint32_t batch_size, struct err *err)
{
    int half_bits = 1;

    if (batch_size < 1)
        return err_set(err, ERR_INVALID, "a batch needs at least one sample");
    if (n_samples < 1)
        return err_set(err, ERR_INVALID, "no samples to train on");
    if (n_samples > UINT64_C(1) << 60)
        return err_set(err, ERR_LIMIT, "too many samples");
    while (UINT64_C(1) << (2 * half_bits) < n_samples)
        half_bits++;
    *s = (struct sampler){
        .seed = seed, .n_samples = n_samples, .batch_size = batch_size, .half_bits = half_bits};
    return ERR_OK;
}

uint64_t sampler_steps_per_epoch(const struct sampler *s)
{
    return (s->n_samples + s->batch_size - 1) / s->batch_size;
}

/* One permutation of 0 .. 4^half_bits - 1 for each key. */
static uint64_t feistel(uint64_t x, uint64_t key, int half_bits)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits;
    uint64_t right = x & mask;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t keyed = right + key + GOLDEN * (uint64_t)(round + 1);
        uint64_t next = left ^ (random_mix(keyed) >> (64 - half_bits));

        left = right;
        right = next;
    }
    return (left << half_bits) | right;
}

uint64_t sampler_at(const struct sampler *s, uint64_t epoch, uint64_t position)
{
    uint64_t key = random_key(s->seed, epoch);
    uint64_t x = position;

    /* The domain is below 4 n, so it takes four rounds on average. It ends because a permutation's
     * cycle that holds `position` comes back below n at `position` itself at the latest. */
    do
        x = feistel(x, key, s->half_bits);
    while (x >= s->n_samples);
    return x;
}

uint32_t sampler_step(const struct sampler *s, uint64_t step, uint64_t *out_samples)
{
    uint64_t per_epoch = sampler_steps_per_epoch(s);
    uint64_t epoch = step / per_epoch;
    uint64_t first = step % per_epoch * s->batch_size;
    uint32_t n = 0;

    for (; n < s->batch_size && first + n < s->n_samples; n++)
        out_samples[n] = sampler_at(s, epoch, first + n);
    return n;
}
