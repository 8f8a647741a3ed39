#include "nn/threads.h"

#include <stdbool.h>

static int n_threads = 1;
static _Thread_local bool is_alone;

void threads_set(int n)
{
#ifdef _OPENMP
    n_threads = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
#else
    (void)n;
#endif
}

void threads_set_alone(void)
{
    is_alone = true;
}

int threads_count(void)
{
    return is_alone ? 1 : n_threads;
}
