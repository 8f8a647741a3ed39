#include "nn/adamw.h"

#include <math.h>

#include "nn/lanes.h"
#include "nn/threads.h"

#define STEP_BLOCK 16384

void adamw_step(const struct adamw *a, float *p, float *g, float *m, float *v, size_t n)
{
    struct lanes_adamw c = {
        .keep = (float)(1.0 - a->lr * a->decay),
        .grad_scale = (float)a->grad_scale,
        .beta1_left = (float)(1.0 - a->beta1),
        .beta2 = (float)a->beta2,
        .beta2_left = (float)(1.0 - a->beta2),
        .rsqrt_bias2 = (float)(1.0 / sqrt(1.0 - pow(a->beta2, (double)a->step))),
        .eps = (float)a->eps,
        .rate = (float)(a->lr / (1.0 - pow(a->beta1, (double)a->step))),
    };

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (size_t at = 0; at < n; at += STEP_BLOCK)
        lanes()->adamw(&c, p + at, g + at, m + at, v + at,
                       n - at < STEP_BLOCK ? n - at : STEP_BLOCK);
}
