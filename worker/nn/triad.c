#include "nn/triad.h"

#include "nn/threads.h"

void triad(float *a, const float *b, const float *c, float factor, size_t n)
{
#pragma omp parallel for simd num_threads(threads_count()) schedule(static)
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + factor * c[i];
}
