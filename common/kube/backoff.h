/* kube/backoff.h - how long to wait before the next try.
 *
 * Pure. 0.8 s, twice as long after every failure, up to 30 s, and on top of it up to as much again
 * by chance, so that many clients do not come back at the same moment.
 * Layer: kube. Threads: any.
 */
#ifndef KUBE_BACKOFF_H
#define KUBE_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_MS 800
#define BACKOFF_MAX_MS   30000 /* without the random part; with it never more than this either */

/* `n_failures` in a row so far, at least 1; `random` any 32 random bits. */
int64_t backoff_ms(int n_failures, uint32_t random);

#endif
