/* data/sampler.h - which samples make up step s, and the random numbers behind it.
 *
 * Sample order, masks and sentence pairs depend on pseudo-random numbers that are functions of a
 * key and a counter. There is no state, so a job that resumes at any step, on any number of
 * stages, sees the same numbers. The mixing function is the finaliser of SplitMix64 (Steele, Lea
 * and Flood 2014).
 *
 * Every epoch is a permutation of the samples. It is never stored: position p of epoch e is
 * computed by a small Feistel network keyed with (seed, e) over the next power of four, applied
 * until the result is below n (format-preserving encryption by cycle walking: Black and Rogaway,
 * "Ciphers with Arbitrary Finite Domains", 2002). The last batch of an epoch may be smaller.
 * Layer: data. Threads: any; everything here is pure.
 */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Every bit of the input reaches every bit of the output. */
uint64_t random_mix(uint64_t x);

/* A key derived from `key`, one for each `what`. */
uint64_t random_key(uint64_t key, uint64_t what);

/* 0 <= result < n; n > 0. */
uint64_t random_below(uint64_t key, uint64_t counter, uint64_t n);

struct sampler {
    uint64_t seed;
    uint64_t n_samples;
    uint32_t batch_size; /* samples of a step */
    int half_bits;       /* private: the network works on 2 * half_bits bits */
};

/* ERR_INVALID without a sample, ERR_LIMIT for too many. */
MUST_CHECK enum err_code sampler_init(struct sampler *s, uint64_t seed, uint64_t n_samples,
                                      uint32_t batch_size, struct err *err);

uint64_t sampler_steps_per_epoch(const struct sampler *s);

/* The sample at `position` (0 <= position < n_samples) of `epoch`. */
uint64_t sampler_at(const struct sampler *s, uint64_t epoch, uint64_t position);

/* The samples of `step` (from 0, over all epochs). Returns how many: batch_size, or fewer in the
 * last step of an epoch. */
uint32_t sampler_step(const struct sampler *s, uint64_t step, uint64_t *out_samples);

#endif
