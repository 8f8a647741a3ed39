/* data/random.h - pseudo-random numbers as functions of a key and a counter.
 *
 * Sample order, masks and sentence pairs depend on them. There is no state, so a job that resumes
 * at any step, on any number of stages, sees the same numbers. The mixing function is the finaliser
 * of SplitMix64 (Steele, Lea and Flood 2014).
 * Layer: data. Threads: any; pure.
 */
#ifndef DATA_RANDOM_H
#define DATA_RANDOM_H

#include <stdint.h>

/* Every bit of the input reaches every bit of the output. */
uint64_t random_mix(uint64_t x);

/* A key derived from `key`, one for each `what`. */
uint64_t random_key(uint64_t key, uint64_t what);

/* 0 <= result < n; n > 0. */
uint64_t random_below(uint64_t key, uint64_t counter, uint64_t n);

#endif
