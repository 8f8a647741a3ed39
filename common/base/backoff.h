/* base/backoff.h - pauses between retries that double with every failure.
 *
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/* The pause after `n_failures` in a row: 0 without a failure, `first_ms` after the first, then
 * doubled with each, up to `max_ms`. */
int64_t backoff_ms(int n_failures, int64_t first_ms, int64_t max_ms);

#endif
