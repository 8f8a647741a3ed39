/* kube/bucket.h - a token bucket: so many at once, then one every so often.
 *
 * Pure: time is handed in, in ms, and must not go back. Layer: kube. Threads: one.
 */
#ifndef KUBE_BUCKET_H
#define KUBE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
    int64_t burst;
    int64_t refill_ms; /* for one token; at least 1 */
    int64_t tokens;
    int64_t since_ms; /* up to when tokens have been counted */
};

/* Full at `now_ms`. */
void bucket_init(struct bucket *b, int64_t burst, int64_t refill_ms, int64_t now_ms);

/* Take one token; false when there is none. */
bool bucket_take(struct bucket *b, int64_t now_ms);

/* How long until there is a token; 0: there is one. */
int64_t bucket_wait_ms(const struct bucket *b, int64_t now_ms);

#endif
