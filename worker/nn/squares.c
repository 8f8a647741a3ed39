#include "nn/squares.h"

#include "nn/lanes.h"
#include "nn/threads.h"

#define SUM_BLOCK  4096 /* as the header promises */
#define SUM_BLOCKS 256  /* summed before their sums are added up */

double squares_sum(const float *x, size_t n)
{
    double sums[SUM_BLOCKS], total = 0.0;

    for (size_t first = 0; first < n; first += (size_t)SUM_BLOCKS * SUM_BLOCK) {
        size_t blocks = (n - first + SUM_BLOCK - 1) / SUM_BLOCK;

        blocks = blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS;
#pragma omp parallel for num_threads(threads_count()) schedule(static)
        for (size_t i = 0; i < blocks; i++) {
            size_t at = first + i * SUM_BLOCK;

            sums[i] = lanes()->sum_squares(x + at, n - at < SUM_BLOCK ? n - at : SUM_BLOCK);
        }
        for (size_t i = 0; i < blocks; i++)
            total += sums[i];
    }
    return total;
}
