#include "nn/gelu.h"

#include <string.h>

#include "nn/lanes.h"
#include "nn/threads.h"

void gelu_forward(float *g, const float *h, int T, int F)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < T; t++)
        lanes()->gelu(g + (size_t)t * (size_t)F, h + (size_t)t * (size_t)F, F);
}

size_t gelu_partial_floats(int T, int F)
{
    return (size_t)threads_chunks(T) * (size_t)F;
}

void gelu_backward(float *h, float *dg, float *dbias, float *partial, int T, int F)
{
    int chunks = threads_chunks(T);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int chunk = 0; chunk < chunks; chunk++) {
        float *sums = partial + (size_t)chunk * (size_t)F;
        int end = (chunk + 1) * THREADS_CHUNK_ROWS;

        memset(sums, 0, (size_t)F * sizeof *sums);
        for (int t = chunk * THREADS_CHUNK_ROWS; t < end && t < T; t++)
            lanes()->gelu_back(h + (size_t)t * (size_t)F, dg + (size_t)t * (size_t)F, sums, F);
    }
    for (int chunk = 0; chunk < chunks; chunk++)
        lanes()->add(dbias, partial + (size_t)chunk * (size_t)F, F);
}
