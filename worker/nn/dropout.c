#include "nn/dropout.h"

#include <string.h>

#include "nn/lanes.h"
#include "nn/threads.h"

struct dropout_row dropout_row(const struct dropout *d, enum dropout_site site, uint32_t sample,
                               uint32_t row)
{
    struct dropout_row r = {
        .key = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32) ^ (d->unit * 16u + (uint32_t)site)},
        .row = row,
        .sample = sample,
        .step = d->step,
        .threshold = (uint32_t)((double)d->rate * 4294967296.0),
        .scale = 1.0f / (1.0f - d->rate),
    };

    return r;
}

struct dropout_row dropout_token(const struct dropout *d, const struct packed *batch, int token)
{
    int seq = packed_seq_of(batch, token);

    return dropout_row(d, DROPOUT_HIDDEN, batch->samples[seq],
                       (uint32_t)(token - batch->starts[seq]));
}

void dropout_apply(float *out, const float *in, const struct packed *batch, int C,
                   const struct dropout *d)
{
    int T = packed_tokens(batch);

    if (d->rate <= 0.0f) {
        if (out != in)
            memcpy(out, in, (size_t)T * (size_t)C * sizeof *out);
        return;
    }
#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int token = 0; token < T; token++) {
        struct dropout_row drop = dropout_token(d, batch, token);
        size_t at = (size_t)token * (size_t)C;

        lanes()->dropout(out + at, in + at, C, &drop);
    }
}
