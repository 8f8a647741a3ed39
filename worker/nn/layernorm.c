#include "nn/layernorm.h"

#include <string.h>

#include "nn/lanes.h"
#include "nn/threads.h"

#define SUMS 3 /* of a chunk of rows: dgain, dbias, dy_bias */

size_t layernorm_partial_floats(int T, int C)
{
    return (size_t)threads_chunks(T) * SUMS * (size_t)C;
}

void layernorm_forward(const struct layernorm_forward *n, const struct packed *batch, int C,
                       const struct dropout *drop)
{
    int T = packed_tokens(batch);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int token = 0; token < T; token++) {
        size_t at = (size_t)token * (size_t)C;
        struct dropout_row mask = dropout_token(drop, batch, token);
        struct lanes_norm row = {
            .res = n->res ? n->res + at : NULL,
            .y = n->y + at,
            .gain = n->gain,
            .bias = n->bias,
            .eps = n->eps,
            .xhat = n->xhat + at,
            .out = n->out + at,
        };

        n->rstd[token] = lanes()->norm(&row, C, &mask);
    }
}

/* The rows of one chunk; their sums over rows go to sums[SUMS,C], overwritten. */
static void backward_chunk(const struct layernorm_backward *n, const struct packed *batch, int C,
                           const struct dropout *drop, int chunk)
{
    float *sums = n->partial + (size_t)chunk * SUMS * (size_t)C;
    int T = packed_tokens(batch);
    int end = (chunk + 1) * THREADS_CHUNK_ROWS;

    memset(sums, 0, SUMS * (size_t)C * sizeof *sums);
    for (int token = chunk * THREADS_CHUNK_ROWS; token < end && token < T; token++) {
        size_t at = (size_t)token * (size_t)C;
        struct dropout_row mask = dropout_token(drop, batch, token);
        struct lanes_norm_back row = {
            .dout = n->dout + at,
            .xhat = n->xhat + at,
            .gain = n->gain,
            .rstd = n->rstd[token],
            .dsum = n->dsum + at,
            .dy = n->dy ? n->dy + at : NULL,
            .dgain_acc = sums,
            .dbias_acc = sums + C,
            .dy_acc = sums + 2 * (size_t)C,
        };

        lanes()->norm_back(&row, C, &mask);
    }
}

void layernorm_backward(const struct layernorm_backward *n, const struct packed *batch, int C,
                        const struct dropout *drop)
{
    int chunks = threads_chunks(packed_tokens(batch));

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int chunk = 0; chunk < chunks; chunk++)
        backward_chunk(n, batch, C, drop, chunk);
    for (int chunk = 0; chunk < chunks; chunk++) {
        const float *sums = n->partial + (size_t)chunk * SUMS * (size_t)C;

        lanes()->add(n->dgain, sums, C);
        lanes()->add(n->dbias, sums + C, C);
        if (n->dy)
            lanes()->add(n->dy_bias, sums + 2 * (size_t)C, C);
    }
}
