#include "nn/embedding.h"

#include <stddef.h>

#include "nn/lanes.h"
#include "nn/threads.h"

#define COLUMNS 64 /* that one thread adds up at a time */

static const float *row_of(const float *table, int row, int C)
{
    return table + (size_t)row * (size_t)C;
}

void embedding_forward(float *out, const struct embedding_tables *tables, const int32_t *ids,
                       const int32_t *types, const struct packed *batch, int C)
{
    int T = packed_tokens(batch);

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int t = 0; t < T; t++) {
        int position = t - batch->starts[packed_seq_of(batch, t)];
        const float *word = row_of(tables->word, ids[t], C);
        const float *type = row_of(tables->type, types[t], C);
        const float *place = row_of(tables->position, position, C);

        for (int c = 0; c < C; c++)
            out[(size_t)t * (size_t)C + (size_t)c] = word[c] + type[c] + place[c];
    }
}

/* Columns at..at+n-1 of all tokens. */
static void add_tokens(const struct embedding_grads *grads, const float *dout, const int32_t *ids,
                       const int32_t *types, const struct packed *batch, int C, int at, int n)
{
    for (int seq = 0; seq < batch->n_seqs; seq++)
        for (int t = batch->starts[seq]; t < batch->starts[seq + 1]; t++) {
            const float *d = row_of(dout, t, C) + at;
            size_t position = (size_t)(t - batch->starts[seq]);

            lanes()->add(grads->word + (size_t)ids[t] * (size_t)C + at, d, n);
            lanes()->add(grads->position + position * (size_t)C + at, d, n);
            lanes()->add(grads->type + (size_t)types[t] * (size_t)C + at, d, n);
        }
}

void embedding_backward(const struct embedding_grads *grads, const float *dout, const int32_t *ids,
                        const int32_t *types, const struct packed *batch, int C)
{
    int step = threads_count() > 1 ? COLUMNS : C;

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int at = 0; at < C; at += step)
        add_tokens(grads, dout, ids, types, batch, C, at, C - at < step ? C - at : step);
}
