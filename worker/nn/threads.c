#include "nn/threads.h"

static int n_threads = 1;

void threads_set(int n)
{
#ifdef _OPENMP
    n_threads = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
#else
    (void)n;
#endif
}

int threads_count(void)
{
    return n_threads;
}
