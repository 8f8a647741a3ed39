#include "kube/backoff.h"

int64_t backoff_ms(int n_failures, uint32_t random)
{
    int64_t wait_ms = BACKOFF_FIRST_MS;

    for (int i = 1; i < n_failures && wait_ms < BACKOFF_MAX_MS; i++)
        wait_ms *= 2;
    wait_ms += wait_ms * (random % 1024) / 1024;
    return wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS;
}
