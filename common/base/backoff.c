#include "base/backoff.h"

int64_t backoff_ms(int n_failures, int64_t first_ms, int64_t max_ms)
{
    int64_t ms = first_ms;

    if (n_failures < 1)
        return 0;
    for (int i = 1; i < n_failures && ms < max_ms; i++)
        ms *= 2;
    return ms < max_ms ? ms : max_ms;
}
