#include "nn/linear.h"

#include <stddef.h>
#include <string.h>

#include "nn/gemm.h"
#include "nn/lanes.h"
#include "nn/threads.h"

#define BIAS_COLUMNS 512 /* a thread's share of the columns: two pages wide at most */

void linear_forward(float *y, const float *x, const float *w, const float *b, struct linear n)
{
    /* OpenBLAS runs over y once anyway to apply beta; filling in the bias takes that pass's place.
     */
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < n.T; t++)
        memcpy(y + (size_t)t * (size_t)n.O, b, (size_t)n.O * sizeof *y);
    gemm(GEMM_NT, n.T, n.O, n.I, 1.0f, (struct gemm_in){x, n.I}, (struct gemm_in){w, n.I},
         (struct gemm_out){y, n.O, 1.0f});
}

void linear_backward_input(float *dx, const float *dy, const float *w, struct linear n, int add)
{
    gemm(GEMM_NN, n.T, n.I, n.O, 1.0f, (struct gemm_in){dy, n.O}, (struct gemm_in){w, n.I},
         (struct gemm_out){dx, n.I, add ? 1.0f : 0.0f});
}

void linear_backward_weight(float *dw, const float *dy, const float *x, struct linear n)
{
    gemm(GEMM_TN, n.O, n.I, n.T, 1.0f, (struct gemm_in){dy, n.O}, (struct gemm_in){x, n.I},
         (struct gemm_out){dw, n.I, 1.0f});
}

void linear_backward_bias(float *db, const float *dy, struct linear n)
{
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int at = 0; at < n.O; at += BIAS_COLUMNS) {
        int count = n.O - at < BIAS_COLUMNS ? n.O - at : BIAS_COLUMNS;

        lanes()->add_columns(db + at, dy + at, n.T, n.O, count);
    }
}
