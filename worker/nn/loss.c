#include "nn/loss.h"

#include <math.h>
#include <stddef.h>

#include "nn/lanes.h"
#include "nn/threads.h"

static int largest(const float *logits, int N)
{
    int best = 0;

    for (int i = 1; i < N; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

void loss_cross_entropy(float *losses, float *dlogits, const float *logits, const int32_t *labels,
                        int B, int N, float factor)
{
    for (int b = 0; b < B; b++) {
        const float *row = logits + (size_t)b * (size_t)N;
        double max = row[largest(row, N)], sum = 0.0;

        for (int i = 0; i < N; i++)
            sum += exp(row[i] - max);
        losses[b] = (float)(log(sum) + max - row[labels[b]]);
        for (int i = 0; dlogits && i < N; i++) {
            double p = exp(row[i] - max) / sum;

            dlogits[(size_t)b * (size_t)N + (size_t)i] =
                (float)((p - (i == labels[b] ? 1.0 : 0.0)) * factor);
        }
    }
}

void loss_vocabulary(float *losses, int32_t *predictions, float *logits, const int32_t *labels,
                     int B, int N, float factor)
{
    const struct dropout_row none = {0};

#pragma omp parallel for num_threads(threads_count()) schedule(static)
    for (int b = 0; b < B; b++) {
        float *row = logits + (size_t)b * (size_t)N;
        int best = largest(row, N);
        double below = (double)row[best] - row[labels[b]];

        losses[b] = (float)(below - log((double)lanes()->softmax(row, N, 1.0f, &none)));
        predictions[b] = best;
        row[labels[b]] -= 1.0f;
        for (int i = 0; i < N; i++)
            row[i] *= factor;
    }
}

void loss_squared(float *losses, float *douts, const float *outs, const float *targets, int B,
                  float factor)
{
    for (int b = 0; b < B; b++) {
        double error = (double)outs[b] - targets[b];

        losses[b] = (float)(error * error);
        if (douts)
            douts[b] = (float)(2.0 * error * factor);
    }
}

void loss_predict(int32_t *predictions, const float *logits, int B, int N)
{
    for (int b = 0; b < B; b++)
        predictions[b] = largest(logits + (size_t)b * (size_t)N, N);
}
