#include "train/stragglers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double sorted[STRAGGLERS_WINDOW];

    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static int n_values(const struct stragglers_replica *r)
{
    return r->n_usual < STRAGGLERS_WINDOW ? r->n_usual : STRAGGLERS_WINDOW;
}

double stragglers_usual_ms(const struct stragglers *s, int replica)
{
    const struct stragglers_replica *r = &s->replicas[replica];

    return r->n_usual < STRAGGLERS_LEAST ? 0 : median(r->usual_ms, n_values(r));
}

static bool is_slow_sample(const struct stragglers *s, int replica, double ms)
{
    const struct stragglers_replica *r = &s->replicas[replica];
    double usual_ms = stragglers_usual_ms(s, replica);
    double deviations[STRAGGLERS_WINDOW];

    if (usual_ms == 0)
        return false;
    for (int i = 0; i < n_values(r); i++)
        deviations[i] = fabs(r->usual_ms[i] - usual_ms);
    return ms > STRAGGLERS_TIMES * usual_ms &&
           ms > usual_ms + STRAGGLERS_MADS * median(deviations, n_values(r));
}

/* 0: the replica had nothing to do in that time. */
static bool add_sample(struct stragglers *s, int replica, double ms)
{
    struct stragglers_replica *r = &s->replicas[replica];
    bool is_slow;

    r->n_slow += r->is_slow;
    if (r->n_slow == STRAGGLERS_LASTS) {
        *r = (struct stragglers_replica){.last_ms = r->last_ms};
        return true;
    }
    if (ms == 0)
        return false;
    is_slow = is_slow_sample(s, replica, ms);
    r->last_ms = ms;
    r->n_row = is_slow == r->is_slow ? 0 : r->n_row + 1;
    if (!is_slow)
        r->usual_ms[r->n_usual++ % STRAGGLERS_WINDOW] = ms;
    if (r->n_row < STRAGGLERS_ROW)
        return false;
    r->is_slow = is_slow;
    r->n_row = r->n_slow = 0;
    return true;
}

bool stragglers_add(struct stragglers *s, int replica, double ms, double elapsed_ms)
{
    struct stragglers_replica *r = &s->replicas[replica];
    double sample_ms;

    r->elapsed_ms += elapsed_ms;
    r->sum_ms += ms;
    r->n_summed += ms > 0;
    if (r->elapsed_ms < STRAGGLERS_SAMPLE_MS)
        return false;
    sample_ms = r->n_summed > 0 ? r->sum_ms / r->n_summed : 0;
    r->sum_ms = r->elapsed_ms = 0;
    r->n_summed = 0;
    return add_sample(s, replica, sample_ms);
}

uint32_t stragglers_found(const struct stragglers *s)
{
    uint32_t found = 0;

    for (int k = 0; k < PLAN_REPLICAS_MAX; k++)
        found |= (uint32_t)s->replicas[k].is_slow << k;
    return found;
}

/* Every micro-batch to the replica that is done first with it. */
static void deal(const struct plan *plan, const double *ms, const int *most, int *out)
{
    for (int m = 0; m < plan->micro_batches; m++) {
        int next = -1;

        for (int k = 0; k < plan_n_replicas(plan); k++)
            if (out[k] < most[k] && (next < 0 || (out[k] + 1) * ms[k] < (out[next] + 1) * ms[next]))
                next = k;
        out[next]++;
    }
}

void stragglers_share(const struct stragglers *s, const struct plan *plan, int64_t step,
                      int out[static PLAN_REPLICAS_MAX])
{
    uint32_t found = stragglers_found(s);
    int n = plan_n_replicas(plan);
    int most[PLAN_REPLICAS_MAX];
    double ms[PLAN_REPLICAS_MAX];
    bool is_known = found != 0;
    int room = 0;

    for (int k = 0; k < n; k++) {
        int stages = plan_replica(plan, k).n_stages;
        bool is_short = plan->shares[k] < stages; /* of slots */

        ms[k] = s->replicas[k].is_slow ? s->replicas[k].last_ms : stragglers_usual_ms(s, k);
        is_known = is_known && ms[k] > 0;
        most[k] = is_short ? plan->shares[k] : plan->micro_batches;
        room += s->replicas[k].is_slow ? 0 : most[k];
    }
    memcpy(out, plan->shares, PLAN_REPLICAS_MAX * sizeof *out);
    if (!is_known || room < plan->micro_batches)
        return;
    memset(out, 0, PLAN_REPLICAS_MAX * sizeof *out);
    deal(plan, ms, most, out);
    for (int k = 0; k < n && step % STRAGGLERS_LOOK == 0; k++) {
        int from = 0;

        if (out[k] > 0)
            continue;
        for (int i = 1; i < n; i++)
            from = out[i] > out[from] ? i : from;
        out[from]--;
        out[k]++;
    }
}
