#include "nn/sgd.h"

#include "nn/lanes.h"
#include "nn/threads.h"

#define STEP_BLOCK 16384

void sgd_step(const struct sgd *a, float *p, float *g, float *m, size_t n)
{
    struct lanes_sgd c = {
        .grad_scale = (float)a->grad_scale,
        .decay = (float)a->decay,
        .momentum = (float)a->momentum,
        .rate = (float)a->lr,
    };

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (size_t at = 0; at < n; at += STEP_BLOCK)
        lanes()->sgd(&c, p + at, g + at, m + at, n - at < STEP_BLOCK ? n - at : STEP_BLOCK);
}
