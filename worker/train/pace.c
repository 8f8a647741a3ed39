#include "train/pace.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sorts the values. */
static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void start_sample(struct pace *p)
{
    for (int i = 0; i < PACE_TIMES; i++)
        p->sums[i] = 0;
    p->sum_ms = 0;
    p->n_summed = 0;
}

void pace_add(struct pace *p, double elapsed_ms, const double times_ms[static PACE_TIMES])
{
    if (p->n_steps++ == PACE_WARM_STEPS)
        start_sample(p);
    for (int i = 0; i < PACE_TIMES; i++)
        p->sums[i] += times_ms[i];
    p->sum_ms += elapsed_ms;
    p->n_summed++;
    if (p->n_steps <= PACE_WARM_STEPS || p->sum_ms < PACE_SAMPLE_MS)
        return;
    for (int i = 0; i < PACE_TIMES; i++)
        p->samples[i][p->n_samples % PACE_WINDOW] = p->sums[i] / p->n_summed;
    p->n_samples++;
    start_sample(p);
}

struct pace_figures pace_of(const struct pace *p, int i)
{
    int n = p->n_samples < PACE_WINDOW ? (int)p->n_samples : PACE_WINDOW;
    double values[PACE_WINDOW];
    struct pace_figures f = {.median_ms = 0};

    if (n == 0) {
        f.median_ms = p->n_summed > 0 ? p->sums[i] / p->n_summed : 0;
        return f;
    }
    for (int k = 0; k < n; k++)
        values[k] = p->samples[i][k];
    f.median_ms = median(values, n);
    for (int k = 0; k < n; k++)
        values[k] = fabs(p->samples[i][k] - f.median_ms);
    f.mad_ms = median(values, n);
    return f;
}
