#include "nn/optimizers.h"

#include "nn/lanes.h"
#include "nn/threads.h"

#define STEP_BLOCK 16384 /* elements of a thread's share */
#define SUM_BLOCK  4096  /* as the header promises */
#define SUM_BLOCKS 256   /* summed before their sums are added up */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void adamw_step(const struct adamw *a, float *p, float *g, float *m, float *v, size_t n)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (size_t at = 0; at < n; at += STEP_BLOCK)
        lanes()->adamw(a, p + at, g + at, m + at, v + at, least(n - at, STEP_BLOCK));
}

void sgd_step(const struct sgd *a, float *p, float *g, float *m, size_t n)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (size_t at = 0; at < n; at += STEP_BLOCK)
        lanes()->sgd(a, p + at, g + at, m + at, least(n - at, STEP_BLOCK));
}

double squares_sum(const float *x, size_t n)
{
    double sums[SUM_BLOCKS], total = 0.0;

    for (size_t first = 0; first < n; first += (size_t)SUM_BLOCKS * SUM_BLOCK) {
        size_t blocks = least((n - first + SUM_BLOCK - 1) / SUM_BLOCK, SUM_BLOCKS);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
        for (size_t i = 0; i < blocks; i++) {
            size_t at = first + i * SUM_BLOCK;

            sums[i] = lanes()->sum_squares(x + at, least(n - at, SUM_BLOCK));
        }
        for (size_t i = 0; i < blocks; i++)
            total += sums[i];
    }
    return total;
}
