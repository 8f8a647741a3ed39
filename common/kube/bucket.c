#include "kube/bucket.h"

void bucket_init(struct bucket *b, int64_t burst, int64_t refill_ms, int64_t now_ms)
{
    *b = (struct bucket){
        .burst = burst > 1 ? burst : 1,
        .refill_ms = refill_ms > 1 ? refill_ms : 1,
        .since_ms = now_ms,
    };
    b->tokens = b->burst;
}

bool bucket_take(struct bucket *b, int64_t now_ms)
{
    int64_t n_new = now_ms > b->since_ms ? (now_ms - b->since_ms) / b->refill_ms : 0;

    if (n_new >= b->burst - b->tokens) {
        b->tokens = b->burst; /* full: nothing is saved up beyond it */
        b->since_ms = now_ms > b->since_ms ? now_ms : b->since_ms;
    } else {
        b->tokens += n_new;
        b->since_ms += n_new * b->refill_ms;
    }
    if (b->tokens == 0)
        return false;
    b->tokens--;
    return true;
}

int64_t bucket_wait_ms(const struct bucket *b, int64_t now_ms)
{
    int64_t wait_ms = b->since_ms + b->refill_ms - now_ms;

    return b->tokens > 0 || wait_ms < 0 ? 0 : wait_ms;
}
